#include "cli/watch/top_frame.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "server/status/status_text.h"

namespace ringwood {
namespace {

constexpr char kBold[] = "\x1b[1m", kDim[] = "\x1b[2m", kRed[] = "\x1b[31m", kYellow[] = "\x1b[33m",
               kPlain[] = "";
constexpr char kReset[] = "\x1b[0m";
constexpr int kLeastEvents = 3;  // lines that events have where there are some
constexpr size_t kMaxLineBytes = 4000;

struct Line {
  std::string text;
  const char* color = kPlain;
};

const char* ColorOf(const v1::SlotState& slot) {
  if (slot.state() == "gone") return kRed;
  if (slot.state() == "silent" || slot.awaited() || !slot.straggles().empty()) return kYellow;
  return slot.state() == "present" ? kPlain : kDim;
}

std::vector<Line> HeadOf(const TopView& view) {
  const v1::StatusResponse& status = view.status;
  const bool fine = status.phase() == "running";
  std::vector<Line> lines = {{"ringwood: " + StateLine(status), fine ? kBold : kYellow}};
  if (!view.trouble.empty()) lines.push_back({Printable(view.trouble, kMaxLineBytes), kRed});
  if (!status.waiting_for().empty()) {
    lines.push_back({Printable(status.waiting_for(), kMaxLineBytes)});
  }
  if (!status.last_failure().empty()) {
    lines.push_back({"last failure: " + Printable(status.last_failure(), kMaxLineBytes), kRed});
  }
  return lines;
}

std::vector<Line> MembersOf(const v1::StatusResponse& status) {
  std::vector<Line> lines;
  for (const std::string& text : SlotLines(status)) {
    const int slot = static_cast<int>(lines.size()) - 1;
    lines.push_back({text, slot < 0 ? kBold : ColorOf(status.slots(slot))});
  }
  return lines;
}

// The newest first.
std::vector<Line> EventsOf(const v1::StatusResponse& status) {
  std::vector<Line> lines;
  for (int i = status.events_size() - 1; i >= 0; --i) {
    const bool worse = status.events(i).level() != "info";
    lines.push_back({EventLine(status.events(i)), worse ? kYellow : kPlain});
  }
  return lines;
}

// `most` lines at most, the last of which says how many more there are.
void AddSome(const std::vector<Line>& from, int most, std::vector<Line>* to) {
  const int count = static_cast<int>(from.size());
  const int shown = count <= most ? count : std::max(0, most - 1);
  to->insert(to->end(), from.begin(), from.begin() + shown);
  if (shown < count && most > 0) {
    to->push_back({absl::StrFormat("... %d more", count - shown), kDim});
  }
}

}  // namespace

std::string FirstColumns(const std::string& text, int columns) {
  size_t at = 0;
  for (int seen = 0; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;
    if (begins && seen++ == columns) break;
  }
  return text.substr(0, at);
}

std::vector<std::string> TopFrame(const TopView& view, TerminalSize size, bool color) {
  std::vector<Line> lines = HeadOf(view);
  const std::vector<Line> members = MembersOf(view.status), events = EventsOf(view.status);
  const std::string checkpoints = CheckpointLine(view.status);
  const int kept =
      (checkpoints.empty() ? 0 : 1) + std::min(kLeastEvents, static_cast<int>(events.size()));
  const auto left = [&] { return std::max(0, size.rows - static_cast<int>(lines.size())); };
  AddSome(members, std::max(0, left() - kept), &lines);
  if (!checkpoints.empty()) lines.push_back({checkpoints});
  AddSome(events, left(), &lines);
  if (static_cast<int>(lines.size()) > size.rows) lines.resize(std::max(0, size.rows));
  std::vector<std::string> frame;
  for (const Line& line : lines) {
    const std::string text = FirstColumns(line.text, size.columns);
    frame.push_back(color && *line.color != '\0' ? line.color + text + kReset : text);
  }
  return frame;
}

}  // namespace ringwood

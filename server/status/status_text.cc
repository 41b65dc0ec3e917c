#include "server/status/status_text.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/log_line.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "server/status/status_json.h"

namespace ringwood {
namespace {

constexpr int kMostEventsShown = 10;
constexpr size_t kMaxHostBytes = 60;
constexpr size_t kMaxTextBytes = 1000;

std::string SecondsOrDash(double seconds) { return seconds > 0 ? FormatSeconds(seconds) : "-"; }

// Three digits, and all of those before the point: 4.2057 → "4.21", 1234.5 → "1234".
std::string FormatRate(double rate) {
  return rate >= 999.5 ? absl::StrFormat("%.0f", rate) : absl::StrFormat("%.3g", rate);
}

std::string RemarksOn(const v1::SlotState& slot) {
  std::vector<std::string> remarks;
  if (slot.awaited()) remarks.push_back("the others wait for it");
  if (!slot.straggles().empty()) remarks.push_back("straggler: " + slot.straggles());
  if (slot.state() == "silent") {
    remarks.push_back("no heartbeat for " + FormatSeconds(slot.silence_seconds()));
  }
  if (slot.processes() > 1) remarks.push_back(absl::StrFormat("process %d", slot.processes()));
  return Printable(absl::StrJoin(remarks, "; "), kMaxTextBytes);
}

std::vector<std::string> RowOf(const v1::SlotState& slot) {
  const v1::MemberReport& totals = slot.totals();
  const bool rank = slot.role() == v1::ROLE_WORKER;
  const uint64_t sent = totals.ring().bytes() + totals.tree().bytes();
  const double steps = static_cast<double>(totals.steps());
  return {
      slot.has_node() ? std::to_string(slot.node()) : "-",
      RoleName(slot.role()),
      std::to_string(slot.slot()),
      Printable(slot.host(), kMaxHostBytes),
      slot.state(),
      rank ? std::to_string(totals.steps()) : "-",
      SecondsOrDash(slot.step_seconds()),
      SecondsOrDash(slot.exposed_seconds()),
      SecondsOrDash(slot.late_seconds()),
      totals.steps() > 0 ? FormatBytes(static_cast<double>(sent) / steps) : "-",
      totals.resident_bytes() > 0 ? FormatBytes(static_cast<double>(totals.resident_bytes())) : "-",
      RemarksOn(slot)};
}

}  // namespace

std::string StateLine(const v1::StatusResponse& status) {
  std::string line = status.phase();
  if (status.job() != 0) line += ", job " + NameOfJob(status.job());
  absl::StrAppendFormat(&line, ", epoch %d, step %d", status.epoch(), status.step());
  if (status.steps_per_second() > 0) {
    line += ", " + FormatRate(status.steps_per_second()) + " steps/s";
  }
  if (status.failures() > 0) {
    line += ", " + FormatCount(static_cast<int>(status.failures()), "failure");
  }
  return line;
}

std::vector<std::string> SlotLines(const v1::StatusResponse& status) {
  if (status.slots().empty()) return {};
  std::vector<std::vector<std::string>> rows = {{"NODE", "ROLE", "RANK", "HOST", "STATE", "STEPS",
                                                 "STEP", "EXPOSED", "LATE", "SENT/STEP", "MEMORY",
                                                 "REMARKS"}};
  for (const v1::SlotState& slot : status.slots()) rows.push_back(RowOf(slot));
  std::vector<std::string> lines = absl::StrSplit(FormatTable(rows), '\n');
  lines.pop_back();  // behind the last newline
  return lines;
}

std::string EventLine(const v1::JobEvent& event) {
  return absl::StrFormat("%s %s step %d: %s", FormatMoment(event.unix_seconds()), event.name(),
                         event.step(), Printable(event.text(), kMaxTextBytes));
}

std::string CheckpointLine(const v1::StatusResponse& status) {
  if (status.checkpoints().empty()) return "";
  std::vector<std::string> steps;
  for (const v1::CheckpointFacts& kept : status.checkpoints()) {
    steps.push_back(std::to_string(kept.step()));
  }
  return (steps.size() == 1 ? "checkpoint of step " : "checkpoints of steps ") +
         absl::StrJoin(steps, ", ");
}

std::string StatusText(const v1::StatusResponse& status) {
  std::string text = StateLine(status) + "\n";
  const auto add = [&text](const std::string& line) {
    if (!line.empty()) text += line + "\n";
  };
  add(Printable(status.waiting_for(), kMaxTextBytes));
  if (!status.last_failure().empty()) {
    add("last failure: " + Printable(status.last_failure(), kMaxTextBytes));
  }
  for (const std::string& line : SlotLines(status)) add(line);
  if (status.has_plan()) {
    add(absl::StrFormat("plan %d by %s: %s of %s, %s a step predicted",
                        status.plan().generation() + 1, status.plan().planner(),
                        FormatCount(static_cast<int>(status.plan().groups()), "group"),
                        FormatCount(static_cast<int>(status.plan().tensors()), "tensor"),
                        FormatSeconds(status.plan().predicted_seconds())));
  }
  add(CheckpointLine(status));
  const int first = std::max(0, status.events_size() - kMostEventsShown);
  for (int i = first; i < status.events_size(); ++i) add(EventLine(status.events(i)));
  return text;
}

}  // namespace ringwood

#include "timeline/chrome.h"

#include <array>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "base/quoted.h"

namespace ringwood {
namespace {

constexpr const char* kLaneNames[] = {"trainer", "selection", "ring", "tree"};

// Several groups of a route may run at once, and the spans of a thread must not overlap: a lane has
// threads for those behind the first, too.
constexpr int kRows = 16;

int ThreadOfRow(TimelineLane lane, int row) {
  if (row == 0) return static_cast<int>(lane);
  const int behind = lane == TimelineLane::kRing ? 0 : kRows - 1;
  return static_cast<int>(std::size(kLaneNames)) + behind + row - 1;
}

// For spans in order of their begins: the first row of their lane that is free, or the last row
// where none is.
class Rows {
 public:
  int ThreadOf(const TimelineSpan& span) {
    if (span.lane != TimelineLane::kRing && span.lane != TimelineLane::kTree) {
      return static_cast<int>(span.lane);
    }
    std::array<int64_t, kRows>& end = end_[span.lane == TimelineLane::kTree];
    int row = 0;
    while (row + 1 < kRows && end[row] > span.begin_nanoseconds) ++row;
    end[row] = span.end_nanoseconds;
    return ThreadOfRow(span.lane, row);
  }

 private:
  std::array<std::array<int64_t, kRows>, 2> end_{};
};

std::string Microseconds(int64_t nanoseconds) {
  return absl::StrFormat("%d.%03d", nanoseconds / 1000, nanoseconds % 1000);
}

uint64_t IdOf(const TimelineChunk& chunk) {
  uint64_t id = Combine(chunk.round, static_cast<uint64_t>(chunk.lane));
  id = Combine(id, chunk.group);
  return Combine(id, chunk.chunk);
}

uint64_t FlowId(const TimelineChunk& chunk, int from, int to) {
  const uint64_t id = Combine(IdOf(chunk), static_cast<uint64_t>(from));
  return Combine(id, static_cast<uint64_t>(to));
}

TimelineLane LaneOf(const TimelineChunk& chunk) {
  return chunk.lane == Lane::kSparse ? TimelineLane::kTree : TimelineLane::kRing;
}

// "ph" (and more), pid, tid and ts: how every event of a chunk begins.
std::string Head(const char* phase, int rank, const TimelineChunk& chunk, int64_t nanoseconds) {
  return absl::StrFormat("{\"ph\":%s,\"pid\":%d,\"tid\":%d,\"ts\":%s", phase, rank,
                         static_cast<int>(LaneOf(chunk)), Microseconds(nanoseconds));
}

void AppendArrowEnd(const char* phase, int rank, const TimelineChunk& chunk, int peer, uint64_t id,
                    int64_t nanoseconds, std::string* lines) {
  if (nanoseconds == 0) return;
  absl::StrAppendFormat(lines,
                        "%s,\"cat\":\"flow\",\"name\":\"chunk\",\"id\":\"%016x\",\"args\":{"
                        "\"round\":%d,\"group\":%d,\"chunk\":%d,\"peer\":%d}},\n",
                        Head(phase, rank, chunk, nanoseconds), id, chunk.round, chunk.group,
                        chunk.chunk, peer);
}

}  // namespace

std::string ChromeOpening(const TimelineInfo& info) {
  const bool server = info.rank >= info.world;
  const std::string name = absl::StrFormat("%s %d (host %s)", server ? "server" : "rank",
                                           server ? info.rank - info.world : info.rank, info.host);
  std::string lines = "[\n";
  absl::StrAppendFormat(&lines,
                        "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":%s}"
                        "},\n",
                        info.rank, JsonString(name));
  const auto name_thread = [&](int thread, const std::string& name) {
    absl::StrAppendFormat(&lines,
                          "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{"
                          "\"name\":\"%s\"}},\n",
                          info.rank, thread, name);
  };
  int thread = 0;
  for (const char* lane : kLaneNames) name_thread(thread++, lane);
  for (const TimelineLane lane : {TimelineLane::kRing, TimelineLane::kTree}) {
    for (int row = 1; row < kRows; ++row) {
      name_thread(ThreadOfRow(lane, row),
                  absl::StrFormat("%s %d", kLaneNames[static_cast<int>(lane)], row + 1));
    }
  }
  absl::StrAppendFormat(
      &lines,
      "{\"ph\":\"M\",\"pid\":%d,\"name\":\"ringwood\",\"args\":{\"job\":\"%016x\",\"epoch\":%d,"
      "\"rank\":%d,\"world\":%d,\"host\":%s}},\n",
      info.rank, info.job, info.epoch, info.rank, info.world, JsonString(info.host));
  return lines;
}

std::string ChromeLines(int rank, const std::vector<TimelineSpan>& spans) {
  std::string lines;
  Rows rows;
  for (const TimelineSpan& span : spans) {
    absl::StrAppendFormat(
        &lines,
        "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%s,\"dur\":%s,\"cat\":\"%s\",\"name\":%s,"
        "\"args\":{\"round\":%d,\"group\":%d,\"bytes\":%d}},\n",
        rank, rows.ThreadOf(span), Microseconds(span.begin_nanoseconds),
        Microseconds(span.end_nanoseconds - span.begin_nanoseconds), span.category,
        JsonString(span.name), span.round, span.group, span.bytes);
  }
  return lines;
}

std::string ChromeLines(int rank, const std::vector<TimelineChunk>& chunks) {
  std::string lines;
  for (const TimelineChunk& chunk : chunks) {
    const std::string name = absl::StrFormat(
        ",\"cat\":\"chunk\",\"name\":\"group %d chunk %d\",\"id2\":{\"local\":\"%016x\"}",
        chunk.group, chunk.chunk, IdOf(chunk));
    absl::StrAppendFormat(&lines, "%s%s,\"args\":{\"round\":%d,\"bytes\":%d}},\n",
                          Head("\"b\"", rank, chunk, chunk.begin_nanoseconds), name, chunk.round,
                          chunk.sent_bytes);
    absl::StrAppendFormat(&lines, "%s%s},\n", Head("\"e\"", rank, chunk, chunk.end_nanoseconds),
                          name);
    for (const TimelineChunk::Touch& touch : chunk.touches) {
      AppendArrowEnd("\"s\"", rank, chunk, touch.peer, FlowId(chunk, rank, touch.peer),
                     touch.first_sent_nanoseconds, &lines);
      AppendArrowEnd("\"f\",\"bp\":\"e\"", rank, chunk, touch.peer, FlowId(chunk, touch.peer, rank),
                     touch.first_received_nanoseconds, &lines);
    }
  }
  return lines;
}

}  // namespace ringwood

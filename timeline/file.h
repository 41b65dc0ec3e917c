// Timelines read back from files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "timeline/span.h"

namespace ringwood {

// One end of an arrow from rank to rank.
struct TimelineArrowEnd {
  std::string id;  // the same at both ends
  bool from = false;
  int peer = 0;  // the rank (or server) at the other end
  int64_t at_nanoseconds = 0;
};

// The timeline of one rank or server, from its own file or a merged one.
struct RankTimeline {
  TimelineInfo info;
  std::vector<TimelineSpan> spans;
  std::vector<TimelineArrowEnd> arrows;
  std::vector<nlohmann::ordered_json> events;  // all, unchanged
};

constexpr size_t kMaxTimelineFileBytes = size_t{4} << 30;  // far above any useful timeline

// One entry per rank, by rank, then the servers. Files are untrusted input: errors name file and
// line. A last line that was cut is left out. kInvalidArgument when two files hold the same rank,
// or different jobs.
StatusOr<std::vector<RankTimeline>> ReadTimelineFiles(const std::vector<std::string>& files);

// `text` is the content of `file`, whose name only the errors use. Appends to `ranks`.
Status ParseTimelineFile(const std::string& text, const std::string& file,
                         std::vector<RankTimeline>* ranks);

}  // namespace ringwood

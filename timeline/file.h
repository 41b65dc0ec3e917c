// Timelines read back from files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "timeline/span.h"

namespace ringwood {

// One end of an arrow from rank to rank.
struct TraceArrowEnd {
  std::string id;  // the same at both ends
  bool from = false;
  int peer = 0;  // the rank (or server) at the other end
  int64_t at_nanoseconds = 0;
};

// What the file of a rank or server holds, or a merged file holds of one.
struct RankTrace {
  TraceInfo info;
  std::vector<TraceSpan> spans;
  std::vector<TraceArrowEnd> arrows;
  std::vector<nlohmann::ordered_json> events;  // everything, as it stood in the file
};

constexpr size_t kMaxTraceFileBytes = size_t{4} << 30;  // far above any useful timeline

// One entry a rank, by rank, then the servers. Files are believed nothing: errors name file and
// line. A last line that was cut is left out. kInvalidArgument when two files hold the same rank,
// or different jobs.
StatusOr<std::vector<RankTrace>> ReadTraceFiles(const std::vector<std::string>& files);

// `text` is the content of `file`, whose name only the errors use. Appends to `ranks`.
Status ParseTraceFile(const std::string& text, const std::string& file,
                      std::vector<RankTrace>* ranks);

}  // namespace ringwood

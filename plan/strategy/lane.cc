#include "plan/strategy/lane.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/units.h"

namespace ringwood {

bool Allowed(const LaneInput& lane, size_t first, size_t last, double bytes) {
  return first == last || lane.group_limit_bytes == 0 ||
         bytes <= static_cast<double>(lane.group_limit_bytes);
}

Grouping Play(const LaneInput& lane, const std::vector<size_t>& lasts) {
  Grouping grouping;
  size_t first = 0;
  double free = 0;
  for (const size_t last : lasts) {
    RW_CHECK(last >= first && last < lane.bytes.size());
    double bytes = 0;
    for (size_t j = first; j <= last; ++j) bytes += static_cast<double>(lane.bytes[j]);
    Run run{first, last, std::max(free, lane.ready_seconds[last]), 0, ""};
    run.end_seconds = run.start_seconds + lane.cost.Seconds(bytes);
    free = run.end_seconds;
    first = last + 1;
    grouping.push_back(std::move(run));
  }
  RW_CHECK(first == lane.bytes.size());
  return grouping;
}

double EndOf(const Grouping& grouping) {
  return grouping.empty() ? 0 : grouping.back().end_seconds;
}

namespace {

std::string MergeReason(const LaneInput& lane, const Run& run, double free) {
  if (run.first == run.last) return "alone";
  double bytes = 0;
  double apart = 0;
  for (size_t j = run.first; j <= run.last; ++j) {
    bytes += static_cast<double>(lane.bytes[j]);
    apart += lane.cost.Seconds(static_cast<double>(lane.bytes[j]));
  }
  const double saved = apart - lane.cost.Seconds(bytes);
  const double wait =
      std::max(0.0, lane.ready_seconds[run.last] - std::max(free, lane.ready_seconds[run.first]));
  return absl::StrCat("merged ", run.last - run.first + 1, ": waiting ", FormatSeconds(wait),
                      " saves ", FormatSeconds(saved), " of start-ups");
}

std::string CloseReason(const LaneInput& lane, const Run& run) {
  if (run.last + 1 == lane.bytes.size()) return "last gradient";
  const double wait = lane.ready_seconds[run.last + 1] - run.start_seconds;
  if (wait <= 0) return "closed although the next is ready: a later group hides better";
  return absl::StrCat("closed: the next gradient is ", FormatSeconds(wait), " away, a start-up is ",
                      FormatSeconds(lane.cost.Startup()));
}

}  // namespace

void Explain(const LaneInput& lane, Grouping& grouping) {
  double free = 0;
  for (Run& run : grouping) {
    run.reason = absl::StrCat(MergeReason(lane, run, free), "; ", CloseReason(lane, run));
    free = run.end_seconds;
  }
}

}  // namespace ringwood

#include "plan/strategy/lane.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/units.h"

namespace ringwood {
namespace {

double BytesOf(const LaneInput& lane, size_t first, size_t last) {
  double bytes = 0;
  for (size_t j = first; j <= last; ++j) bytes += static_cast<double>(lane.bytes[j]);
  return bytes;
}

}  // namespace

bool Allowed(const LaneInput& lane, size_t first, size_t last, double bytes) {
  return first == last || lane.group_limit_bytes == 0 ||
         bytes <= static_cast<double>(lane.group_limit_bytes);
}

Grouping Play(const LaneInput& lane, const std::vector<size_t>& lasts) {
  Grouping grouping;
  size_t first = 0;
  double free = 0;
  OnTheWay on_the_way(lane.window);
  for (const size_t last : lasts) {
    RW_CHECK(last >= first && last < lane.bytes.size());
    const double bytes = BytesOf(lane, first, last);
    Run run{first, last, std::max({free, lane.ready_seconds[last], on_the_way.Room()}), 0, ""};
    free = run.start_seconds + lane.cost.Seconds(bytes);
    run.end_seconds = free + lane.delay.Of(bytes);
    on_the_way.Add(run.end_seconds);
    first = last + 1;
    grouping.push_back(std::move(run));
  }
  RW_CHECK(first == lane.bytes.size());
  return grouping;
}

double EndOf(const Grouping& grouping) {
  double end = 0;
  for (const Run& run : grouping) end = std::max(end, run.end_seconds);
  return end;
}

namespace {

std::string MergeReason(const LaneInput& lane, const Run& run, double free) {
  if (run.first == run.last) return "alone";
  double apart = 0;
  for (size_t j = run.first; j <= run.last; ++j) {
    apart += lane.cost.Seconds(static_cast<double>(lane.bytes[j]));
  }
  const double saved = apart - lane.cost.Seconds(BytesOf(lane, run.first, run.last));
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
    free = run.start_seconds + lane.cost.Seconds(BytesOf(lane, run.first, run.last));
  }
}

}  // namespace ringwood

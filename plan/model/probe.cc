#include "plan/model/probe.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/median.h"

namespace ringwood {
namespace {

constexpr int kFewestRounds = 3;

}  // namespace

StatusOr<ProbeResult> Probe(const std::function<StatusOr<double>(uint64_t bytes)>& message,
                            const ProbeOptions& options) {
  const TimePoint deadline = Now() + Seconds(options.limit_seconds);
  std::vector<std::vector<double>> by_size(options.sizes.size());
  ProbeResult result;
  int rounds = 0;
  for (int repeat = 0; repeat <= options.repeats && Now() < deadline; ++repeat) {
    for (size_t s = 0; s < options.sizes.size(); ++s) {
      RW_ASSIGN_OR_RETURN(const double seconds, message(options.sizes[s]));
      if (repeat == 0) continue;
      by_size[s].push_back(seconds);
      result.samples.emplace_back(static_cast<double>(options.sizes[s]), seconds);
    }
    rounds = repeat;
  }
  if (rounds < std::min(kFewestRounds, options.repeats)) {
    return TimedOut(absl::StrFormat(
        "probe: %d rounds in %g s are too few to fit; allow more time or smaller messages", rounds,
        options.limit_seconds));
  }
  for (size_t s = 0; s < options.sizes.size(); ++s) {
    result.medians.emplace_back(static_cast<double>(options.sizes[s]), Median(by_size[s]));
  }
  result.medians = Cost::Monotone(std::move(result.medians));
  RW_ASSIGN_OR_RETURN(result.fit, FitRobust(result.samples));
  return result;
}

}  // namespace ringwood

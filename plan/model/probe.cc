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
  const TimePoint begun = Now();
  const TimePoint deadline = begun + Seconds(options.limit_seconds);
  std::vector<std::vector<double>> by_size(options.sizes.size());
  ProbeResult result;
  int repeats = options.repeats, rounds = 0;
  for (int round = 0; round <= repeats && Now() < deadline; ++round) {
    for (size_t s = 0; s < options.sizes.size(); ++s) {
      RW_ASSIGN_OR_RETURN(const double seconds, message(options.sizes[s]));
      by_size[s].push_back(seconds);
    }
    rounds = round;
    if (round == 0 && options.repeats_behind) {
      RW_ASSIGN_OR_RETURN(repeats, options.repeats_behind(ToSeconds(Now() - begun)));
    }
  }
  if (rounds < std::min(kFewestRounds, repeats)) {
    return TimedOut(absl::StrFormat(
        "probe: %d rounds in %g s are too few to fit; allow more time or smaller messages", rounds,
        options.limit_seconds));
  }
  for (size_t s = 0; s < options.sizes.size(); ++s) {
    if (repeats > 0) by_size[s].erase(by_size[s].begin());
    for (const double seconds : by_size[s]) {
      result.samples.emplace_back(static_cast<double>(options.sizes[s]), seconds);
    }
  }
  for (size_t s = 0; s < options.sizes.size(); ++s) {
    result.medians.emplace_back(static_cast<double>(options.sizes[s]), Median(by_size[s]));
  }
  result.medians = Cost::Monotone(std::move(result.medians));
  RW_ASSIGN_OR_RETURN(result.fit, FitRobust(result.samples));
  return result;
}

}  // namespace ringwood

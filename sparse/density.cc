#include "sparse/density.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/units.h"

namespace ringwood {

DensityChoice ChooseDensity(const DensityInput& input) {
  RW_CHECK(input.elements >= 1 && input.seconds_per_entry > 0 && input.max_ratio >= 1);
  const double n = static_cast<double>(input.elements);
  const uint64_t least = std::max<uint64_t>(1, std::ceil(n / input.max_ratio));
  const double budget =
      input.hiding_seconds - input.backlog_seconds - input.select_seconds - input.latency_seconds;
  const double entries = std::floor(std::clamp(budget / input.seconds_per_entry, 0.0, n));
  DensityChoice choice;
  choice.k = std::max(least, static_cast<uint64_t>(entries));
  choice.density = static_cast<double>(choice.k) / n;
  if (input.hiding_seconds == 0) {
    choice.reason = "the last tensor: nothing follows to hide behind";
  } else if (entries < static_cast<double>(least)) {
    choice.reason = absl::StrFormat("cannot hide: %s of computation, %s before the first entry",
                                    FormatSeconds(input.hiding_seconds),
                                    FormatSeconds(input.hiding_seconds - budget));
  } else {
    choice.reason = absl::StrFormat("%d entries hide behind %s of computation", choice.k,
                                    FormatSeconds(input.hiding_seconds));
  }
  return choice;
}

}  // namespace ringwood

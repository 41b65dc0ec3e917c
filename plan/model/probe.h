// Measures what messages cost on this network and fits it. What a message is (one hop, an
// all-reduce of the job, a climb) is the caller's: it brings the function that runs one and times
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "plan/model/fit.h"

namespace ringwood {

struct ProbeOptions {
  std::vector<uint64_t> sizes = {1 << 10, 1 << 14, 1 << 17, 1 << 19, 1 << 21, 1 << 22};
  int repeats = 7;            // of each size, interleaved; a round before them warms up
  double limit_seconds = 10;  // no message is begun after it; three rounds are needed
  // Optional: gets the seconds of the first round, and its answer replaces `repeats`. 0: there is
  // no other round, and the first one is the result.
  std::function<StatusOr<int>(double first_seconds)> repeats_behind = nullptr;
};

struct ProbeResult {
  AffineFit fit;                                   // robust, over all samples
  std::vector<std::pair<double, double>> samples;  // (bytes, seconds)
  std::vector<std::pair<double, double>> medians;  // by size, made monotone: ready for Cost::Table
};

// Runs `message(bytes)`, which answers with its seconds or an error that ends the probe. Blocks.
StatusOr<ProbeResult> Probe(const std::function<StatusOr<double>(uint64_t bytes)>& message,
                            const ProbeOptions& options);

}  // namespace ringwood

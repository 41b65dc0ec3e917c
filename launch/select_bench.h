// Selection on this machine against what it cannot avoid: `ringwood bench select`.
#pragma once

#include <cstdint>
#include <vector>

namespace ringwood {

struct SelectBenchResult {
  uint64_t elements = 0;
  uint64_t k = 0;
  double momentum = 0;
  double plain_seconds = 0;   // e += g in place (with momentum: u = m·u + g; e += u), no selection
  double select_seconds = 0;  // residual into the shadow and exact selection, warm
  double commit_seconds = 0;
  double ratio = 0;  // median of the pairs' select / plain
  double least_ratio = 0, most_ratio = 0;
};

// Interleaved pairs (plain, ours, plain, …), medians; one thread.
SelectBenchResult MeasureSelection(uint64_t elements, double density, float momentum, int pairs);

}  // namespace ringwood

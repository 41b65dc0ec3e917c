// `ringwood bench select`: residual update with selection against the update alone.
#pragma once

#include <cstdint>

#include "sparse/selector.h"

namespace ringwood {

struct SelectBenchCase {
  uint64_t elements = 16000000;
  double density = 0.001;
  Method method = Method::kExact;
  float momentum = 0;
  int pairs = 15;
};

struct SelectBenchResult {
  uint64_t elements = 0;
  uint64_t k = 0;
  double momentum = 0;
  double plain_seconds = 0;   // e += g in place (with momentum: u = m·u + g; e += u), no selection
  double select_seconds = 0;  // residual into the shadow and selection, warm
  double commit_seconds = 0;
  double picked = 0;  // mean of the entries found, over k
  double ratio = 0;   // median of the pairs' select / plain
  double least_ratio = 0, most_ratio = 0;
};

// Interleaved pairs (plain, ours, plain, …), medians; one thread.
SelectBenchResult MeasureSelection(const SelectBenchCase& bench);

}  // namespace ringwood

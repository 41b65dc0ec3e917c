// Entries to measure with: one in each of `count` equal parts of a tensor, heavy-tailed values.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "sparse/entries.h"

namespace ringwood {

// 1 <= count <= elements. The cube of a symmetric variable: few are large, as in a gradient.
inline Entries SpreadEntries(uint64_t elements, uint64_t count, uint64_t seed) {
  Random random(seed);
  Entries entries;
  for (uint64_t j = 0; j < count; ++j) {
    const uint64_t begin = elements * j / count, end = elements * (j + 1) / count;
    const double u = random.Unit() + random.Unit() - 1;
    entries.push_back(static_cast<uint32_t>(begin + random.Below(end - begin)),
                      static_cast<float>(u * u * u));
  }
  return entries;
}

}  // namespace ringwood

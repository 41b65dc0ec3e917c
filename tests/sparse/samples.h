// Gradients for the tests of the sparse engine: integer multiples of a unit, so that sums are
// exact.
#pragma once

#include <vector>

#include "base/random.h"
#include "sparse/codec.h"
#include "sparse/entries.h"
#include "sparse/shard.h"

namespace ringwood {

enum class Pattern { kRandom, kTies, kAllEqual, kSignedZeros, kDenormals, kSame, kCount };

inline std::vector<float> MakeGradient(Pattern pattern, uint64_t elements, int worker,
                                       uint64_t seed) {
  Random random(seed * 1000003 + worker);
  std::vector<float> gradient(elements);
  for (uint64_t i = 0; i < elements; ++i) {
    const float integer = static_cast<float>(static_cast<int>(random.Below(2001)) - 1000);
    switch (pattern) {
      case Pattern::kTies:
        gradient[i] = static_cast<float>(static_cast<int>(random.Below(5)) - 2);
        break;
      case Pattern::kAllEqual:
        gradient[i] = 3;
        break;
      case Pattern::kSignedZeros:
        gradient[i] = random.Below(4) == 0 ? integer : random.Below(2) ? 0.0f : -0.0f;
        break;
      case Pattern::kDenormals:
        gradient[i] = integer * 0x1p-149f;
        break;
      case Pattern::kSame:
        gradient[i] = static_cast<float>((i * 7919 + seed) % 97) * (worker % 2 ? -1 : 1);
        break;
      default:
        gradient[i] = integer;
    }
  }
  return gradient;
}

inline Entries RandomEntries(uint64_t elements, uint64_t count, uint64_t seed) {
  Random random(seed);
  Entries entries;
  for (uint64_t i = 0; entries.size() < count;
       ++i) {  // selection sampling: O(elements), any density
    if (random.Below(elements - i) >= count - entries.size()) continue;
    entries.push_back(static_cast<uint32_t>(i),
                      static_cast<float>(static_cast<int>(random.Below(2001)) - 1000) / 8);
  }
  return entries;
}

// One message of all entries.
inline std::vector<std::byte> WireOf(const Codec& codec, uint64_t elements,
                                     const Entries& entries) {
  std::vector<std::byte> wire(MaxWireBytes(codec, elements, entries.size()));
  wire.resize(Encode(codec, {0, elements}, entries, wire));
  return wire;
}

// The entries of the range, in its coordinates, and back again: appended to `group`.
inline Entries CutOut(const Entries& group, const Shard& shard) {
  Entries part;
  for (size_t j = 0; j < group.size(); ++j) {
    if (group.index[j] < shard.begin || group.index[j] >= shard.end) continue;
    part.push_back(group.index[j] - static_cast<uint32_t>(shard.begin), group.value[j]);
  }
  return part;
}

inline void PutBack(const Entries& part, const Shard& shard, Entries* group) {
  for (size_t j = 0; j < part.size(); ++j) {
    group->push_back(part.index[j] + static_cast<uint32_t>(shard.begin), part.value[j]);
  }
}

}  // namespace ringwood

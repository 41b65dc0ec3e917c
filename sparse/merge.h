// What a reducer does with its children's entries: the sum, and the answer which of them counted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sparse/entries.h"

namespace ringwood {

// The union of the children's entries; values of one index are added in the order of the children
// (so the same inputs give the same bits). Indices are below `elements`. Block by block: the sums
// of one block stay in the cache.
Entries MergeSum(std::span<const Entries> children, uint64_t elements);

// The reference: one ordered map.
Entries MergeSumPlain(std::span<const Entries> children);

// One byte an entry of `sent`: 1 if its index is in `counted`. Both strictly increasing.
std::vector<uint8_t> CountedOf(std::span<const uint32_t> sent, std::span<const uint32_t> counted);

// Bits on the wire, entry j in bit j % 8 of byte j / 8; unused bits are 0.
constexpr uint64_t CountedBytes(uint64_t entries) { return (entries + 7) / 8; }
void PackCounted(std::span<const uint8_t> counted, std::vector<std::byte>* out);
std::vector<uint8_t> UnpackCounted(std::span<const std::byte> bits, uint64_t entries);

}  // namespace ringwood

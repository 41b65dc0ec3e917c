// What a reducer does with its children's entries: the sum, and the answer which were accepted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "sparse/entries.h"

namespace ringwood {

// Room for one block, the same for all merges of a thread. Between two uses `present` is zero and
// every value is −0, the number that changes nothing when another is added to it.
struct BlockRoom {
  BlockRoom();
  Buffer<float> value;
  std::vector<uint64_t> present;  // one bit an element
};

// The union of the children's entries, block by block as they come; values of one index are added
// in the order of the children, so the same inputs give the same bits.
class Merger {
 public:
  // Forgets everything but its memory.
  void Restart(size_t children);

  // Adds the blocks below `end` that are not added yet; the children have all their entries below
  // `end`. Entries further on may be there or not. `end` never falls; elements below it that make
  // no whole block wait, unless there are `elements` in all.
  void Advance(std::span<const Entries> children, uint64_t end, uint64_t elements, BlockRoom* room);

  Entries* sum() { return &sum_; }

 private:
  std::vector<size_t> next_;  // one a child: its first entry that is not added yet
  uint64_t block_ = 0;        // that comes next
  Entries sum_;
};

// All at once. Indices are below `elements`.
Entries MergeSum(std::span<const Entries> children, uint64_t elements);

// The reference: one ordered map.
Entries MergeSumPlain(std::span<const Entries> children);

// Bits on the wire, entry j in bit j % 8 of byte j / 8; unused bits are 0.
constexpr uint64_t AcceptedBytes(uint64_t entries) { return (entries + 7) / 8; }

// For each child the bits of its entries: 1 if the index is in `accepted`, which is strictly
// increasing. Replaces `bits`.
void PackAcceptedOf(std::span<const uint32_t> accepted, std::span<const Entries> children,
                    BlockRoom* room, std::vector<std::vector<std::byte>>* bits);

// The reference of the bits before packing: one byte an entry of `sent`.
std::vector<uint8_t> AcceptedOf(std::span<const uint32_t> sent, std::span<const uint32_t> accepted);

// One byte (0 or 1) an entry, appended to `accepted`.
void UnpackAccepted(std::span<const std::byte> bits, uint64_t entries,
                    std::vector<uint8_t>* accepted);

}  // namespace ringwood

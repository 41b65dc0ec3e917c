// The k largest of entries that are spread over shards, without bringing them together: three
// rounds of histograms of the keys (11, 10 and 10 bits), after which every shard knows the k-th key
// and how many of the entries that have it are its own. Ties go to the smaller index, that is, to
// the lower shard first. A pure state machine: the caller carries the histograms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "sparse/entries.h"

namespace ringwood {

class GlobalCut {
 public:
  static constexpr int kLevels = 3;
  static constexpr uint32_t kBins = 2048;  // of the first level; the others use half of them

  GlobalCut(uint64_t keep, int shard, int shards);

  int level() const { return level_; }

  // This shard's histogram of the present level; kBins counts.
  std::vector<uint32_t> Count(std::span<const float> values) const;

  // A histogram on the wire: most bins are empty, so each other one is the number of empty bins
  // before it and its count, both as 7 bits a byte, low first. Unpack takes any bytes.
  static constexpr size_t kMaxPackedBytes = kBins * 6;
  static std::vector<std::byte> Pack(const std::vector<uint32_t>& histogram);
  static StatusOr<std::vector<uint32_t>> Unpack(std::span<const std::byte> wire);

  // Histograms of the present level from all shards, in their order. True: Apply may be called;
  // false: the next level comes. All shards get the same and decide alike.
  bool Take(const std::vector<std::vector<uint32_t>>& histograms);

  // Keeps this shard's part of the first `keep` of the order.
  void Apply(Entries* entries) const;

 private:
  const uint64_t keep_;
  const int shard_;
  const int shards_;
  int level_ = 0;
  bool all_ = false;     // no more than `keep` entries in all shards together
  uint32_t key_ = 0;     // the bits of the k-th key that are known
  uint64_t larger_ = 0;  // entries of all shards that are certainly larger
  uint64_t ties_ = 0;    // of this shard's entries with the k-th key: how many stay
};

}  // namespace ringwood

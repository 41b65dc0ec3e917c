// One round's agreement of the roots of all shards on the entries that stay (merge "exact"): which
// histograms of the present level are here, and when the next level comes. The caller carries them;
// the cut itself is GlobalCut's. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "sparse/entries.h"
#include "sparse/global_cut.h"
#include "sparse/reducer/part.h"

namespace ringwood {

class ShardAgreement {
 public:
  explicit ShardAgreement(const ReducerPart& part);

  uint32_t slot() const;  // of the present level's messages

  // Begins a level with what is here; returns this shard's histogram as the others get it.
  std::vector<std::byte> Count(const Entries& sum);
  Status Hear(size_t shard, std::span<const std::byte> histogram);
  bool heard_all() const { return unheard_ == 0; }

  // When all are heard. True: everybody knows the cut; false: another level begins with Count.
  bool Decide() { return cut_.Take(histograms_); }
  void Apply(Entries* sum) const;

 private:
  GlobalCut cut_;
  const uint64_t keep_;  // entries that may stay here, whatever the others say
  const size_t shard_;
  const size_t shards_;
  std::vector<std::vector<uint32_t>> histograms_;  // of the level, one a shard
  size_t unheard_ = 0;                             // of them
};

}  // namespace ringwood

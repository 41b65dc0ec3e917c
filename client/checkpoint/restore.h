// Reads the checkpoint that a resumed session starts from. What it has is listed once for each rank
// that is asked about.
#pragma once

#include <map>
#include <string>

#include "client/checkpoint/store_client.h"

namespace ringwood {

class Restore {
 public:
  // `rank`: whose per-rank items Bytes and Read are about. `replayed`: so many rounds of the update
  // log follow.
  Restore(StoreClient* store, const CheckpointName& from, int rank, uint64_t replayed = 0)
      : store_(store), from_(from), rank_(rank), replayed_(replayed) {}

  uint64_t step() const { return from_.step; }
  uint64_t replayed() const { return replayed_; }

  // NotFound lists the existing items.
  StatusOr<uint64_t> Bytes(const std::string& name, bool shared);
  // `out` has exactly the item's size; Invalid names both sizes otherwise.
  Status Read(const std::string& name, bool shared, std::span<std::byte> out);

  // Of any rank of the checkpoint: whether it has saved something of its own. Ranks that have not,
  // and ranks that the checkpoint does not have, come last.
  StatusOr<bool> HasRank(int rank);
  StatusOr<bool> RankHas(int rank, const std::string& name);
  // An item that RankHas.
  Status ReadOfRank(int rank, const std::string& name, std::span<std::byte> out);

 private:
  using Sizes = std::map<std::string, uint64_t>;  // by item

  // Of the rank's own items. The first call lists the shared ones as well.
  StatusOr<const Sizes*> SizesOf(int rank);
  Status Load(uint64_t bytes, int rank, const std::string& name, bool shared,
              std::span<std::byte> out);

  StoreClient* const store_;
  const CheckpointName from_;
  const int rank_;
  const uint64_t replayed_;
  Sizes shared_;
  std::map<int, Sizes> per_rank_;  // that were listed
};

}  // namespace ringwood

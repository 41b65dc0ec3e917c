// Reads the checkpoint that a resumed session starts from. The list of its items is fetched
// once, at the first call.
#pragma once

#include <map>
#include <string>

#include "client/checkpoint/store_client.h"

namespace ringwood {

class Restore {
 public:
  // `replayed`: so many rounds of the update log follow.
  Restore(StoreClient* store, const CheckpointName& from, int rank, uint64_t replayed = 0)
      : store_(store), from_(from), rank_(rank), replayed_(replayed) {}

  uint64_t step() const { return from_.step; }
  uint64_t replayed() const { return replayed_; }

  // NotFound lists the existing items.
  StatusOr<uint64_t> Bytes(const std::string& name, bool shared);
  // `out` has exactly the item's size; Invalid names both sizes otherwise.
  Status Read(const std::string& name, bool shared, std::span<std::byte> out);
  // The same, but `out` is unchanged if the checkpoint has no such item.
  Status ReadIfThere(const std::string& name, bool shared, std::span<std::byte> out);

 private:
  using Sizes = std::map<std::string, uint64_t>;  // by item
  // Of the shared items, or of this rank's own.
  StatusOr<const Sizes*> SizesOf(bool shared);

  StoreClient* const store_;
  const CheckpointName from_;
  const int rank_;
  const uint64_t replayed_;
  bool fetched_ = false;
  Sizes shared_, per_rank_;
};

}  // namespace ringwood

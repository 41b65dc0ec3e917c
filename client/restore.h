// Reads the checkpoint that a resumed session starts from. The manifest is fetched once, with the
// first question.
#pragma once

#include <optional>

#include "client/store_client.h"

namespace ringwood {

class Restore {
 public:
  Restore(StoreClient* store, uint64_t step, int rank) : store_(store), step_(step), rank_(rank) {}

  uint64_t step() const { return step_; }

  // NotFound names the items there are.
  StatusOr<uint64_t> Bytes(const std::string& name, bool shared);
  // `out` has exactly the item's size; Invalid names both sizes otherwise.
  Status Read(const std::string& name, bool shared, std::span<std::byte> out);
  // The same, but an item that is not in the checkpoint leaves `out` as it is.
  Status ReadIfThere(const std::string& name, bool shared, std::span<std::byte> out);

 private:
  StoreClient* const store_;
  const uint64_t step_;
  const int rank_;
  std::optional<v1::CheckpointManifest> manifest_;
};

}  // namespace ringwood

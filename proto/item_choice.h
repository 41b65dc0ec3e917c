// Which items of a checkpoint are taken: a pure choice among those of a manifest, the same for
// exports of a store and for readers of a server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor_type.h"
#include "ringwood/v1/store.pb.h"

namespace ringwood {

// Below it are the items of a model's state_dict, which exports and imports name as it does:
// "model/fc.weight" is the tensor "fc.weight".
inline constexpr char kModelPrefix[] = "model/";

struct ItemChoice {
  // Names of items or tensors, "*" and "?" as in a shell ("*" takes "/" too). None: the model's
  // state_dict, or where the checkpoint has none everything but the session's own state.
  std::vector<std::string> patterns;
  std::optional<uint32_t> rank;  // whose own items are taken beside the shared ones
};

struct ChosenItem {
  const v1::StoredItem* item;  // borrowed from the manifest
  std::string name;            // of the tensor
  TensorType type;             // "U8" where the item does not say what its bytes are
};

struct ChosenItems {
  std::vector<ChosenItem> items;  // in the manifest's order; names differ
  size_t untyped = 0;             // items without type and shape, taken as bytes
  size_t unchosen = 0;            // shared items, and the rank's, that no pattern takes
  size_t of_ranks = 0;  // items that patterns take, of each rank alone, where no rank was given
};

// NotFound: a pattern that takes nothing. Refused: two items of one name.
StatusOr<ChosenItems> ChooseItems(const v1::CheckpointManifest& manifest, const ItemChoice& choice);

}  // namespace ringwood

// What an export holds: a pure choice among the items of a manifest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "ringwood/v1/store.pb.h"
#include "server/store/portable/safetensors.h"

namespace ringwood {

// Below it are the items of a model's state_dict, which exports and imports name as it does:
// "model/fc.weight" is the tensor "fc.weight".
inline constexpr char kModelPrefix[] = "model/";

struct ExportChoice {
  // Names of items or tensors, "*" and "?" as in a shell ("*" takes "/" too). None: the model's
  // state_dict, or where the checkpoint has none everything but the session's own state.
  std::vector<std::string> patterns;
  std::optional<uint32_t> rank;  // whose own items are taken beside the shared ones
};

struct ExportPlan {
  Safetensors file;
  std::vector<const v1::StoredItem*> sources;  // of file.tensors; borrowed from the manifest
  size_t untyped = 0;                          // items without type and shape, exported as bytes
  size_t unchosen = 0;  // shared items, and the rank's, that no pattern takes
  size_t of_ranks = 0;  // items that patterns take, of each rank alone, where no rank was given
};

// NotFound: a pattern that takes nothing. Refused: what cannot be one file, such as two items of
// one name.
StatusOr<ExportPlan> PlanExport(const v1::CheckpointManifest& manifest, const ExportChoice& choice);

}  // namespace ringwood

// The layout of a file that holds a choice of a checkpoint's items. Pure.
#pragma once

#include <vector>

#include "base/status.h"
#include "proto/item_choice.h"
#include "ringwood/v1/store.pb.h"
#include "server/store/portable/safetensors.h"

namespace ringwood {

struct ExportPlan {
  Safetensors file;
  std::vector<const v1::StoredItem*> sources;  // of file.tensors; borrowed from the manifest
  // As in ChosenItems; what is untyped is exported as bytes.
  size_t untyped = 0;
  size_t unchosen = 0;
  size_t of_ranks = 0;
};

// NotFound: a pattern that takes nothing. Refused: what cannot be one file, such as two items of
// one name.
StatusOr<ExportPlan> PlanExport(const v1::CheckpointManifest& manifest, const ItemChoice& choice);

}  // namespace ringwood

#include "server/store/portable/export_plan.h"

#include <map>

#include "absl/strings/str_format.h"

namespace ringwood {

StatusOr<ExportPlan> PlanExport(const v1::CheckpointManifest& manifest, const ItemChoice& choice) {
  RW_ASSIGN_OR_RETURN(const ChosenItems chosen, ChooseItems(manifest, choice));
  if (chosen.items.empty()) {
    return NotFound(
        absl::StrFormat("the checkpoint of step %d has no item to export", manifest.step()));
  }
  ExportPlan plan;
  plan.untyped = chosen.untyped;
  plan.unchosen = chosen.unchosen;
  plan.of_ranks = chosen.of_ranks;
  std::map<std::string, const v1::StoredItem*> sources;
  for (const ChosenItem& each : chosen.items) {
    plan.file.tensors.push_back({each.name, each.type});
    sources.emplace(each.name, each.item);
  }
  RW_RETURN_IF_ERROR(Annotate(Arrange(&plan.file), "this cannot be exported"));
  for (const Safetensor& tensor : plan.file.tensors) {
    plan.sources.push_back(sources.at(tensor.name));
  }
  return plan;
}

}  // namespace ringwood

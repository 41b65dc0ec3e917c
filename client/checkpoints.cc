#include "client/checkpoints.h"

#include "absl/strings/str_format.h"
#include "client/checkpoint/state_names.h"
#include "client/names.h"

namespace ringwood {

Status Checkpoints::Save(const StripeName& stripe, std::vector<Item> items,
                         const TensorStates& states, const std::string& plan) {
  for (const Item& item : items) {
    RW_RETURN_IF_ERROR(CheckName("the checkpoint item's name", item.name));
    if (item.name.rfind(kSessionPrefix, 0) == 0) {
      return Invalid("the checkpoint item '" + item.name + "': names under '" + kSessionPrefix +
                     "' are the session's own");
    }
  }
  std::vector<std::unique_ptr<SparseTensor>> copies;  // of what devices have
  RW_RETURN_IF_ERROR(states.AppendItems(&items, &copies));
  if (!plan.empty()) items.push_back({kPlanItem, true, std::as_bytes(std::span(plan))});
  return checkpointer_.Begin(stripe, items);
}

Status Checkpoints::NoCheckpoint() const {
  return NotFound(absl::StrFormat("rank %d: the session did not start from a checkpoint", rank_));
}

StatusOr<uint64_t> Checkpoints::Bytes(const std::string& name, bool shared) {
  return restore_ ? restore_->Bytes(name, shared) : NoCheckpoint();
}

Status Checkpoints::Read(const std::string& name, bool shared, std::span<std::byte> out) {
  return restore_ ? restore_->Read(name, shared, out) : NoCheckpoint();
}

}  // namespace ringwood

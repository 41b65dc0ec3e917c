// Session's half that saves and restores.
#include "absl/strings/str_format.h"
#include "client/checkpoint/state_names.h"
#include "client/names.h"
#include "client/replan/plan_file.h"
#include "client/session.h"

namespace ringwood {
Status Session::Checkpoint(std::vector<Item> items) {
  RW_RETURN_IF_ERROR(connection_->status());
  for (const Item& item : items) {
    RW_RETURN_IF_ERROR(CheckName("the checkpoint item's name", item.name));
    if (item.name.rfind(kOwnPrefix, 0) == 0) {
      return Invalid("the checkpoint item '" + item.name + "': names under '" + kOwnPrefix +
                     "' are the session's own");
    }
  }
  std::vector<std::unique_ptr<SparseTensor>> copies;  // of what devices have
  RW_RETURN_IF_ERROR(states_.AppendItems(&items, &copies));
  std::string plan;
  if (agreed_ && !table_.empty()) {
    plan = ToSave(plan_.plan(), table_.Specs(), world(), connection_->place().servers)
               .SerializeAsString();
    items.push_back({kPlanItem, true, std::as_bytes(std::span(plan))});
  }
  StripeName stripe;
  stripe.epoch = epoch();
  stripe.step = step_;
  stripe.rank = static_cast<uint32_t>(rank());
  stripe.world = static_cast<uint32_t>(world());
  stripe.incarnation = connection_->incarnation();
  return checkpointer_->Begin(stripe, items);
}

Status Session::CheckpointWait() { return checkpointer_->Wait(); }

Status Session::NoCheckpoint() const {
  return NotFound(absl::StrFormat("rank %d: the session did not start from a checkpoint", rank()));
}

StatusOr<uint64_t> Session::RestoreBytes(const std::string& name, bool shared) {
  return restore_ ? restore_->Bytes(name, shared) : NoCheckpoint();
}

Status Session::RestoreItem(const std::string& name, bool shared, std::span<std::byte> out) {
  return restore_ ? restore_->Read(name, shared, out) : NoCheckpoint();
}

}  // namespace ringwood

// Session's half that saves and restores.
#include "absl/strings/str_format.h"
#include "client/checkpoint/state_names.h"
#include "client/names.h"
#include "client/replan/plan_file.h"
#include "client/session.h"

namespace ringwood {
namespace {

Status MidStep() { return Refused("a checkpoint in the middle of a step: finish_step first"); }

}  // namespace

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
  for (size_t id = 0; id < states_.size(); ++id) {
    SparseTensor* state = states_[id].get();
    if (state == nullptr && !parts_.empty() && parts_[id].device != nullptr) {
      if (parts_[id].device->pending()) return MidStep();
      RW_ASSIGN_OR_RETURN(copies.emplace_back(), CopyOfDeviceState(id));
      state = copies.back().get();
    }
    const std::string& name = table_.name(id);
    if (state == nullptr) {
      const std::span<const float> error = WireError(id);
      if (!error.empty()) items.push_back({ResidualItem(name), false, std::as_bytes(error)});
      continue;
    }
    if (state->pending()) return MidStep();
    items.push_back({ResidualItem(name), false, std::as_bytes(state->residual())});
    const std::span<float> momentum = state->mutable_momentum();
    if (!momentum.empty()) items.push_back({MomentumItem(name), false, std::as_bytes(momentum)});
  }
  std::string plan;
  if (agreed_ && !table_.empty()) {
    plan = ToSave(plan_, table_.Specs(), world(), connection_->place().servers).SerializeAsString();
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

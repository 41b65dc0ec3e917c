#include "client/tensor_states.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "client/checkpoint/state_names.h"

namespace ringwood {
namespace {

Item FloatItem(std::string name, std::span<const float> values, bool steady) {
  return {std::move(name), false, std::as_bytes(values), {"F32", {values.size()}}, steady};
}

Status MidStep() { return Refused("a checkpoint in the middle of a step: finish_step first"); }

}  // namespace

bool TensorStates::IsMasked(const Group& group) const {
  return options_.momentum_masking && group.density <= kMaskedDensity;
}

std::unique_ptr<SparseTensor> TensorStates::Make(size_t id, uint64_t k) const {
  SparseOptions options;
  options.k = k;
  options.method = *ParseMethod(options_.sparse_method);  // Check has read it before
  options.chunk_elements = static_cast<uint64_t>(options_.sparse_chunk);
  options.momentum = static_cast<float>(table_.momentum(id));
  options.decay = static_cast<float>(table_[id].decay);
  return std::make_unique<SparseTensor>(table_[id].spec.elements, options);
}

// Also the residuals of dense tensors: from a sparse time, or from the wire's rounding.
Status TensorStates::Begin(Restore* from, int rank, int world) {
  states_.resize(table_.size());
  if (from == nullptr) return OkStatus();
  Forget();  // what an attempt took whose epoch ended
  for (size_t id = 0; id < table_.size(); ++id) RW_RETURN_IF_ERROR(RestoreReach(id, from));
  std::vector<std::string> stilled;  // tensors that have no momentum correction any more
  for (int of = rank;; of += world) {
    RW_ASSIGN_OR_RETURN(const bool there, from->HasRank(of));
    if (!there) break;
    for (size_t id = 0; id < table_.size(); ++id) {
      RW_RETURN_IF_ERROR(TakeOwed(id, from, of, of == rank, &stilled));
    }
  }
  if (from->replayed() > 0) {  // the log has what was applied, not what each rank still owed
    if (const double norm = Norm(); norm > 0) {
      Log(LogLevel::kWarning,
          absl::StrFormat("%d rounds after the checkpoint of step %d were replayed: the residuals "
                          "of sparse tensors, of norm %.3g in the checkpoint, begin at 0",
                          from->replayed(), from->step(), norm));
    }
    Forget();
  } else if (!stilled.empty()) {
    const std::string others =
        stilled.size() > 1 ? absl::StrFormat(" and %d more", stilled.size() - 1) : "";
    Log(LogLevel::kWarning,
        absl::StrFormat("the checkpoint of step %d has a velocity of %s%s, without momentum "
                        "correction now: it is dropped; to keep it, set momentum "
                        "(momentum_correction in PyTorch) as it was",
                        from->step(), stilled.front(), others));
  }
  return OkStatus();
}

Status TensorStates::TakeOwed(size_t id, Restore* from, int of, bool own,
                              std::vector<std::string>* stilled) {
  const std::string residual = ResidualItem(table_.name(id));
  const std::string momentum = MomentumItem(table_.name(id));
  RW_ASSIGN_OR_RETURN(const bool owes, from->RankHas(of, residual));
  if (!owes) return OkStatus();
  std::vector<float> owed(table_[id].spec.elements);
  RW_RETURN_IF_ERROR(from->ReadOfRank(of, residual, std::as_writable_bytes(std::span(owed))));
  if (!own) {
    Add(id, owed);
    return OkStatus();
  }
  states_[id] = Make(id, 1);  // to the bit: 0 + -0 is 0
  std::copy(owed.begin(), owed.end(), states_[id]->mutable_residual().begin());
  RW_ASSIGN_OR_RETURN(const bool moves, from->RankHas(of, momentum));
  if (!moves) return OkStatus();
  const std::span<float> velocity = states_[id]->mutable_momentum();
  if (velocity.empty()) {
    stilled->push_back(table_.name(id));
    return OkStatus();
  }
  return from->ReadOfRank(of, momentum, std::as_writable_bytes(velocity));
}

Status TensorStates::RestoreReach(size_t id, Restore* from) {
  const std::string item = ReachItem(table_.name(id));
  const StatusOr<uint64_t> bytes = from->Bytes(item, true);
  if (bytes.status().code() == StatusCode::kNotFound) return OkStatus();
  RW_RETURN_IF_ERROR(bytes.status());
  std::vector<BlockReach> reach(LatticeBlocks(table_[id].spec.elements));
  // A former build had blocks of another size: the first round learns what these reach.
  if (*bytes != std::span(reach).size_bytes()) return OkStatus();
  RW_RETURN_IF_ERROR(from->Read(item, true, std::as_writable_bytes(std::span(reach))));
  const bool known =
      std::any_of(reach.begin(), reach.end(), [](BlockReach one) { return one != 0; });
  if (known) reaches_[id] = std::move(reach);
  return OkStatus();
}

double TensorStates::Norm() const {
  double squares = 0;
  for (const auto& state : states_) {
    if (state == nullptr) continue;
    for (const double value : state->residual()) squares += value * value;
  }
  return std::sqrt(squares);
}

void TensorStates::Forget() {
  for (auto& state : states_) state.reset();
}

bool TensorStates::Owes(size_t id) const {
  return (!states_.empty() && states_[id] != nullptr) || DeviceOf(id) != nullptr ||
         (ExchangeOf(id) != nullptr && ExchangeOf(id)->keeps_error());
}

void TensorStates::Add(size_t id, std::span<const float> owed) {
  if (states_[id] == nullptr) states_[id] = Make(id, 1);
  const std::span<float> residual = states_[id]->mutable_residual();
  std::transform(owed.begin(), owed.end(), residual.begin(), residual.begin(), std::plus<>());
}

// Nothing is lost by a change of plan: what a tensor owes is taken out of the exchange that ends
// before that goes, and is in `states_` until either an exchange has taken it over (device) or a
// committed round has sent it (dense). A round that is aborted in between leaves it there.
//
// Devices: through host memory into the groups of the next plan, since their sizes, and the tensors
// in them, are others. What ends gives its memory back before they are made.
Status TensorStates::TakeBack() {
  for (size_t id = 0; id < holders_.size(); ++id) {
    RW_ASSIGN_OR_RETURN(const std::span<const BlockReach> reach, WireReach(id));
    if (!reach.empty()) reaches_[id].assign(reach.begin(), reach.end());
    if (states_[id] != nullptr) continue;
    RW_ASSIGN_OR_RETURN(const std::span<const float> error, WireError(id));
    if (error.empty()) continue;
    states_[id] = Make(id, 1);
    std::copy(error.begin(), error.end(), states_[id]->mutable_residual().begin());
  }
  for (size_t id = 0; id < holders_.size(); ++id) {
    if (holders_[id].device == nullptr) continue;
    RW_ASSIGN_OR_RETURN(states_[id], CopyFromDevice(id));
  }
  for (const Holder& holder : holders_) {
    if (holder.device != nullptr) holder.device->Release();
  }
  holders_.clear();
  return OkStatus();
}

// A tensor that turns sparse starts with an empty residual; one that turns dense keeps its
// residual. On a device the exchange of a sparse one takes over what there is.
void TensorStates::Prepare(const Plan& plan) {
  carried_.clear();
  for (const Group& group : plan.groups) {
    for (const size_t id : table_.IdsOf(group)) {
      if (group.route != "tree" && states_[id] != nullptr) carried_.push_back(id);
      if (group.route != "tree" || table_.IsOnDevice()) continue;
      const uint64_t k = EntriesOf(group.density, table_[id].spec.elements);
      if (states_[id] == nullptr) {
        states_[id] = Make(id, k);
      } else {
        states_[id]->set_k(k);
      }
      states_[id]->set_masking(IsMasked(group));
    }
  }
}

void TensorStates::Hand(std::vector<Holder> holders) {
  holders_ = std::move(holders);
  for (size_t id = 0; id < holders_.size(); ++id) {
    if (holders_[id].device != nullptr) states_[id].reset();  // its exchange has taken it over
  }
}

void TensorStates::Committed(uint64_t round) {
  std::erase_if(carried_, [&](size_t id) {
    if (!table_[id].HasTurn(round)) return false;
    states_[id].reset();
    return true;
  });
}

StatusOr<std::span<const float>> TensorStates::WireError(size_t id) const {
  if (ExchangeOf(id) == nullptr) return std::span<const float>();
  return ExchangeOf(id)->error(holders_[id].index);
}

StatusOr<std::span<const BlockReach>> TensorStates::WireReach(size_t id) const {
  if (ExchangeOf(id) == nullptr) return std::span<const BlockReach>();
  return ExchangeOf(id)->reach(holders_[id].index);
}

std::span<const BlockReach> TensorStates::reach(size_t id) const {
  const auto known = reaches_.find(id);
  if (known == reaches_.end()) return {};
  return known->second;
}

StatusOr<std::unique_ptr<SparseTensor>> TensorStates::CopyFromDevice(size_t id) const {
  const Holder& holder = holders_[id];
  std::unique_ptr<SparseTensor> state = Make(id, 1);
  RW_RETURN_IF_ERROR(holder.device->ReadResidual(holder.index, state->mutable_residual()));
  const std::span<float> momentum = state->mutable_momentum();
  if (!momentum.empty()) RW_RETURN_IF_ERROR(holder.device->ReadMomentum(holder.index, momentum));
  return state;
}

Status TensorStates::ReadResidual(size_t id, std::span<float> out) const {
  const SparseTensor* const state = states_.empty() ? nullptr : states_[id].get();
  if (DeviceSparseExchange* const device = DeviceOf(id); state == nullptr && device != nullptr) {
    return device->ReadResidual(holders_[id].index, out);
  }
  std::span<const float> kept;
  if (state != nullptr) {
    kept = state->residual();
  } else {
    RW_ASSIGN_OR_RETURN(kept, WireError(id));
  }
  if (kept.empty()) {
    std::fill(out.begin(), out.end(), 0.0f);
  } else {
    std::copy(kept.begin(), kept.end(), out.begin());
  }
  return OkStatus();
}

Status TensorStates::AppendItems(std::vector<Item>* items,
                                 std::vector<std::unique_ptr<SparseTensor>>* copies) const {
  const bool steady = !table_.IsOnDevice();  // what is read of devices is a copy already
  for (size_t id = 0; id < states_.size(); ++id) {
    RW_ASSIGN_OR_RETURN(const std::span<const BlockReach> now, WireReach(id));
    const std::span<const BlockReach> reached = now.empty() ? reach(id) : now;
    if (!reached.empty()) {
      items->push_back({ReachItem(table_.name(id)),
                        true,
                        std::as_bytes(reached),
                        {"U16", {reached.size()}},
                        steady});
    }
    SparseTensor* state = states_[id].get();
    if (DeviceSparseExchange* const device = DeviceOf(id); state == nullptr && device != nullptr) {
      if (device->pending()) return MidStep();
      RW_ASSIGN_OR_RETURN(copies->emplace_back(), CopyFromDevice(id));
      state = copies->back().get();
    }
    const std::string& name = table_.name(id);
    if (state == nullptr) {
      RW_ASSIGN_OR_RETURN(const std::span<const float> error, WireError(id));
      if (!error.empty()) items->push_back(FloatItem(ResidualItem(name), error, steady));
      continue;
    }
    if (state->pending()) return MidStep();
    items->push_back(FloatItem(ResidualItem(name), state->residual(), steady));
    const std::span<float> momentum = state->mutable_momentum();
    if (!momentum.empty()) items->push_back(FloatItem(MomentumItem(name), momentum, steady));
  }
  return OkStatus();
}

}  // namespace ringwood

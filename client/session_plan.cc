// Session's half that makes what a plan needs: the states of its sparse tensors, its exchanges, the
// pipeline.
#include <algorithm>

#include "client/checkpoint/state_names.h"
#include "client/exchange/carry_exchange.h"
#include "client/exchange/dense_exchange.h"
#include "client/exchange/solo_exchange.h"
#include "client/exchange/sparse_exchange.h"
#include "client/session.h"
#include "plan/sparse_groups.h"

namespace ringwood {

bool Session::IsMasked(const Group& group) const {
  return options_.momentum_masking && group.density <= kMaskedDensity;
}

Status Session::Install(Plan plan, uint32_t generation) {
  KeepWireErrors();
  RW_RETURN_IF_ERROR(KeepDeviceStates());
  EndPipeline();
  plan_ = std::move(plan);
  RW_RETURN_IF_ERROR(OpenDeviceRing());
  MakeStates();
  RW_RETURN_IF_ERROR(MakePipeline(generation));
  plan_text_ = ToString(plan_, table_.Specs());
  if (adapter_ != nullptr) adapter_->Adopted(plan_, StageAfter(step_));
  SavePlan();
  // A failure announced before the pipeline stood has passed it by.
  const Status failed = connection_->status();
  absl::MutexLock lock(&mutex_);
  if (!failed.ok()) pipeline_->Fail(failed);
  return OkStatus();
}

// Before the next one is made: two plans' buffers would be twice the memory. A ready that comes
// meanwhile is kept, as before the first plan.
void Session::EndPipeline() {
  std::unique_ptr<Pipeline> ended;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  parts_.clear();
  ended = std::move(pipeline_);
}

// What the exchanges that end have rounded away is owed like the residual of a sparse tensor.
void Session::KeepWireErrors() {
  for (size_t id = 0; id < parts_.size(); ++id) {
    const std::span<const float> error = WireError(id);
    if (error.empty() || states_[id] != nullptr) continue;
    states_[id] = MakeState(id, 1);
    std::copy(error.begin(), error.end(), states_[id]->mutable_residual().begin());
  }
}

std::unique_ptr<SparseTensor> Session::MakeState(size_t id, uint64_t k) const {
  SparseOptions options;
  options.k = k;
  options.method = *ParseMethod(options_.sparse_method);  // Check has read it before
  options.chunk_elements = static_cast<uint64_t>(options_.sparse_chunk);
  options.momentum = static_cast<float>(table_.momentum(id));
  return std::make_unique<SparseTensor>(table_[id].spec.elements, options);
}

StatusOr<std::unique_ptr<SparseTensor>> Session::RestoredState(size_t id) {
  const std::string& name = table_.name(id);
  std::unique_ptr<SparseTensor> state = MakeState(id, 1);
  RW_RETURN_IF_ERROR(
      restore_->Read(ResidualItem(name), false, std::as_writable_bytes(state->mutable_residual())));
  RW_RETURN_IF_ERROR(restore_->ReadIfThere(MomentumItem(name), false,
                                           std::as_writable_bytes(state->mutable_momentum())));
  return state;
}

// A tensor that turns sparse begins with nothing; one that turns dense owes what it has. On a
// device the exchange of a sparse one takes over what there is.
void Session::MakeStates() {
  carried_.clear();
  for (const Group& group : plan_.groups) {
    for (const size_t id : table_.IdsOf(group)) {
      if (group.route != "tree" && states_[id] != nullptr) carried_.push_back(id);
      if (group.route != "tree" || table_.IsOnDevice()) continue;
      const uint64_t k = EntriesOf(group.density, table_[id].spec.elements);
      if (states_[id] == nullptr) {
        states_[id] = MakeState(id, k);
      } else {
        states_[id]->set_k(k);
      }
      states_[id]->set_masking(IsMasked(group));
    }
  }
}

// `climb` where the group goes up a tree.
Session::Made Session::MakeExchange(uint32_t group, std::optional<Climb> climb) {
  const Place& place = connection_->place();
  const Group& spec = plan_.groups[group];
  std::vector<const Tensor*> tensors;
  std::vector<SparseTensor*> states;
  for (const size_t id : table_.IdsOf(spec)) {
    tensors.push_back(&table_[id]);
    states.push_back(states_[id].get());
  }
  if (climb) return {std::make_unique<SparseExchange>(*std::move(climb), tensors, states)};
  const bool owes = std::any_of(states.begin(), states.end(),
                                [](const SparseTensor* state) { return state != nullptr; });
  if (!owes && place.world == 1) return {std::make_unique<SoloExchange>(tensors)};
  if (!owes) return {std::make_unique<DenseExchange>(place, group, spec, tensors)};
  return {std::make_unique<CarryExchange>(
      place, group, spec, tensors, std::vector<const SparseTensor*>(states.begin(), states.end()))};
}

Status Session::MakePipeline(uint32_t generation) {
  const Place& place = connection_->place();
  const TreeShape shape{place.world, place.servers, static_cast<int>(plan_.fanout)};
  std::vector<uint64_t> elements;
  for (const TensorSpec& spec : table_.Specs()) elements.push_back(spec.elements);
  std::vector<std::optional<Climb>> climbs(plan_.groups.size());
  RW_ASSIGN_OR_RETURN(const std::vector<SparseGroup> groups,
                      SparseGroupsOf(plan_, shape, elements));
  for (const SparseGroup& group : groups) {
    RW_ASSIGN_OR_RETURN(climbs[group.group], Climb::Of(shape, place.rank, group));
  }
  std::vector<std::unique_ptr<Exchange>> exchanges;
  std::vector<Part> parts(table_.size());
  for (uint32_t g = 0; g < plan_.groups.size(); ++g) {
    Made made;
    if (table_.IsOnDevice()) {
      RW_ASSIGN_OR_RETURN(made, MakeDeviceExchange(g, std::move(climbs[g])));
    } else {
      made = MakeExchange(g, std::move(climbs[g]));
    }
    exchanges.push_back(std::move(made.exchange));
    const std::vector<size_t> ids = table_.IdsOf(plan_.groups[g]);
    for (size_t i = 0; i < ids.size(); ++i) {
      parts[ids[i]] = {exchanges.back().get(), made.device, i};
    }
  }
  parts_ = std::move(parts);
  for (size_t id = 0; id < parts_.size(); ++id) {
    if (parts_[id].device != nullptr) states_[id].reset();  // its exchange has taken it over
  }
  const Pipeline::Shell shell{connection_->compute(), connection_->net(), connection_->transport(),
                              &observers_};
  auto pipeline =
      std::make_unique<Pipeline>(shell, plan_, generation, table_.size(), std::move(exchanges));
  observers_.PlanAdopted(plan_, table_.Specs(), round_);
  pipeline->Begin(round_);
  absl::MutexLock lock(&mutex_);
  pipeline_ = std::move(pipeline);
  return OkStatus();
}

void Session::DropCarried() {
  for (size_t id : carried_) states_[id].reset();
  carried_.clear();
}

std::span<const float> Session::WireError(size_t id) const {
  if (parts_.empty() || parts_[id].exchange == nullptr) return {};
  return parts_[id].exchange->error(parts_[id].index);
}

std::string Session::route(int id) const {
  if (!table_.CheckId(id).ok()) return "";
  const uint32_t index = table_.IndexOf(id).value;
  for (const Group& group : plan_.groups) {
    const bool here =
        std::find(group.tensors.begin(), group.tensors.end(), index) != group.tensors.end();
    if (here) return group.route;
  }
  return "";
}

}  // namespace ringwood

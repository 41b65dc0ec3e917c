// Session's half that makes what a plan needs: its exchanges and the
// pipeline.
#include <algorithm>

#include "client/exchange/carry_exchange.h"
#include "client/exchange/dense_exchange.h"
#include "client/exchange/solo_exchange.h"
#include "client/exchange/sparse_exchange.h"
#include "client/session.h"
#include "plan/sparse_groups.h"

namespace ringwood {

Status Session::Install(Plan plan, uint32_t generation) {
  RW_RETURN_IF_ERROR(states_.TakeBack());
  EndPipeline();
  plan_ = std::move(plan);
  RW_RETURN_IF_ERROR(OpenDeviceRing());
  states_.Prepare(plan_);
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
  ended = std::move(pipeline_);
}

// `climb` where the group goes up a tree.
Session::Made Session::MakeExchange(uint32_t group, std::optional<Climb> climb) {
  const Place& place = connection_->place();
  const Group& spec = plan_.groups[group];
  std::vector<const Tensor*> tensors;
  std::vector<SparseTensor*> states;
  for (const size_t id : table_.IdsOf(spec)) {
    tensors.push_back(&table_[id]);
    states.push_back(states_.of(id));
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
  std::vector<TensorStates::Holder> holders(table_.size());
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
      holders[ids[i]] = {exchanges.back().get(), made.device, i};
    }
  }
  states_.Hand(std::move(holders));
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

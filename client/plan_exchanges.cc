#include "client/plan_exchanges.h"

#include <algorithm>
#include <optional>

#include "client/exchange/carry_exchange.h"
#include "client/exchange/dense_exchange.h"
#include "client/exchange/device_exchange.h"
#include "client/exchange/device_sparse_exchange.h"
#include "client/exchange/flat_places.h"
#include "client/exchange/solo_exchange.h"
#include "client/exchange/sparse_exchange.h"
#include "plan/sparse_groups.h"
#include "sparse/climb.h"

namespace ringwood {
namespace {

struct MadeExchange {
  std::unique_ptr<Exchange> exchange;
  DeviceSparseExchange* device = nullptr;  // the same, where it has the tensors' states
};

class ExchangeMaker {
 public:
  ExchangeMaker(const Plan& plan, const TensorTable& table, TensorStates* states, EpochLink* link)
      : plan_(plan), table_(table), states_(states), link_(link) {}

  // By group; nothing where the group does not go up a tree.
  StatusOr<std::vector<std::optional<Climb>>> Climbs() const;
  StatusOr<MadeExchange> Make(uint32_t group, std::optional<Climb> climb) const {
    if (table_.IsOnDevice()) return MakeOnDevice(group, std::move(climb));
    return MakeOnHost(group, std::move(climb));
  }

 private:
  MadeExchange MakeOnHost(uint32_t group, std::optional<Climb> climb) const;
  StatusOr<MadeExchange> MakeOnDevice(uint32_t group, std::optional<Climb> climb) const;
  StatusOr<std::unique_ptr<Exchange>> MakeDense(uint32_t group,
                                                const std::vector<const Tensor*>& tensors) const;
  StatusOr<std::unique_ptr<DeviceGroup>> MakeGroup(const Group& spec, uint64_t max_result) const;
  std::vector<const Tensor*> TensorsOf(const Group& spec) const;

  const Plan& plan_;
  const TensorTable& table_;
  TensorStates* const states_;
  EpochLink* const link_;
};

StatusOr<std::vector<std::optional<Climb>>> ExchangeMaker::Climbs() const {
  const Place& place = link_->place();
  const TreeShape shape{.workers = place.world,
                        .reducers = place.servers,
                        .fanout = static_cast<int>(plan_.fanout),
                        .hosts = place.node_hosts};
  std::vector<uint64_t> elements;
  for (const TensorSpec& spec : table_.Specs()) elements.push_back(spec.elements);
  std::vector<std::optional<Climb>> climbs(plan_.groups.size());
  RW_ASSIGN_OR_RETURN(const std::vector<SparseGroup> groups,
                      SparseGroupsOf(plan_, shape, elements));
  for (const SparseGroup& group : groups) {
    RW_ASSIGN_OR_RETURN(climbs[group.group], Climb::Of(shape, place.rank, group));
  }
  return climbs;
}

std::vector<const Tensor*> ExchangeMaker::TensorsOf(const Group& spec) const {
  std::vector<const Tensor*> tensors;
  for (const size_t id : table_.IdsOf(spec)) tensors.push_back(&table_[id]);
  return tensors;
}

MadeExchange ExchangeMaker::MakeOnHost(uint32_t group, std::optional<Climb> climb) const {
  const Place& place = link_->place();
  const Group& spec = plan_.groups[group];
  const std::vector<const Tensor*> tensors = TensorsOf(spec);
  std::vector<SparseTensor*> states;
  for (const size_t id : table_.IdsOf(spec)) states.push_back(states_->of(id));
  if (climb) return {std::make_unique<SparseExchange>(*std::move(climb), tensors, states)};
  DenseExchange::Reaches reaches;
  for (const size_t id : table_.IdsOf(spec)) reaches.push_back(states_->reach(id));
  const bool owes = std::any_of(states.begin(), states.end(),
                                [](const SparseTensor* state) { return state != nullptr; });
  if (!owes && place.world == 1) return {std::make_unique<SoloExchange>(tensors)};
  if (!owes) return {std::make_unique<DenseExchange>(place, group, spec, tensors, reaches)};
  return {std::make_unique<CarryExchange>(
      place, group, spec, tensors, std::vector<const SparseTensor*>(states.begin(), states.end()),
      reaches)};
}

// The residuals of its tensors are in its bucket; the states stay until the first commit. A rank
// alone rounds nothing.
StatusOr<std::unique_ptr<Exchange>> ExchangeMaker::MakeDense(
    uint32_t group, const std::vector<const Tensor*>& tensors) const {
  const Group& spec = plan_.groups[group];
  const int bits = link_->place().world > 1 ? CodeBits(spec.codec) : 0;
  std::vector<size_t> places = PlacesOf(tensors, bits != 0);
  RW_ASSIGN_OR_RETURN(auto bucket,
                      link_->connection()->accelerator().make_bucket(
                          tensors.front()->device->index, places.back(), tensors.front()->type));
  if (bits != 0) {
    const BlockReach less = LessFor(LatticeLevels(bits), tensors.front()->wire_reach);
    RW_RETURN_IF_ERROR(bucket->UseCodes(bits, less));
  }
  const std::vector<size_t> ids = table_.IdsOf(spec);
  for (size_t t = 0; t < ids.size(); ++t) {
    if (const SparseTensor* const state = states_->of(ids[t])) {
      RW_RETURN_IF_ERROR(bucket->Owe(places[t], state->residual()));
    }
    const std::span<const BlockReach> reach = states_->reach(ids[t]);
    if (bits == 0 || reach.size() != LatticeBlocks(tensors[t]->spec.elements)) continue;
    RW_RETURN_IF_ERROR(bucket->WriteReach(places[t] / kLatticeBlock, reach));
  }
  return std::make_unique<DeviceExchange>(link_->place(), group, tensors, std::move(places),
                                          std::move(bucket), link_->device_ring());
}

StatusOr<std::unique_ptr<DeviceGroup>> ExchangeMaker::MakeGroup(const Group& spec,
                                                                uint64_t max_result) const {
  DeviceGroupOptions options;
  std::vector<cuda::TensorShape> shapes;
  for (const size_t id : table_.IdsOf(spec)) {
    const Tensor& tensor = table_[id];
    RW_RETURN_IF_ERROR(table_.CheckSelection(tensor));  // a frozen plan may not know
    shapes.push_back({tensor.spec.elements, EntriesOf(spec.density, tensor.spec.elements),
                      static_cast<float>(table_.momentum(id))});
    options.device = tensor.device->index;
  }
  options.masking = states_->IsMasked(spec);
  options.max_result = max_result;
  return link_->connection()->accelerator().make_group(shapes, options);
}

// A sparse group takes the states of its tensors with it.
StatusOr<MadeExchange> ExchangeMaker::MakeOnDevice(uint32_t group,
                                                   std::optional<Climb> climb) const {
  const Group& spec = plan_.groups[group];
  const std::vector<const Tensor*> tensors = TensorsOf(spec);
  if (!climb) {
    RW_ASSIGN_OR_RETURN(auto dense, MakeDense(group, tensors));
    return MadeExchange{std::move(dense)};
  }
  RW_ASSIGN_OR_RETURN(auto on_device, MakeGroup(spec, climb->most_entries()));
  const std::vector<size_t> ids = table_.IdsOf(spec);
  for (size_t t = 0; t < ids.size(); ++t) {
    SparseTensor* const state = states_->of(ids[t]);
    if (state == nullptr) continue;
    RW_RETURN_IF_ERROR(on_device->WriteResidual(t, state->residual()));
    const std::span<const float> momentum = state->mutable_momentum();
    if (!momentum.empty()) RW_RETURN_IF_ERROR(on_device->WriteMomentum(t, momentum));
  }
  auto exchange = std::make_unique<DeviceSparseExchange>(
      *std::move(climb), tensors, std::move(on_device), link_->connection()->compute());
  DeviceSparseExchange* const device = exchange.get();
  return MadeExchange{std::move(exchange), device};
}

}  // namespace

StatusOr<PlanExchanges> MakeExchanges(const Plan& plan, const TensorTable& table,
                                      TensorStates* states, EpochLink* link) {
  const ExchangeMaker maker(plan, table, states, link);
  PlanExchanges made;
  made.holders.resize(table.size());
  RW_ASSIGN_OR_RETURN(auto climbs, maker.Climbs());
  for (uint32_t g = 0; g < plan.groups.size(); ++g) {
    RW_ASSIGN_OR_RETURN(MadeExchange one, maker.Make(g, std::move(climbs[g])));
    made.by_group.push_back(std::move(one.exchange));
    const std::vector<size_t> ids = table.IdsOf(plan.groups[g]);
    for (size_t i = 0; i < ids.size(); ++i) {
      made.holders[ids[i]] = {made.by_group.back().get(), one.device, i};
    }
  }
  return made;
}

}  // namespace ringwood

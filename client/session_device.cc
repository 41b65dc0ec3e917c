// Session's half for tensors on a device.
#include "absl/strings/str_format.h"
#include "client/exchange/device_exchange.h"
#include "client/session.h"

namespace ringwood {

// Every epoch has a ring of its own, from an id that rank 0 makes and the host transport carries.
// Plans change on all ranks between the same two steps, so all come here together.
Status Session::OpenDeviceRing() {
  if (!table_.IsOnDevice() || connection_->device_ring() != nullptr) return OkStatus();
  bool needed = false;
  for (const Group& group : plan_.groups) needed |= group.route == "ring";
  if (!needed) return OkStatus();
  DeviceRingOptions options;
  options.device = table_[0].device->index;
  options.rank = rank();
  options.world = world();
  options.timeout_seconds = kLongestWaitSeconds;  // heartbeats find the dead
  if (world() > 1) {
    if (rank() == 0) {
      RW_ASSIGN_OR_RETURN(options.id, connection_->accelerator().make_ring_id());
    }
    options.id.resize(kDeviceRingIdBytes);
    RW_RETURN_IF_ERROR(collectives_->Broadcast(std::as_writable_bytes(std::span(options.id)), 0));
  }
  return connection_->OpenDeviceRing(options);
}

StatusOr<std::unique_ptr<DeviceGroup>> Session::MakeGroupOnDevice(const Group& spec,
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
  options.masking = states_.IsMasked(spec);
  options.max_result = max_result;
  return connection_->accelerator().make_group(shapes, options);
}

// A sparse group takes the states of its tensors with it; a dense one has what they owe in its
// bucket, and the states stay until the first commit.
StatusOr<Session::Made> Session::MakeDeviceExchange(uint32_t group, std::optional<Climb> climb) {
  const Group& spec = plan_.groups[group];
  std::vector<const Tensor*> tensors;
  const std::vector<size_t> ids = table_.IdsOf(spec);
  uint64_t elements = 0;
  for (const size_t id : ids) {
    tensors.push_back(&table_[id]);
    elements += table_[id].spec.elements;
  }
  if (!climb) {
    RW_ASSIGN_OR_RETURN(auto bucket, connection_->accelerator().make_bucket(
                                         tensors.front()->device->index, elements));
    uint64_t first = 0;
    for (size_t id : ids) {
      if (const SparseTensor* const state = states_.of(id)) {
        RW_RETURN_IF_ERROR(bucket->Owe(first, state->residual()));
      }
      first += table_[id].spec.elements;
    }
    return Made{std::make_unique<DeviceExchange>(connection_->place(), group, tensors,
                                                 std::move(bucket), connection_->device_ring())};
  }
  RW_ASSIGN_OR_RETURN(auto on_device, MakeGroupOnDevice(spec, climb->most_entries()));
  for (size_t t = 0; t < ids.size(); ++t) {
    SparseTensor* const state = states_.of(ids[t]);
    if (state == nullptr) continue;
    RW_RETURN_IF_ERROR(on_device->WriteResidual(t, state->residual()));
    const std::span<const float> momentum = state->mutable_momentum();
    if (!momentum.empty()) RW_RETURN_IF_ERROR(on_device->WriteMomentum(t, momentum));
  }
  auto exchange = std::make_unique<DeviceSparseExchange>(
      *std::move(climb), tensors, std::move(on_device), connection_->compute());
  DeviceSparseExchange* const device = exchange.get();
  return Made{std::move(exchange), device};
}

}  // namespace ringwood

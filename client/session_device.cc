// Session's half for tensors on a device. All tensors of a session are on the host or all on one
// device, on every rank: groups are then of one kind, and the ring has one order of calls.
#include "absl/strings/str_format.h"
#include "client/session.h"

namespace ringwood {

bool Session::IsOnDevice() const {
  return !tensors_.empty() && tensors_.front()->device.has_value();
}

Status Session::CheckPlace(const Tensor& tensor) const {
  if (tensor.device && tensor.spec.route == "sparse") {
    return Invalid(absl::StrFormat(
        "tensor '%s' is on a device and sparse: only dense ones are exchanged there, copy it to "
        "the host or leave its route to the planner",
        tensor.spec.name));
  }
  if (tensors_.empty()) return OkStatus();
  const std::optional<OnDevice>& first = tensors_.front()->device;
  const bool alike = first.has_value() == tensor.device.has_value() &&
                     (!first.has_value() || first->index == tensor.device->index);
  if (alike) return OkStatus();
  return Invalid(absl::StrFormat(
      "tensor '%s' is not where '%s' is: the tensors of a session are all on the host or all on "
      "one device",
      tensor.spec.name, tensors_.front()->spec.name));
}

// Every epoch has a ring of its own, from an id that rank 0 makes and the host transport carries.
Status Session::OpenDeviceRing() {
  if (!IsOnDevice()) return OkStatus();
  DeviceRingOptions options;
  options.device = tensors_.front()->device->index;
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

}  // namespace ringwood

// The C interface: what this process can do with tensors on a device.
#include "client/c/handle.h"
#include "dense/cuda/device_support.h"

extern "C" {

int ringwood_device_support(void) {
  return ringwood::c::Run([] { return ringwood::FindDeviceSupport(""); });
}

int ringwood_session_device_support(ringwood_session* session, int device) {
  return ringwood::c::With(session, [&](auto& open) { return open.DeviceSupport(device); });
}

}  // extern "C"

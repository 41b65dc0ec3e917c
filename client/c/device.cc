// The C interface: what this process can do with tensors on a device.
#include "client/c/handle.h"
#include "dense/cuda/device_support.h"

extern "C" {

int ringwood_device_support(void) {
  return ringwood::c::Run([] { return ringwood::FindDeviceSupport(""); });
}

}  // extern "C"

// Linked where the build has no CUDA.
#include "base/cuda/device.h"
#include "dense/cuda/device_bucket.h"
#include "dense/cuda/device_ring.h"
#include "dense/cuda/device_support.h"

namespace ringwood {

Status FindDeviceSupport(const std::string&, int) { return CountDevices().status(); }

StatusOr<std::string> MakeDeviceRingId(const std::string&) { return CountDevices().status(); }

StatusOr<std::unique_ptr<DeviceRing>> MakeDeviceRing(Loop*, const DeviceRingOptions&) {
  return CountDevices().status();
}

StatusOr<std::unique_ptr<DeviceBucket>> MakeDeviceBucket(int, uint64_t, DataType) {
  return CountDevices().status();
}

}  // namespace ringwood

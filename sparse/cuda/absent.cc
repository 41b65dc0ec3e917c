// Linked where the build has no CUDA.
#include "base/cuda/device.h"
#include "sparse/cuda/device_group.h"

namespace ringwood {

StatusOr<std::unique_ptr<DeviceGroup>> MakeDeviceGroup(const std::vector<cuda::TensorShape>&,
                                                       const DeviceGroupOptions&) {
  return CountDevices().status();
}

}  // namespace ringwood

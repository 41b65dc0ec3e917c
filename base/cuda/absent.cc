// Linked where the build has no CUDA.
#include "base/cuda/device.h"

namespace ringwood {
namespace {

Status Absent() {
  return Refused(
      "this build has no CUDA: install the CUDA toolkit (nvcc) and build again with "
      "-DRINGWOOD_CUDA=ON");
}

}  // namespace

StatusOr<int> CountDevices() { return Absent(); }
StatusOr<std::unique_ptr<DeviceArray>> MakeDeviceArray(int, size_t) { return Absent(); }

}  // namespace ringwood

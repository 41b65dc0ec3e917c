#include "dense/cuda/device_ring.h"

#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/cuda/device.h"
#include "base/cuda/runtime.h"
#include "dense/cuda/device_support.h"
#include "dense/cuda/launch.h"
#include "dense/cuda/nccl_library.h"
#include "dense/cuda/nccl_ring.h"
#include "dense/cuda/ring_thread.h"

namespace ringwood {

Status FindDeviceSupport(const std::string& library, int device) {
  RW_RETURN_IF_ERROR(CountDevices().status());
  if (device >= 0) {
    const DeviceScope scope(device);
    RW_RETURN_IF_ERROR(scope.status());
    const std::string what = absl::StrFormat("load kernels onto device %d", device);
    RW_RETURN_IF_ERROR(FromCuda(cuda::LoadDenseKernels(), what));
  }
  return nccl::Load(library).status();
}

StatusOr<std::string> MakeDeviceRingId(const std::string& library) {
  RW_ASSIGN_OR_RETURN(const nccl::Library loaded, nccl::Load(library));
  nccl::Id id;
  if (const int result = loaded.get_unique_id(&id); result != nccl::kSuccess) {
    return Unavailable(std::string("make an id for NCCL: ") + loaded.get_error_string(result));
  }
  return std::string(id.bytes, sizeof id.bytes);
}

StatusOr<std::unique_ptr<DeviceRing>> MakeDeviceRing(Loop* loop, const DeviceRingOptions& options) {
  RW_CHECK(loop->OnThread());
  if (options.world < 1 || options.rank < 0 || options.rank >= options.world) {
    return Invalid(absl::StrFormat("rank %d of %d ranks", options.rank, options.world));
  }
  if (options.world > 1 && options.id.size() != nccl::kIdBytes) {
    return Invalid(absl::StrFormat("an id of %d bytes for NCCL, %d are expected", options.id.size(),
                                   nccl::kIdBytes));
  }
  if (!options.hosts.empty() && !IsComplete(options.hosts, options.world)) {
    return Invalid(absl::StrFormat("the hosts have %d ranks, not the %d of the world",
                                   RanksOf(options.hosts), options.world));
  }
  RW_RETURN_IF_ERROR(CountDevices().status());
  DeviceRingOptions known = options;
  if (known.hosts.empty()) known.hosts = OneEach(known.world);
  return MakeRingThread(
      loop, [known](Loop* own) { return MakeNcclRing(own, known); },
      RingSilenceSeconds(options.timeout_seconds));
}

}  // namespace ringwood

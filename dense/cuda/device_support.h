// Whether this process can exchange device memory, asked before anything is made of it.
#pragma once

#include <string>

#include "base/status.h"

namespace ringwood {

// Refused says what is missing: CUDA in the build, a driver, a device, NCCL; kernels for
// `device`, which this process uses already, -1: for none in particular. `library` as in
// DeviceRingOptions.
Status FindDeviceSupport(const std::string& library, int device = -1);

}  // namespace ringwood

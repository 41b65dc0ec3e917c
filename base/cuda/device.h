// The accelerator, for code that is built with and without CUDA. Without it (absent.cc is linked)
// every call answers Refused, as it does where no device is found: starting again does not help.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"

namespace ringwood {

// At least 1; Refused says what is missing: the build, the driver or the device.
StatusOr<int> CountDevices();

// A block of device memory; copies block the caller. Any thread.
class DeviceArray {
 public:
  virtual ~DeviceArray() = default;
  virtual void* data() = 0;
  virtual size_t bytes() const = 0;
  virtual Status Upload(std::span<const std::byte> from) = 0;    // from.size() <= bytes()
  virtual Status Download(std::span<std::byte> into) const = 0;  // into.size() <= bytes()
};
StatusOr<std::unique_ptr<DeviceArray>> MakeDeviceArray(int device, size_t bytes);

}  // namespace ringwood

// What a session needs of a device, as functions: tests have a device of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dense/cuda/device_bucket.h"
#include "dense/cuda/device_ring.h"
#include "sparse/cuda/device_group.h"

namespace ringwood {

struct Accelerator {
  // Why ranks make no ring: what NCCL sends is neither encrypted nor authenticated.
  Status ring_refused = OkStatus();
  // One per epoch, made on one rank; the others get it over the host transport.
  std::function<StatusOr<std::string>()> make_ring_id = [] { return MakeDeviceRingId(""); };
  // On the loop's thread.
  std::function<StatusOr<std::unique_ptr<DeviceRing>>(Loop*, const DeviceRingOptions&)> make_ring =
      MakeDeviceRing;
  std::function<StatusOr<std::unique_ptr<DeviceBucket>>(int device, uint64_t elements,
                                                        DataType type)>
      make_bucket = MakeDeviceBucket;
  std::function<StatusOr<std::unique_ptr<DeviceGroup>>(const std::vector<cuda::TensorShape>&,
                                                       const DeviceGroupOptions&)>
      make_group = MakeDeviceGroup;
};

}  // namespace ringwood

// What a device does for the plans of coded_plan.h and sum_plan.h: kernels on a ring's stream, and
// messages between them. Tests run the same plans over memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "dense/cuda/lattice_view.h"
#include "dense/cuda/sum_view.h"

namespace ringwood::cuda {

struct SendView {
  int peer = 0;
  const std::byte* from = nullptr;
  uint64_t bytes = 0;
};
struct ReceiveView {
  int peer = 0;
  std::byte* to = nullptr;
  uint64_t bytes = 0;
};

// In the order of calls, as on one stream.
class PlanDevice {
 public:
  virtual ~PlanDevice() = default;
  // All at once: in any order they fit together.
  virtual Status Exchange(std::span<const SendView> sends,
                          std::span<const ReceiveView> receives) = 0;
  virtual Status Sum(const SumView& view) = 0;
  virtual Status Encode(const EncodeView& view) = 0;
  virtual Status Add(const AddView& view) = 0;
  virtual Status Decode(const DecodeView& view) = 0;
};

}  // namespace ringwood::cuda

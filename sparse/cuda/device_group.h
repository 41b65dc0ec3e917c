// A worker's side of the sparse tensors of one group whose gradients lie on an accelerator: what
// SparseTensor (sparse/sparse_tensor.h) is for one tensor on the CPU, with the same rules, the same
// picks and the same residuals to the bit.
//
// Gradients stay where they are. Of the picks, and only of them, a copy arrives in pinned host
// memory, from where a transport sends it; the result goes back the same way. No call waits for the
// device, except where it says so: what Accumulate enqueues calls `done` when it has run.
//
//   trainer's streams ──event──► own stream: accumulate, refine, copy picks ──► done (host)
//   own stream: accepted picks leave, result is scattered ──event──► trainer's streams
//
// One Accumulate and Commit or Abort at a time; calls on one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "sparse/cuda/layout.h"
#include "sparse/entries.h"

namespace ringwood {

struct DeviceGroupOptions {
  int device = 0;
  float decay = 1;          // as in SparseOptions
  bool masking = true;      // SparseTensor::set_masking
  uint64_t max_result = 0;  // entries of a result at most
};

class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;  // waits for what it has enqueued

  struct Gradient {
    float* data = nullptr;   // device memory, aligned to 4 bytes; unchanged until `done`
    void* stream = nullptr;  // cudaStream_t that makes and uses it; null: the default stream
  };

  // The next Accumulate waits for what `stream` holds now and for nothing behind it.
  virtual Status Mark(void* stream) = 0;

  // `gradients`: one a tensor, multiplied by `weight` (0: they are not read and count as zeros).
  // The marks of their streams come before, or where there are none since the last Accumulate, what
  // they hold now. `done` runs on a thread of CUDA's and may only hand
  // over (Loop::Post); where the device fails it may never run, so its waiters have a deadline and
  // ask Health. Refused while an earlier one has not been done.
  virtual Status Accumulate(const std::vector<Gradient>& gradients, float weight,
                            std::function<void()> done) = 0;
  virtual Status Health() = 0;  // OK, or why the device will never call `done`

  // From `done` on, until the next Accumulate. Tensor coordinates; rising indices.
  virtual std::span<const uint32_t> pick_index(size_t tensor) const = 0;
  virtual std::span<const float> pick_value(size_t tensor) const = 0;
  virtual double seconds() const = 0;      // that the device took, once all gradients were there
  virtual uint64_t nonfinite() const = 0;  // NaN and Inf in all new residuals: do not commit then

  // What was really sent for each pick of a tensor, where a value code rounds.
  virtual void SetSent(size_t tensor, std::span<const float> values) = 0;

  // The new residuals become real; one byte (0 or 1) a pick of all tensors, in order.
  virtual Status Commit(std::span<const uint8_t> accepted) = 0;
  virtual void Abort() = 0;

  // Overwrites the gradients of the last Accumulate with `sum`/`total_weight` (coordinates of the
  // group), zero elsewhere: after what their streams hold now and before what is put there next.
  virtual Status Scatter(const Entries& sum, double total_weight) = 0;

  // For checkpoints; these wait for the device. Momentum only where it is on.
  virtual Status ReadResidual(size_t tensor, std::span<float> into) = 0;
  virtual Status WriteResidual(size_t tensor, std::span<const float> from) = 0;
  virtual Status ReadMomentum(size_t tensor, std::span<float> into) = 0;
  virtual Status WriteMomentum(size_t tensor, std::span<const float> from) = 0;
};

// A selection's scope is the whole tensor. Refused without CUDA or a device; Exhausted where
// its memory does not suffice.
StatusOr<std::unique_ptr<DeviceGroup>> MakeDeviceGroup(const std::vector<cuda::TensorShape>& shapes,
                                                       const DeviceGroupOptions& options);

}  // namespace ringwood

// The device memory of one group: residuals, momenta and the work arrays that its kernels share.
// Only for sources that are built with CUDA.
#pragma once

#include "base/cuda/runtime.h"
#include "sparse/cuda/layout.h"
#include "sparse/cuda/view.h"

namespace ringwood::cuda {

class GroupMemory {
 public:
  explicit GroupMemory(Layout layout) : layout_(std::move(layout)) {}

  // On the current device; once. Waits until everything is in place.
  Status Allocate(cudaStream_t stream);

  const Layout& layout() const { return layout_; }  // with device pointers from Allocate on
  GroupView View(uint32_t present) const;

  // What the host copies to and from; the lengths are the layout's.
  const DeviceBuffer<float*>& gradients() const { return gradients_; }
  const DeviceBuffer<TensorOutcome>& outcomes() const { return outcomes_; }
  const DeviceBuffer<uint32_t>& pick_index() const { return pick_index_; }
  const DeviceBuffer<float>& pick_value() const { return pick_value_; }

 private:
  Status AllocateTensors(cudaStream_t stream);
  Status AllocateWork(cudaStream_t stream);

  Layout layout_;
  DeviceBuffer<float> floats_;  // residuals, momenta
  DeviceBuffer<TensorView> tensors_;
  DeviceBuffer<TensorState> states_;
  DeviceBuffer<TensorOutcome> outcomes_;
  DeviceBuffer<float*> gradients_;
  DeviceBuffer<uint32_t> tile_tensor_, tile_first_, tile_count_, tile_larger_, tile_ties_;
  DeviceBuffer<uint32_t> block_larger_, block_ties_;
  DeviceBuffer<uint32_t> histogram_, near_key_, near_tile_, open_, candidate_index_, pick_index_;
  DeviceBuffer<float> candidate_value_, pick_value_;
};

}  // namespace ringwood::cuda

#include "sparse/cuda/group_memory.h"

#include <utility>

namespace ringwood::cuda {
namespace {

constexpr uint64_t kAlignFloats = 64;  // tensors begin at 256 bytes: whole lines of the caches

uint64_t Padded(uint64_t elements) {
  return (elements + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
}

Status Upload(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  return FromCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream),
                  "copy the tensor table to the device");
}

}  // namespace

Status GroupMemory::Allocate(cudaStream_t stream) {
  RW_RETURN_IF_ERROR(AllocateTensors(stream));
  RW_RETURN_IF_ERROR(AllocateWork(stream));
  const std::vector<TensorState> fresh(layout_.tensors.size());
  RW_RETURN_IF_ERROR(Upload(tensors_.data(), layout_.tensors.data(),
                            tensors_.size() * sizeof(TensorView), stream));
  RW_RETURN_IF_ERROR(Upload(tile_tensor_.data(), layout_.tile_tensor.data(),
                            tile_tensor_.size() * sizeof(uint32_t), stream));
  RW_RETURN_IF_ERROR(
      Upload(states_.data(), fresh.data(), states_.size() * sizeof(TensorState), stream));
  return FromCuda(cudaStreamSynchronize(stream), "prepare a group on the device");
}

Status GroupMemory::AllocateTensors(cudaStream_t stream) {
  uint64_t floats = 0;
  for (const TensorView& view : layout_.tensors) {
    floats += (view.factor != 0 ? 4 : 2) * Padded(view.elements);
  }
  RW_RETURN_IF_ERROR(floats_.Allocate(floats, stream));
  float* next = floats_.data();
  for (TensorView& view : layout_.tensors) {
    for (int side = 0; side < 2; ++side) {
      view.residual[side] = std::exchange(next, next + Padded(view.elements));
      if (view.factor != 0) view.momentum[side] = std::exchange(next, next + Padded(view.elements));
    }
  }
  return OkStatus();
}

Status GroupMemory::AllocateWork(cudaStream_t stream) {
  const size_t tensors = layout_.tensors.size(), tiles = layout_.tile_tensor.size();
  RW_RETURN_IF_ERROR(tensors_.Allocate(tensors, stream));
  RW_RETURN_IF_ERROR(states_.Allocate(tensors, stream));
  RW_RETURN_IF_ERROR(outcomes_.Allocate(tensors, stream));
  RW_RETURN_IF_ERROR(gradients_.Allocate(tensors, stream));
  for (auto* array : {&tile_tensor_, &tile_first_, &tile_count_, &tile_larger_, &tile_ties_}) {
    RW_RETURN_IF_ERROR(array->Allocate(tiles, stream));
  }
  RW_RETURN_IF_ERROR(block_larger_.Allocate(kRefineBlocks, stream));
  RW_RETURN_IF_ERROR(block_ties_.Allocate(kRefineBlocks, stream));
  RW_RETURN_IF_ERROR(histogram_.Allocate(tensors * kBins, stream));
  RW_RETURN_IF_ERROR(near_key_.Allocate(tensors * kNear, stream));
  RW_RETURN_IF_ERROR(near_tile_.Allocate(tensors * kNear, stream));
  RW_RETURN_IF_ERROR(open_.Allocate(kRounds, stream));
  RW_RETURN_IF_ERROR(candidate_index_.Allocate(layout_.candidates, stream));
  RW_RETURN_IF_ERROR(candidate_value_.Allocate(layout_.candidates, stream));
  RW_RETURN_IF_ERROR(pick_index_.Allocate(layout_.picks, stream));
  return pick_value_.Allocate(layout_.picks, stream);
}

GroupView GroupMemory::View(uint32_t present) const {
  GroupView view;
  view.tensors = tensors_.data();
  view.gradients = gradients_.data();
  view.states = states_.data();
  view.outcomes = outcomes_.data();
  view.tensor_count = static_cast<uint32_t>(layout_.tensors.size());
  view.tiles = static_cast<uint32_t>(layout_.tile_tensor.size());
  view.present = present;
  view.tile_tensor = tile_tensor_.data();
  view.tile_first = tile_first_.data();
  view.tile_count = tile_count_.data();
  view.tile_larger = tile_larger_.data();
  view.tile_ties = tile_ties_.data();
  view.block_larger = block_larger_.data();
  view.block_ties = block_ties_.data();
  view.histogram = histogram_.data();
  view.near_key = near_key_.data();
  view.near_tile = near_tile_.data();
  view.open = open_.data();
  view.candidate_index = candidate_index_.data();
  view.candidate_value = candidate_value_.data();
  view.pick_index = pick_index_.data();
  view.pick_value = pick_value_.data();
  return view;
}

}  // namespace ringwood::cuda

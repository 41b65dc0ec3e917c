// Runs the steps of a CodedPlan: what each kernel sees, and what NCCL moves. What a device does
// stands behind CodedDevice, so that tests run the same text over memory of the host.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"
#include "dense/cuda/coded_plan.h"
#include "dense/cuda/lattice_view.h"

namespace ringwood::cuda {

// Of a rank's reduction; device memory. See LatticeSource and LatticeResult.
struct CodedMemory {
  const float* values = nullptr;
  const float* error = nullptr;
  float* next_error = nullptr;
  const BlockReach* reach = nullptr;
  BlockReach* next_reach = nullptr;
  float* output = nullptr;
  uint32_t* most = nullptr;  // 0 before; the largest next reach afterwards
  // Staging, as long as the plan says and aligned to 2 bytes at least.
  std::byte* sent = nullptr;
  std::byte* came = nullptr;
  std::byte* sums = nullptr;
  BlockReach less = 0;  // LatticeSource's
};

// In the order of calls, as on one stream.
class CodedDevice {
 public:
  virtual ~CodedDevice() = default;
  virtual Status Encode(const EncodeView& view) = 0;
  virtual Status Exchange(std::span<const CodedMessage> messages, const std::byte* sent,
                          std::byte* came) = 0;
  virtual Status Add(const AddView& view) = 0;
  // Of each rank `bytes`, one after the other; those of this one, `own`, lie at their place.
  virtual Status Gather(uint64_t own, uint64_t bytes, std::byte* sums) = 0;
  virtual Status Decode(const DecodeView& view) = 0;
};

inline Status RunStep(const CodedPlan& plan, const CodedStep& step, const CodedMemory& memory,
                      CodedDevice* device) {
  const uint64_t begin = step.first * kLatticeBlock;
  const uint64_t elements =
      std::min<uint64_t>(step.blocks * kLatticeBlock, plan.shape.elements - begin);
  const auto own = static_cast<uint64_t>(plan.shape.rank);
  const auto words = [](std::byte* bytes) { return reinterpret_cast<uint16_t*>(bytes); };
  const PackedParts came = {words(memory.came), step.part, plan.code_width};
  const PackedParts sums = {words(memory.sums), step.part, plan.sum_width};
  switch (step.op) {
    case CodedOp::kEncode: {
      EncodeView view;
      view.values = memory.values + begin;
      view.error = memory.error + begin;
      view.next_error = memory.next_error + begin;
      view.reach = memory.reach + step.first;
      view.elements = elements;
      view.blocks = step.part * static_cast<uint64_t>(plan.shape.world);
      view.levels = plan.shape.levels;
      view.less = memory.less;
      view.codes = {words(memory.sent), step.part, plan.code_width};
      view.own_part = own;
      view.own_words = came.words;  // as if it had come
      return device->Encode(view);
    }
    case CodedOp::kExchange:
      return device->Exchange(MessagesOf(plan, step), memory.sent, memory.came);
    case CodedOp::kAdd:
      return device->Add({came, plan.shape.world, sums, own});
    case CodedOp::kGather:
      return device->Gather(own, PackedBytes(step.part, plan.sum_width), memory.sums);
    case CodedOp::kDecode: {
      DecodeView view;
      view.sums = sums;
      view.reach = memory.reach + step.first;
      view.next_reach = memory.next_reach + step.first;
      view.values = memory.output + begin;
      view.elements = elements;
      view.levels = plan.shape.levels;
      view.terms = plan.shape.world;
      view.most = memory.most;
      return device->Decode(view);
    }
  }
  return Internal("an unknown step of a coded reduction");
}

}  // namespace ringwood::cuda

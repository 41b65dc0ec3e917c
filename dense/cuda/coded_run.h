// Runs the steps of a CodedPlan: what each kernel sees, and what is moved.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/status.h"
#include "dense/cuda/coded_plan.h"
#include "dense/cuda/plan_device.h"

namespace ringwood::cuda {

// Of a rank's reduction; device memory. See LatticeSource and LatticeResult.
struct CodedMemory {
  const float* values = nullptr;
  const float* error = nullptr;
  float* next_error = nullptr;
  const BlockReach* reach = nullptr;
  BlockReach* next_reach = nullptr;
  float* output = nullptr;
  uint32_t* most = nullptr;      // 0 before; the largest next reach afterwards
  std::byte* staging = nullptr;  // as long as the plan says; aligned to 2 bytes at least
  BlockReach less = 0;           // LatticeSource's
};

inline Status RunStep(const CodedPlan& plan, const CodedStep& step, const CodedMemory& memory,
                      PlanDevice* device) {
  const uint64_t begin = step.first * kLatticeBlock;
  const uint64_t elements =
      std::min<uint64_t>(step.blocks * kLatticeBlock, plan.shape.elements - begin);
  const auto words = [&](uint64_t at) { return reinterpret_cast<uint16_t*>(memory.staging + at); };
  const PackedWords result = {words(step.result.at), step.result.width};
  switch (step.op) {
    case CodedOp::kEncode: {
      EncodeView view;
      view.values = memory.values + begin;
      view.error = memory.error + begin;
      view.next_error = memory.next_error + begin;
      view.reach = memory.reach + step.first;
      view.elements = elements;
      view.packs = step.packs;
      view.levels = plan.shape.levels;
      view.less = memory.less;
      view.codes = result;
      return device->Encode(view);
    }
    case CodedOp::kExchange: {
      std::vector<SendView> sends;
      for (const CodedMessage& message : step.sends) {
        sends.push_back({message.peer, memory.staging + message.at, message.bytes});
      }
      std::vector<ReceiveView> receives;
      for (const CodedMessage& message : step.receives) {
        receives.push_back({message.peer, memory.staging + message.at, message.bytes});
      }
      return device->Exchange(sends, receives);
    }
    case CodedOp::kAdd: {
      AddView view;
      view.own = {words(step.own), step.width};
      view.rest = {words(step.rest), step.width};
      view.others = step.others;
      view.packs = step.packs;
      view.sums = result;
      return device->Add(view);
    }
    case CodedOp::kDecode: {
      DecodeView view;
      view.sums = result;
      view.reach = memory.reach + step.first;
      view.next_reach = memory.next_reach + step.first;
      view.values = memory.output + begin;
      view.elements = elements;
      view.levels = plan.shape.levels;
      view.terms = RanksOf(plan.shape.hosts);
      view.most = memory.most;
      return device->Decode(view);
    }
  }
  return Internal("an unknown step of a coded reduction");
}

}  // namespace ringwood::cuda

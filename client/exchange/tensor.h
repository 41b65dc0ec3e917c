// A registered gradient: its entry in the plan's table, and its place in the trainer's memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "plan/plan.h"
#include "transport/data_type.h"

namespace ringwood {

// A tensor's index in the table of plans, messages and timelines. Not its id: the table has the
// tensors in reverse order of registration.
struct TableIndex {
  uint32_t value = 0;
  bool operator==(const TableIndex&) const = default;
};

// The device of a tensor, and the stream that makes and uses it.
struct OnDevice {
  int index = 0;
  void* stream = nullptr;  // cudaStream_t; null: the default stream
};

struct Tensor {
  TensorSpec spec;
  void* data = nullptr;                // the trainer's; read from ready on, written at commit only
  DataType type = DataType::kFloat32;  // of what lies there: or bfloat16, which is dense
  std::optional<double> momentum = std::nullopt;  // correction while sparse; nothing: the session's
  std::optional<OnDevice> device = std::nullopt;  // nothing: `data` is host memory
  // Of the session and of all ranks together; nothing: the session's. docs/sparse.md
  std::optional<double> clip_norm = std::nullopt;
  double norm_limit = 0;  // what it is for this rank's gradient; 0: none. Set by Register
  double decay = 1;       // of its residual while sparse: e <- decay * e + weight * gradient
  // Codes of int4 reach this share of a block's largest values: docs/dense.md. Register makes it
  // the smallest of all tensors', so that no bit depends on what is merged.
  double wire_reach = 1;
  // It is exchanged in the rounds of its turn, and rests in the others: docs/client.md, "Turns".
  uint32_t turn = 0, turns = 1;

  bool HasTurn(uint64_t round) const { return round % turns == turn; }

  // Where it is float32.
  std::span<float> gradient() const {
    RW_CHECK(type == DataType::kFloat32);
    return {static_cast<float*>(data), spec.elements};
  }
  // Where it is bfloat16: its bits.
  std::span<uint16_t> bfloat16() const {
    RW_CHECK(type == DataType::kBFloat16);
    return {static_cast<uint16_t*>(data), spec.elements};
  }
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(data), spec.elements * SizeOf(type)};
  }
};

// Of tensors on a device.
inline bool ShareAStream(const std::vector<const Tensor*>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const Tensor* tensor) {
    return tensor->device->stream == tensors[0]->device->stream;
  });
}

}  // namespace ringwood

// A registered gradient: what the plan knows of it, and where it lies in the trainer's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "plan/plan.h"

namespace ringwood {

// A tensor's place in the table that plans, messages and timelines know. Not its id: the table has
// the tensors in the reverse order of their registration.
struct TableIndex {
  uint32_t value = 0;
  bool operator==(const TableIndex&) const = default;
};

// Where a tensor on an accelerator lies, and what makes and uses it there.
struct OnDevice {
  int index = 0;
  void* stream = nullptr;  // cudaStream_t; null: the default stream
};

struct Tensor {
  TensorSpec spec;
  float* data = nullptr;  // the trainer's; read from ready on, written at commit only
  std::optional<double> momentum = std::nullopt;  // correction while sparse; nothing: the session's
  std::optional<OnDevice> device = std::nullopt;  // nothing: `data` is host memory
  // Of the session and of all ranks together; nothing: the session's. docs/sparse.md
  std::optional<double> clip_norm = std::nullopt;
  double norm_limit = 0;  // what it is for this rank's gradient; 0: none. Set by Register

  std::span<float> gradient() const { return {data, spec.elements}; }
};

}  // namespace ringwood

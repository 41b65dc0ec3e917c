// A registered gradient: what the plan knows of it, and where it lies in the trainer's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "plan/plan.h"

namespace ringwood {

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

  std::span<float> gradient() const { return {data, spec.elements}; }
};

}  // namespace ringwood

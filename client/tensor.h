// A registered gradient: what the plan knows of it, and where it lies in the trainer's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "plan/plan.h"

namespace ringwood {

struct Tensor {
  TensorSpec spec;
  float* data = nullptr;  // the trainer's; read from ready on, written at commit only
  std::optional<double> momentum = std::nullopt;  // correction while sparse; nothing: the session's

  std::span<float> gradient() const { return {data, spec.elements}; }
};

}  // namespace ringwood

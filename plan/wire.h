// Plans and tensor tables as messages. FromProto believes nothing: the answer is an error or a
// value within stated limits, and a plan whose hash matches its content. Whether a plan fits a
// table is Validate's question (plan/strategy/planner.h).
#pragma once

#include <vector>

#include "base/status.h"
#include "plan/plan.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

v1::Plan ToProto(const Plan& plan);
v1::Tensor ToProto(const TensorSpec& tensor);

StatusOr<Plan> FromProto(const v1::Plan& message);
StatusOr<TensorSpec> FromProto(const v1::Tensor& message);

// Plans of one epoch are numbered from 0, and the rounds of the data plane carry the number: what a
// reducer of the plan before still waits for can never meet a message of the next.
inline uint64_t WireRound(uint32_t generation, uint64_t round) {
  return (static_cast<uint64_t>(generation) << 40) | round;
}

inline uint32_t GenerationOf(uint64_t wire_round) {
  return static_cast<uint32_t>(wire_round >> 40);
}

// The round of such a name, without the plan's number.
inline uint64_t RoundOf(uint64_t wire_round) { return wire_round & ((uint64_t{1} << 40) - 1); }

}  // namespace ringwood

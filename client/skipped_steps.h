// Steps that are skipped one after the other. A value that is too large for a sum, if it is in a
// residual and not only in one gradient, makes every following step be skipped. So at the 10th,
// 100th, 1000th, ... in a row the ranks say which tensor it is in, and what to do.
//
// Trainer's thread.
#pragma once

#include <cstdint>
#include <string>

#include "client/options/options.h"
#include "client/tensor_states.h"
#include "client/tensor_table.h"
#include "dense/place.h"

namespace ringwood {

class SkippedSteps {
 public:
  // All outlive this.
  SkippedSteps(const SessionOptions& options, const TensorTable& table, const TensorStates& states)
      : options_(options), table_(table), states_(states) {}

  // A round has ended. If it was skipped: gradients and states are as they were when it began.
  void Ended(const Place& place, uint64_t round, double weight, bool skipped);

 private:
  // What this rank brings that no sum can hold, and what to do about it; "": nothing that it sees.
  std::string CauseHere(int world, uint64_t round, double weight) const;
  std::string InGradient(size_t id, int world, double weight) const;
  std::string InResidual(size_t id, int world) const;

  const SessionOptions& options_;
  const TensorTable& table_;
  const TensorStates& states_;
  uint64_t in_a_row_ = 0;
  uint64_t next_said_ = kFirstSaid;
  // A scaler of a loss halves its factor with each step that it skips: it takes fewer.
  static constexpr uint64_t kFirstSaid = 10;
};

}  // namespace ringwood

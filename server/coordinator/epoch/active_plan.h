// What the ranks agreed on: their tensors, the plan in force and its number in the epoch. A plan
// changes between two rounds only, at the same boundary for all members. Pure.
#pragma once

#include "server/coordinator/event.h"
#include "server/coordinator/roster.h"

namespace ringwood {

class ActivePlan {
 public:
  // Rank 0's table and plan, as number `generation`. The error names a server of `roster` that
  // has too little memory for it.
  static StatusOr<ActivePlan> Make(const v1::AgreeRequest& table, uint64_t from_round,
                                   uint32_t generation, const Roster& roster);

  const v1::Plan& plan() const { return activated_.plan(); }
  uint64_t from_round() const { return activated_.from_round(); }
  const google::protobuf::RepeatedPtrField<v1::Tensor>& tensors() const {
    return activated_.tensors();
  }
  uint32_t generation() const { return generation_; }  // number of changes in the epoch

  Status Admit(const v1::Plan& plan, const Roster& roster) const;
  void Change(const v1::Plan& plan) {
    ++generation_;
    *activated_.mutable_plan() = plan;
  }
  // The notice of it for reducers, after `committed` rounds.
  v1::Notice Notice(uint64_t committed) const;

 private:
  ActivePlan() = default;

  v1::Activated activated_;
  uint32_t generation_ = 0;
};

}  // namespace ringwood

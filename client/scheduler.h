// Decides which groups may start, from which gradients are ready. A pure value: no threads, no
// clock.
//
// A group passes  waiting -> complete (all gradients ready) -> packed -> running -> finished.
// Packing may happen in any order; each lane (one a route) starts its groups strictly in plan order
// and has at most its window of them running, so every worker starts the same exchanges in the same
// order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace ringwood {

// How many groups of a route run at once.
struct LaneWindows {
  int ring = kRingsAtOnce;
  int tree = kTreesAtOnce;
};

class Scheduler {
 public:
  // Every tensor 0..tensors-1 is in exactly one group of `plan`; Check says so before.
  Scheduler(const Plan& plan, size_t tensors, const LaneWindows& windows = {});

  // Whether `plan` covers each tensor of a table of this size exactly once and names known routes.
  static Status Check(const Plan& plan, size_t tensors);

  void Begin();  // the next round: nothing is ready

  // Marks a gradient. Returns the group that it completes (pack it now), or -1. AlreadyExists: it
  // was marked in this round.
  StatusOr<int> Ready(uint32_t tensor);

  std::vector<int> Packed(int group);    // the groups to start now, in order
  std::vector<int> Finished(int group);  // the groups to start now, in order

  bool IsReady(uint32_t tensor) const { return ready_[tensor]; }
  bool Done() const { return finished_ == groups_.size(); }
  std::vector<uint32_t> Missing() const;  // tensors that are not ready, in table order

 private:
  struct GroupState {
    int lane = 0;
    size_t missing = 0;
    size_t tensors = 0;
    bool packed = false;
  };
  struct LaneState {
    std::vector<int> order;  // groups in plan order
    int window = 1;
    size_t next = 0;  // first that has not started
    int running = 0;
  };
  std::vector<int> Startable(LaneState* lane);

  std::vector<int> group_of_;
  std::vector<bool> ready_;
  std::vector<GroupState> groups_;
  std::vector<LaneState> lanes_;
  size_t finished_ = 0;
};

}  // namespace ringwood

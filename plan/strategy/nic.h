// One NIC that sends the groups of both lanes of a plan, one after the other. It waits for a group
// to end only where its lane's window is full.
#pragma once

#include <vector>

#include "plan/strategy/problem.h"

namespace ringwood {

// The delay of each group of a plan for so many reducers, with `hosts` of all workers and
// `node_hosts` as PlanInput has them.
std::vector<double> GroupDelays(const Plan& plan, const std::vector<TensorSpec>& table,
                                const Network& network, const Hosts& hosts, int reducers,
                                const std::vector<int>& node_hosts);

class Nic {
 public:
  explicit Nic(const Problem& problem) : problem_(problem) {}
  // When the next group would start, if this one is it.
  double StartOf(double ready, const Group& group) const;
  // The next group, which is ready (and its entries selected) at `ready`: sets its start and end.
  void Send(double ready, Group* group);
  double end() const { return end_; }  // of all groups

 private:
  const Problem& problem_;
  OnTheWay ring_{kRingsAtOnce};
  OnTheWay tree_{kTreesAtOnce};
  double sent_ = 0;
  double end_ = 0;
};

}  // namespace ringwood

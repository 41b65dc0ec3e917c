#include "plan/strategy/nic.h"

#include <algorithm>

#include "plan/strategy/tree_cost.h"

namespace ringwood {

std::vector<double> GroupDelays(const Plan& plan, const std::vector<TensorSpec>& table,
                                const Network& network, const Hosts& hosts, int reducers,
                                const std::vector<int>& node_hosts) {
  const Delay ring = RingDelay(network, hosts);
  const double tree = TreeDelay(network, {.workers = RanksOf(hosts),
                                          .reducers = reducers,
                                          .fanout = static_cast<int>(plan.fanout),
                                          .hosts = node_hosts});
  std::vector<double> delays;
  for (const Group& group : plan.groups) {
    delays.push_back(group.route == "tree" ? tree : ring.Of(DenseBytes(table, group.tensors)));
  }
  return delays;
}

double Nic::StartOf(double ready, const Group& group) const {
  const OnTheWay& lane = group.route == "tree" ? tree_ : ring_;
  return std::max({sent_, ready, DelayOf(problem_, group) > 0 ? lane.Room() : 0});
}

void Nic::Send(double ready, Group* group) {
  OnTheWay& lane = group->route == "tree" ? tree_ : ring_;
  const double delay = DelayOf(problem_, *group);
  group->start_seconds = StartOf(ready, *group);
  sent_ = group->start_seconds + SecondsOf(problem_, *group);
  group->end_seconds = sent_ + delay;
  if (delay > 0) lane.Add(group->end_seconds);  // else it has ended once it is sent
  end_ = std::max(end_, group->end_seconds);
}

}  // namespace ringwood

// Plays schedules: the very values that the interpreter runs, for every node, on modelled links.
//
// Max-plus: a node runs its schedule as far as messages allow; every event's time is a maximum and
// a sum of others. A message leaves when its content is there and the sender's card is free,
// reaches the receiver alpha later, and occupies both cards for beta * bytes; messages that wait
// for one card are served in the order in which they arrive. Adding takes gamma * bytes and goes on
// while the next message arrives. Sends do not block their sender.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/model/cost.h"
#include "plan/plan.h"
#include "transport/schedule.h"

namespace ringwood {

// One node against the model: 1 = as modelled, 2 = takes twice as long.
struct NodeSpeed {
  double compute = 1;
  double alpha = 1;
  double beta = 1;
};

// One collective over all nodes.
struct Performance {
  const std::vector<Schedule>* schedules = nullptr;  // of each node; not owned
  double message_bytes = 0;                          // of every slot
  double ready_seconds = 0;                          // at a worker of speed 1
};

struct Scene {
  Network network;
  int workers = 1;                 // the first nodes; the others are ready at once
  std::vector<NodeSpeed> speeds;   // of each node; missing ones are 1
  std::vector<Performance> plays;  // each node runs them in order
};

struct Outcome {
  std::vector<double> start_seconds;  // of each play: when the first worker could begin
  std::vector<double> end_seconds;    // of each play: when the last node is through
  std::vector<double> node_end_seconds;
  uint64_t messages = 0;
};

// A schedule that waits for what never comes is a deadlock: kAborted, naming who waits for whom in
// which play. A message with another slot than expected is kCorrupt. All schedules of a play have
// one length: the number of nodes.
StatusOr<Outcome> Simulate(const Scene& scene);

// The plan's groups on `workers` and `reducers`: rings, their halves and trees from the production
// schedules, one group after the other.
struct PlanScene {
  Network network;
  int workers = 1;
  int reducers = 0;
  double entry_bytes = 6.1;
  std::vector<NodeSpeed> speeds;
  SelectionCost selection;          // of each sparse tensor, beside backward
  bool selects_on_compute = false;  // of each sparse group instead, and backward waits (OMGS)
};
StatusOr<Outcome> SimulatePlan(const PlanScene& scene, const Plan& plan,
                               const std::vector<TensorSpec>& tensors,
                               const std::vector<double>& ready_seconds);

}  // namespace ringwood

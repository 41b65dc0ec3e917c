// Plays schedules: the very values that the engines run, for every node, on modelled links.
//
// Max-plus: a node runs its schedule as far as messages allow; every event's time is a maximum and
// a sum of others. A message leaves when its content is there and the sender's NIC is free,
// reaches the receiver alpha and delay later, and occupies both NICs for beta * bytes; messages
// that wait for one NIC are served in the order in which they arrive. Between nodes of one host it
// takes the host's memory for inside_beta * bytes instead. Adding takes gamma * bytes and goes on
// while the next message arrives. Sends do not block their sender; receives that follow each other
// are taken in the order in which they arrive.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "dense/collective.h"
#include "dense/place.h"
#include "plan/model/cost.h"
#include "plan/plan.h"
#include "plan/predict/scene.h"

namespace ringwood {

struct Outcome {
  std::vector<double> start_seconds;  // of each play: when the first worker could begin
  std::vector<double> end_seconds;    // of each play: when the last node is through
  std::vector<double> node_end_seconds;
  uint64_t messages = 0;
};

// A schedule that waits for what never comes is a deadlock: Aborted, naming who waits for whom in
// which play. A message with another slot than expected is Corrupt. Other errors are CheckScene's.
StatusOr<Outcome> Simulate(const Scene& scene);

// Where a plan is played.
struct PlanScene {
  Network network;
  int workers = 1;
  int reducers = 0;
  double entry_bytes = 6.1;
  std::vector<NodeSpeed> speeds;
  SelectionCost selection;          // of each sparse tensor, beside backward
  bool selects_on_compute = false;  // of each sparse group instead, and backward waits (OMGS)
  Hosts hosts;                      // of the workers; empty: one each
  std::vector<int> node_hosts;      // of all nodes (TreeShape::hosts); empty: reducers are alone
  HopCost cost;                     // by which workers choose; a job that adapts measures its own
  // Messages of all dense groups: beyond, chunks are joined until they fit or are whole tensors.
  uint64_t most_messages = uint64_t{32} << 20;
};

// One dense collective of all workers: CollectiveFor of each of them.
Performance PlayOf(const CollectiveSpec& spec, const PlanScene& scene);

// What a job with this plan would run, group by group: for dense groups CollectiveFor of every
// worker (dense/collective.h), as the engine calls it, for sparse ones TreeSchedules.
struct Stage {
  Scene scene;
  uint64_t joined_chunks = 1;  // how many chunks of a job are played as one
};
StatusOr<Stage> StageOf(const PlanScene& scene, const Plan& plan,
                        const std::vector<TensorSpec>& tensors,
                        const std::vector<double>& ready_seconds);

}  // namespace ringwood

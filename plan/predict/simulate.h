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

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "dense/collective.h"
#include "dense/lattice/codes.h"
#include "dense/place.h"
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

// One collective over all nodes: its schedules run for every chunk, on each node a bounded number
// of chunks at once (kChunksInFlight of dense/collective.h).
struct Performance {
  std::shared_ptr<const std::vector<Schedule>> schedules;  // of each node
  std::vector<std::vector<double>> slot_bytes;             // of each slot in each chunk
  double exact_ratio = 1;    // bytes of a step's message that is `exact`, for one that is not
  int code_levels = 0;       // above 0: slot_bytes counts blocks of codes (dense/lattice/codes.h)
  double ready_seconds = 0;  // at a worker of speed 1
  int lane = 0;              // below kMostLanes
};
constexpr double kNotSent = -1;  // bytes of a slot that is empty: both sides leave its steps out
constexpr int kMostLanes = kRingsAtOnce + kTreesAtOnce;

// Of the message of a step, for one of slot_bytes; kNotSent stays below 0.
inline double RatioOf(const Performance& play, const Step& step) {
  if (play.code_levels != 0) {
    return static_cast<double>(PackedBytes(1, LatticeWidth(play.code_levels, step.terms)));
  }
  return step.exact ? play.exact_ratio : 1;
}

// Of the message of a step.
inline double BytesOf(const Performance& play, size_t chunk, const Step& step) {
  return play.slot_bytes[chunk][static_cast<size_t>(step.slot)] * RatioOf(play, step);
}

struct Scene {
  Network network;
  int workers = 1;                 // the first nodes; the others are ready at once
  Hosts hosts;                     // of the workers; empty: one each. Others are alone on theirs
  std::vector<NodeSpeed> speeds;   // of each node; missing ones are 1
  std::vector<Performance> plays;  // on each node those of a lane run in order; lanes share NICs
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
  uint64_t joined_chunks = 1;  // of production's chunks in one that is played
};
StatusOr<Stage> StageOf(const PlanScene& scene, const Plan& plan,
                        const std::vector<TensorSpec>& tensors,
                        const std::vector<double>& ready_seconds);

}  // namespace ringwood

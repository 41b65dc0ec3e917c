// What the simulator plays: collectives over the nodes of a job, on a modelled network. A value
// that says nothing of how it is played (plan/predict/simulate.h). Times are seconds from the begin
// of backward, lengths are bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "dense/collective.h"
#include "dense/hosts.h"
#include "dense/lattice/codes.h"
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
  double most_terms = 1;     // entries summed of several workers, at most, for those of one
  double ready_seconds = 0;  // at a worker of speed 1
  int lane = 0;              // below kMostLanes
};
constexpr double kNotSent = -1;  // bytes of a slot that is empty: both sides leave its steps out

// Of the message of a step, for one of slot_bytes; kNotSent stays below 0.
inline double RatioOf(const Performance& play, const Step& step) {
  if (play.code_levels != 0) {
    return static_cast<double>(PackedBytes(1, LatticeWidth(play.code_levels, step.terms)));
  }
  if (play.most_terms > 1) return std::min<double>(step.terms, play.most_terms);
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
  // A number for the host of each node (sparse/tree.h), instead of `hosts`; empty: those.
  std::vector<int> node_hosts = {};
};

// What a scene may hold. The key of a message fits into 64 bits then
// (plan/predict/early_arrivals.h).
constexpr size_t kMostNodes = 1 << 16;
constexpr size_t kMostPlays = 1 << 12;
constexpr size_t kMostChunks = 1 << 20;  // of a play
constexpr int kMostLanes = kRingsAtOnce + kTreesAtOnce;

// All plays have a schedule for each.
inline size_t NodesOf(const Scene& scene) {
  if (scene.plays.empty() || scene.plays[0].schedules == nullptr) return 0;
  return scene.plays[0].schedules->size();
}

// Invalid or Exhausted says why the scene cannot be played: hosts without some worker, a play
// without a schedule for every node, a step that names what does not exist, or too much of
// something. Whether the schedules fit together only playing them shows.
Status CheckScene(const Scene& scene);

}  // namespace ringwood

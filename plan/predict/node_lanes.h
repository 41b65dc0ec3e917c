// How far each node of a simulation is in each of its lanes: the present play, and the chunks of it
// that are on their way, each at some step of the node's schedule. What the steps do is
// plan/predict/simulate.cc's. One thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dense/collective.h"
#include "plan/predict/scene.h"

namespace ringwood {

// One chunk on one node.
struct ChunkRun {
  double now = 0;                 // its data is complete up to here
  const double* bytes = nullptr;  // of its slots
  int chunk = -1;                 // -1: none
  uint32_t id = 0;                // of all runs
  // Of the receives from `step` to `end`, `missing` have not come.
  uint32_t step = 0;
  uint32_t end = 0;
  uint32_t missing = 0;

  // The receives from `step` on are one.
  bool awaits_one() const { return end == step + 1; }
};

// One lane on one node.
struct NodeLane {
  const Performance* play = nullptr;  // the present one; null: not begun, or no more
  const Step* steps = nullptr;        // of this node
  uint32_t count = 0;                 // of the steps
  uint32_t at = 0;                    // in the lane's plays, the next one
  uint32_t next_chunk = 0;
  int running = 0;  // chunks
  double now = 0;   // it is through with everything before
  std::array<ChunkRun, kChunksInFlight> runs;

  // A node without steps has no chunks to run.
  void StartPlay(const Performance& next, size_t node) {
    const Schedule& schedule = (*next.schedules)[node];
    play = &next;
    steps = schedule.data();
    count = static_cast<uint32_t>(schedule.size());
    next_chunk = count == 0 ? static_cast<uint32_t>(next.slot_bytes.size()) : 0;
    ++at;
  }

  // All chunks of the present play have been started.
  bool started() const { return next_chunk == play->slot_bytes.size(); }
  void StartChunk(ChunkRun* run) {
    run->bytes = play->slot_bytes[next_chunk].data();
    run->chunk = static_cast<int>(next_chunk++);
    run->step = 0;
    run->missing = 0;
  }

  // Of the message of a step; below 0: none is sent.
  double StepBytes(const ChunkRun& run, const Step& step) const {
    return run.bytes[step.slot] * RatioOf(*play, step);
  }

  // The receives that follow each other from the run's step on are awaited at once, up to the next
  // send; all of their messages are missing.
  void FindReceives(ChunkRun* run) const {
    uint32_t end = run->step;
    run->missing = 0;
    for (; end < count && steps[end].op != Op::kSend; ++end) {
      run->missing += StepBytes(*run, steps[end]) >= 0;
    }
    run->end = end;
  }
};

class NodeLanes {
 public:
  // Of a scene that CheckScene took, and that outlives this.
  explicit NodeLanes(const Scene& scene) : nodes_(NodesOf(scene)) {
    for (size_t p = 0; p < scene.plays.size(); ++p) {
      const size_t lane = static_cast<size_t>(scene.plays[p].lane);
      plays_.resize(std::max(plays_.size(), lane + 1));
      plays_[lane].push_back(p);
    }
    lanes_.resize(nodes_ * plays_.size());
    for (NodeLane& lane : lanes_) {
      for (ChunkRun& run : lane.runs) run.id = runs_++;
    }
  }

  int count() const { return static_cast<int>(plays_.size()); }
  // The numbers of a lane's plays in the scene, in their order.
  const std::vector<size_t>& plays(int lane) const { return plays_[static_cast<size_t>(lane)]; }
  // Of all nodes' lanes; the ids are below it.
  uint32_t runs() const { return runs_; }

  NodeLane& Of(size_t node, int lane) { return lanes_[Index(node, lane)]; }
  const NodeLane& Of(size_t node, int lane) const { return lanes_[Index(node, lane)]; }

  // When the node is through with all it has run.
  double End(size_t node) const {
    double end = 0;
    for (int lane = 0; lane < count(); ++lane) end = std::max(end, Of(node, lane).now);
    return end;
  }

 private:
  size_t Index(size_t node, int lane) const { return static_cast<size_t>(lane) * nodes_ + node; }

  const size_t nodes_;
  std::vector<std::vector<size_t>> plays_;  // of each lane
  std::vector<NodeLane> lanes_;             // lane by lane, of each node
  uint32_t runs_ = 0;
};

}  // namespace ringwood

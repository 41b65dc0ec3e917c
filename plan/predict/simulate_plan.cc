#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dense/collective.h"
#include "plan/predict/simulate.h"
#include "plan/sparse_groups.h"
#include "sparse/chunks.h"
#include "sparse/merge.h"
#include "sparse/tree.h"
#include "sparse/tree_schedule.h"

namespace ringwood {
namespace {

constexpr int kMaxSimulatedNodes = 1 << 16;
constexpr uint64_t kMaxSteps = uint64_t{64} << 20;  // of all nodes: 1.3 GB of schedules

using Schedules = std::shared_ptr<const std::vector<Schedule>>;

// A dense group as every worker's engine is asked for it (client/exchange/dense_exchange.h).
CollectiveSpec SpecOf(const Group& group, uint64_t elements) {
  CollectiveSpec spec;
  spec.elements = elements;
  if (group.route == "ring") {
    if (group.codec == kOwnType) {
      spec.type = DataType::kBFloat16;
    } else {
      spec.wire = group.codec;
    }
    return spec;
  }
  // DeAR's halves of an all-reduce. No job runs them, so bf16 is played as their element type.
  spec.verb = group.route == "reduce-scatter" ? Verb::kReduceScatter : Verb::kAllGather;
  if (group.codec == "bf16") spec.type = DataType::kBFloat16;
  return spec;
}

// With the cost of a hop by which a job on this network chooses its schedules.
Place PlaceOf(const PlanScene& scene, int rank) {
  HopCost cost = scene.cost;
  cost.alpha += scene.network.delay;
  return {rank, scene.workers, scene.hosts, cost, scene.reducers};
}

// A route is one lane, whose groups are played one after the other; with a delay it has as many
// lanes as groups that run at once.
int LaneOf(const PlanScene& scene, bool sparse, size_t before) {
  if (scene.network.delay == 0) return sparse ? 1 : 0;
  return sparse ? kRingsAtOnce + static_cast<int>(before % kTreesAtOnce)
                : static_cast<int>(before % kRingsAtOnce);
}

// The schedules of all workers, made once for each verb and strategy.
class DenseSchedules {
 public:
  explicit DenseSchedules(const PlanScene& scene) : scene_(scene) {}

  Schedules Of(const CollectiveSpec& spec, Strategy strategy) {
    Schedules& made = made_[{spec.verb, strategy}];
    if (made != nullptr) return made;
    std::vector<Schedule> schedules(scene_.workers + scene_.reducers);
    Place place = PlaceOf(scene_, 0);
    for (; place.rank < scene_.workers; ++place.rank) {
      schedules[place.rank] = ScheduleFor(spec.verb, strategy, spec.root, place);
    }
    made = std::make_shared<const std::vector<Schedule>>(std::move(schedules));
    return made;
  }

 private:
  const PlanScene& scene_;
  std::map<std::pair<Verb, Strategy>, Schedules> made_;
};

// Bytes of each slot in each chunk, in messages that are not exact; with codes, blocks.
std::vector<std::vector<double>> SlotBytes(const Collective& collective) {
  const auto of_slot = [&](size_t elements) {
    return static_cast<double>(collective.code_bits != 0
                                   ? LatticeBlocks(elements)
                                   : MessageBytes(collective, elements, Step{}));
  };
  std::vector<std::vector<double>> bytes(ChunksOf(collective));
  for (size_t chunk = 0; chunk < bytes.size(); ++chunk) {
    for (const Range& slot : SlotsOf(collective, chunk)) {
      bytes[chunk].push_back(slot.count == 0 ? kNotSent : of_slot(slot.count));
    }
  }
  return bytes;
}

void SetPlay(const Collective& collective, Schedules schedules, Performance* play) {
  play->schedules = std::move(schedules);
  play->slot_bytes = SlotBytes(collective);
  if (collective.rounded) play->exact_ratio = 2;
  if (collective.code_bits != 0) play->code_levels = LatticeLevels(collective.code_bits);
}

// The messages of all workers when `joined` chunks are played as one.
uint64_t MessagesOf(Collective collective, int workers, uint64_t joined) {
  collective.chunk_elements *= joined;
  uint64_t sends = 0;
  for (const Step& step : collective.schedule) sends += step.op == Op::kSend;
  return sends * static_cast<uint64_t>(workers) * ChunksOf(collective);
}

// How many chunks of a job are played as one.
uint64_t JoinedChunks(const PlanScene& scene, const std::vector<Collective>& dense) {
  size_t most_chunks = 1;
  for (const Collective& collective : dense) {
    most_chunks = std::max(most_chunks, ChunksOf(collective));
  }
  for (uint64_t joined = 1;; joined += joined / 8 + 1) {
    uint64_t messages = 0;
    for (const Collective& each : dense) messages += MessagesOf(each, scene.workers, joined);
    if (messages <= scene.most_messages || joined >= most_chunks) return joined;
  }
}

// The sparse groups of a plan.
class TreePlays {
 public:
  static StatusOr<TreePlays> Of(const PlanScene& scene, const Plan& plan,
                                const std::vector<TensorSpec>& tensors) {
    TreePlays plays(scene);
    plays.job_ = {.workers = scene.workers,
                  .reducers = scene.reducers,
                  .fanout = static_cast<int>(plan.fanout),
                  .hosts = scene.node_hosts};
    std::vector<uint64_t> elements;
    for (const TensorSpec& tensor : tensors) elements.push_back(tensor.elements);
    RW_ASSIGN_OR_RETURN(const auto groups, SparseGroupsOf(plan, plays.job_, elements));
    for (const SparseGroup& group : groups) plays.groups_[group.group] = group;
    return plays;
  }

  // The play of the plan's group `g`.
  Status Set(size_t g, Performance* play) {
    const SparseGroup& group = groups_.at(static_cast<uint32_t>(g));
    RW_ASSIGN_OR_RETURN(const TreeShape shape, ShapeOf(job_, group));
    RW_ASSIGN_OR_RETURN(const Codec codec, ParseCodec(group.codec));
    const int chunks = ChunksOf(shape, group, codec);
    Schedules& made = made_[{shape.shards, shape.first, chunks}];
    if (made == nullptr) {
      steps_ += 2 * static_cast<uint64_t>(shape.workers) *
                static_cast<uint64_t>(shape.reducers == 0 ? shape.workers
                                                          : shape.shards * SlotsOfShard(chunks));
      if (steps_ > kMaxSteps) return Exhausted("simulation: the trees of all groups do not fit");
      made = std::make_shared<const std::vector<Schedule>>(TreeSchedules(shape, chunks));
    }
    play->schedules = made;
    play->slot_bytes = {SlotBytes(shape, group, chunks)};
    play->most_terms =
        static_cast<double>(ResultEntries(shape, group)) / static_cast<double>(group.k);
    return OkStatus();
  }

 private:
  explicit TreePlays(const PlanScene& scene) : entry_bytes_(scene.entry_bytes) {}

  // What reducers keep. How many a union leaves depends on the values.
  static uint64_t ResultEntries(const TreeShape& shape, const SparseGroup& group) {
    if (group.merge == "union") return group.k;
    const uint64_t sent = std::min(group.elements, group.k * static_cast<uint64_t>(shape.workers));
    return std::min(sent, group.result_entries());
  }

  // Of one worker's entries, which are taken as spread evenly over the ranges.
  std::vector<double> SlotBytes(const TreeShape& shape, const SparseGroup& group,
                                int chunks) const {
    const auto bytes = [this](uint64_t entries) {
      return entry_bytes_ * static_cast<double>(entries);
    };
    if (shape.reducers == 0) {
      return std::vector<double>(static_cast<size_t>(shape.workers), bytes(group.k));
    }
    const uint64_t keep = ResultEntries(shape, group);
    std::vector<double> slots;
    for (int number = 0; number < shape.shards * SlotsOfShard(chunks); ++number) {
      const TreeSlot slot = SlotOfNumber(number, chunks);
      const bool result = slot.kind == TreeSlot::Kind::kResult;
      const auto share =
          static_cast<uint64_t>(EvenPart(result ? keep : group.k, shape.shards, slot.shard).count);
      const Cut cut{share, chunks};
      slots.push_back(slot.kind == TreeSlot::Kind::kAccepted
                          ? static_cast<double>(AcceptedBytes(share))
                          : bytes(cut.begin(slot.chunk + 1) - cut.begin(slot.chunk)));
    }
    return slots;
  }

  double entry_bytes_;
  TreeShape job_;
  std::map<uint32_t, SparseGroup> groups_;  // by their number in the plan
  std::map<std::tuple<int, int, int>, Schedules> made_;
  uint64_t steps_ = 0;
};

// Sums and maxima over a group's tensors.
struct GroupLoad {
  uint64_t elements = 0;
  double ready = 0;  // selections included that run beside backward
};

StatusOr<GroupLoad> LoadOf(const PlanScene& scene, const Group& group,
                           const std::vector<TensorSpec>& tensors,
                           const std::vector<double>& ready_seconds) {
  const bool selects = group.route == "tree" && !scene.selects_on_compute;
  GroupLoad load;
  for (const uint32_t t : group.tensors) {
    if (t >= tensors.size() || t >= ready_seconds.size()) {
      return Invalid(absl::StrCat("simulation: the plan names tensor ", t));
    }
    const double own = static_cast<double>(tensors[t].elements);
    load.elements += tensors[t].elements;
    load.ready =
        std::max(load.ready, ready_seconds[t] + (selects ? scene.selection.Seconds(own) : 0));
  }
  return load;
}

Status CheckSize(const PlanScene& scene) {
  const uint64_t workers = static_cast<uint64_t>(std::max(scene.workers, 0));
  if (!scene.hosts.empty() && !IsComplete(scene.hosts, scene.workers)) {
    return Invalid("simulation: the hosts do not have every worker once");
  }
  if (!scene.node_hosts.empty() &&
      scene.node_hosts.size() != static_cast<size_t>(scene.workers + scene.reducers)) {
    return Invalid(absl::StrCat("simulation: the hosts of ", scene.node_hosts.size(), " nodes, ",
                                scene.workers + scene.reducers, " are expected"));
  }
  if (scene.workers >= 1 && scene.reducers >= 0 &&
      scene.workers + scene.reducers <= kMaxSimulatedNodes && 4 * workers * workers <= kMaxSteps) {
    return OkStatus();
  }
  return Exhausted(absl::StrCat("simulation: ", scene.workers, " workers and ", scene.reducers,
                                " reducers do not fit; 1 to 4096 workers do"));
}

}  // namespace

Performance PlayOf(const CollectiveSpec& spec, const PlanScene& scene) {
  const Collective collective = CollectiveFor(spec, PlaceOf(scene, 0));
  Performance play;
  SetPlay(collective, DenseSchedules(scene).Of(spec, collective.strategy), &play);
  return play;
}

StatusOr<Stage> StageOf(const PlanScene& scene, const Plan& plan,
                        const std::vector<TensorSpec>& tensors,
                        const std::vector<double>& ready_seconds) {
  RW_RETURN_IF_ERROR(CheckSize(scene));
  Stage stage;
  stage.scene = {scene.network, scene.workers, scene.hosts, scene.speeds, {}, scene.node_hosts};
  std::vector<Collective> dense;  // of the first worker in each dense group
  std::vector<CollectiveSpec> specs;
  std::vector<size_t> dense_plays;
  RW_ASSIGN_OR_RETURN(TreePlays trees, TreePlays::Of(scene, plan, tensors));
  double delay = 0;  // of backward, by selections
  size_t rings = 0, sparses = 0;
  for (const Group& group : plan.groups) {
    RW_ASSIGN_OR_RETURN(const GroupLoad load, LoadOf(scene, group, tensors, ready_seconds));
    const bool sparse = group.route == "tree";
    if (sparse && scene.selects_on_compute) {
      delay += scene.selection.Seconds(static_cast<double>(load.elements));
    }
    Performance play;
    play.lane = LaneOf(scene, sparse, sparse ? sparses++ : rings++);
    play.ready_seconds = group.route == "all-gather" ? 0 : load.ready + delay;
    if (sparse) {
      RW_RETURN_IF_ERROR(trees.Set(stage.scene.plays.size(), &play));
    } else if (group.route == "ring" || group.route == "reduce-scatter" ||
               group.route == "all-gather") {
      specs.push_back(SpecOf(group, load.elements));
      dense.push_back(CollectiveFor(specs.back(), PlaceOf(scene, 0)));
      dense_plays.push_back(stage.scene.plays.size());
    } else {
      return Invalid(absl::StrCat("simulation: route '", group.route, "' has no schedule to play"));
    }
    stage.scene.plays.push_back(std::move(play));
  }
  stage.joined_chunks = JoinedChunks(scene, dense);
  DenseSchedules schedules(scene);
  for (size_t d = 0; d < dense.size(); ++d) {
    dense[d].chunk_elements *= stage.joined_chunks;
    SetPlay(dense[d], schedules.Of(specs[d], dense[d].strategy),
            &stage.scene.plays[dense_plays[d]]);
  }
  return stage;
}

}  // namespace ringwood

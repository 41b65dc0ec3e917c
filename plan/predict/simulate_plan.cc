#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "dense/ring.h"
#include "plan/predict/simulate.h"
#include "sparse/tree.h"

namespace ringwood {
namespace {

constexpr int kMaxSimulatedNodes = 1 << 16;
constexpr uint64_t kMaxSteps = uint64_t{64} << 20;  // of all nodes: 768 MB of schedules

using Schedules = std::vector<Schedule>;

using RingMaker = Schedule (*)(int rank, int world);

RingMaker RingOf(const std::string& route) {
  if (route == "ring") return RingAllReduce;
  if (route == "reduce-scatter") return RingReduceScatter;
  if (route == "all-gather") return RingAllGather;
  return nullptr;
}

Schedules Rings(const PlanScene& scene, RingMaker ring) {
  Schedules schedules(scene.workers + scene.reducers);
  for (int rank = 0; rank < scene.workers; ++rank) schedules[rank] = ring(rank, scene.workers);
  return schedules;
}

Schedules Trees(const PlanScene& scene, int fanout) {
  return TreeSchedules({scene.workers, scene.reducers, fanout});
}

// The schedules of each route, made when first needed.
class Library {
 public:
  Library(const PlanScene& scene, int fanout) : scene_(scene), fanout_(fanout) {}
  StatusOr<const Schedules*> Of(const std::string& route) {
    const auto known = made_.find(route);
    if (known != made_.end()) return &known->second;
    const RingMaker ring = RingOf(route);
    if (ring == nullptr && route != "tree") {
      return Invalid(absl::StrCat("simulation: route '", route, "' has no schedule to play"));
    }
    return &made_.emplace(route, ring ? Rings(scene_, ring) : Trees(scene_, fanout_)).first->second;
  }

 private:
  const PlanScene& scene_;
  int fanout_;
  std::map<std::string, Schedules> made_;
};

}  // namespace

StatusOr<Outcome> SimulatePlan(const PlanScene& scene, const Plan& plan,
                               const std::vector<TensorSpec>& tensors,
                               const std::vector<double>& ready_seconds) {
  const uint64_t workers = static_cast<uint64_t>(std::max(scene.workers, 0));
  if (scene.workers < 1 || scene.reducers < 0 ||
      scene.workers + scene.reducers > kMaxSimulatedNodes || 4 * workers * workers > kMaxSteps) {
    return Exhausted(absl::StrCat("simulation: ", scene.workers, " workers and ", scene.reducers,
                                  " reducers do not fit; 1 to 4096 workers do"));
  }
  Library library(scene, static_cast<int>(plan.fanout));
  Scene stage{scene.network, scene.workers, scene.speeds, {}};
  double delay = 0;  // of backward, by selections
  for (const Group& group : plan.groups) {
    const bool sparse = group.route == "tree";
    double elements = 0;
    double ready = 0;
    for (const uint32_t t : group.tensors) {
      if (t >= tensors.size() || t >= ready_seconds.size()) {
        return Invalid(absl::StrCat("simulation: the plan names tensor ", t));
      }
      const double own = static_cast<double>(tensors[t].elements);
      const bool selects = sparse && !scene.selects_on_compute;
      elements += own;
      ready = std::max(ready, ready_seconds[t] + (selects ? scene.selection.Seconds(own) : 0));
    }
    if (sparse && scene.selects_on_compute) delay += scene.selection.Seconds(elements);
    Performance play;
    RW_ASSIGN_OR_RETURN(play.schedules, library.Of(group.route));
    play.ready_seconds = group.route == "all-gather" ? 0 : ready + delay;
    const double dense = group.codec == "bf16" ? 2 : 4;
    play.message_bytes = sparse ? scene.entry_bytes * static_cast<double>(group.k)
                                : dense * elements / scene.workers;
    stage.plays.push_back(play);
  }
  return Simulate(stage);
}

}  // namespace ringwood

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "dense/ring.h"
#include "plan/simulate.h"
#include "sparse/tree.h"

namespace ringwood {
namespace {

constexpr int kMaxNodes = 1 << 16;
constexpr uint64_t kMaxSteps = uint64_t{64} << 20;  // of all nodes: 768 MB of schedules

using Schedules = std::vector<Schedule>;

Schedules Rings(const PlanScene& scene, Schedule (*ring)(int, int)) {
  Schedules schedules(scene.workers + scene.reducers);
  for (int rank = 0; rank < scene.workers; ++rank) schedules[rank] = ring(rank, scene.workers);
  return schedules;
}

Schedules Trees(const PlanScene& scene, int fanout) {
  const TreeShape shape{scene.workers, scene.reducers, fanout};
  Schedules schedules;
  for (int node = 0; node < scene.workers + scene.reducers; ++node) {
    schedules.push_back(TreeSchedule(shape, node));
  }
  return schedules;
}

// The schedules of each route, made when first needed.
class Library {
 public:
  Library(const PlanScene& scene, int fanout) : scene_(scene), fanout_(fanout) {}
  StatusOr<const Schedules*> Of(const std::string& route) {
    std::unique_ptr<Schedules>* made = nullptr;
    if (route == "ring") made = &ring_;
    if (route == "tree") made = &tree_;
    if (made == nullptr) {
      return Invalid(absl::StrCat("simulation: route '", route, "' has no schedule to play"));
    }
    if (*made == nullptr) {
      *made = std::make_unique<Schedules>(route == "ring" ? Rings(scene_, RingAllReduce)
                                                          : Trees(scene_, fanout_));
    }
    return made->get();
  }

 private:
  const PlanScene& scene_;
  int fanout_;
  std::unique_ptr<Schedules> ring_;
  std::unique_ptr<Schedules> tree_;
};

}  // namespace

StatusOr<Outcome> SimulatePlan(const PlanScene& scene, const Plan& plan,
                               const std::vector<TensorSpec>& tensors,
                               const std::vector<double>& ready_seconds) {
  const uint64_t workers = static_cast<uint64_t>(std::max(scene.workers, 0));
  if (scene.workers < 1 || scene.reducers < 0 || scene.workers + scene.reducers > kMaxNodes ||
      4 * workers * workers > kMaxSteps) {
    return Exhausted(absl::StrCat("simulation: ", scene.workers, " workers and ", scene.reducers,
                                  " reducers do not fit; 1 to 4096 workers do"));
  }
  Library library(scene, static_cast<int>(plan.fanout));
  Scene stage{scene.network, scene.workers, scene.speeds, {}};
  for (const Group& group : plan.groups) {
    double elements = 0;
    double ready = 0;
    for (const uint32_t t : group.tensors) {
      if (t >= tensors.size() || t >= ready_seconds.size()) {
        return Invalid(absl::StrCat("simulation: the plan names tensor ", t));
      }
      elements += static_cast<double>(tensors[t].elements);
      const double selection =
          group.route == "tree" ? scene.selection.Seconds(static_cast<double>(tensors[t].elements))
                                : 0;
      ready = std::max(ready, ready_seconds[t] + selection);
    }
    Performance play;
    RW_ASSIGN_OR_RETURN(play.schedules, library.Of(group.route));
    play.ready_seconds = ready;
    const double dense = group.codec == "bf16" ? 2 : 4;
    play.message_bytes = group.route == "ring" ? dense * elements / scene.workers
                                               : scene.entry_bytes * static_cast<double>(group.k);
    stage.plays.push_back(play);
  }
  return Simulate(stage);
}

}  // namespace ringwood

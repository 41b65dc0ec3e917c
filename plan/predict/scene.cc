#include "plan/predict/scene.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace ringwood {
namespace {

Status CheckPlay(const Performance& play, size_t nodes) {
  if (play.schedules == nullptr || play.schedules->size() != nodes || nodes > kMostNodes) {
    return Invalid("simulation: every play needs a schedule for every node");
  }
  if (play.lane < 0 || play.lane >= kMostLanes || play.slot_bytes.size() > kMostChunks) {
    return Invalid(absl::StrCat("simulation: lane ", play.lane, ", ", play.slot_bytes.size(),
                                " chunks; less than ", kMostLanes, " and at most ", kMostChunks));
  }
  return OkStatus();
}

// The slots that every chunk has; 0 for a play without chunks.
size_t SlotsOf(const Performance& play) {
  if (play.slot_bytes.empty()) return 0;
  const auto fewest =
      std::min_element(play.slot_bytes.begin(), play.slot_bytes.end(),
                       [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return fewest->size();
}

Status CheckSteps(const Performance& play, size_t slots) {
  const size_t nodes = play.schedules->size();
  for (const Schedule& schedule : *play.schedules) {
    for (const Step& step : schedule) {
      if (step.peer < 0 || static_cast<size_t>(step.peer) >= nodes) {
        return Invalid(absl::StrCat("simulation: there is no node ", step.peer));
      }
      if (step.slot < 0 || static_cast<size_t>(step.slot) >= slots) {
        return Invalid(absl::StrCat("simulation: there is no slot ", step.slot));
      }
    }
  }
  return OkStatus();
}

}  // namespace

Status CheckScene(const Scene& scene) {
  if (scene.plays.size() > kMostPlays) {
    return Exhausted(
        absl::StrCat("simulation: ", scene.plays.size(), " plays; at most ", kMostPlays, " fit"));
  }
  if (!scene.hosts.empty() && !IsComplete(scene.hosts, scene.workers)) {
    return Invalid("simulation: the hosts do not have every worker once");
  }
  if (!scene.hosts.empty() && !scene.plays.empty() &&
      NodesOf(scene) < static_cast<size_t>(scene.workers)) {
    return Invalid(absl::StrCat("simulation: ", scene.workers, " workers and ", NodesOf(scene),
                                " schedules: every worker needs one"));
  }
  if (!scene.node_hosts.empty() && !scene.plays.empty() &&
      (scene.node_hosts.size() != NodesOf(scene) ||
       *std::min_element(scene.node_hosts.begin(), scene.node_hosts.end()) < 0 ||
       *std::max_element(scene.node_hosts.begin(), scene.node_hosts.end()) >=
           static_cast<int>(kMostNodes))) {
    return Invalid("simulation: the hosts of the nodes do not have a number for each");
  }
  size_t checked = 0;  // slots that the steps of the play before were found to need at most
  for (size_t p = 0; p < scene.plays.size(); ++p) {
    const Performance& play = scene.plays[p];
    RW_RETURN_IF_ERROR(CheckPlay(play, NodesOf(scene)));
    const size_t slots = SlotsOf(play);
    const bool same = p > 0 && play.schedules == scene.plays[p - 1].schedules;
    if (same && slots >= checked) continue;
    RW_RETURN_IF_ERROR(CheckSteps(play, slots));
    checked = slots;
  }
  return OkStatus();
}

}  // namespace ringwood

#include "client/scheduler.h"

#include <map>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace ringwood {

Status Scheduler::Check(const Plan& plan, size_t tensors) {
  std::vector<int> group_of(tensors, -1);
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    if (group.route != "ring" && group.route != "tree") {
      return Invalid(absl::StrFormat("plan group %d has the unknown route '%s'", g, group.route));
    }
    if (group.tensors.empty()) return Invalid(absl::StrFormat("plan group %d is empty", g));
    for (uint32_t tensor : group.tensors) {
      if (tensor >= tensors || group_of[tensor] != -1) {
        return Invalid(absl::StrFormat("plan group %d names tensor %d, which is %s", g, tensor,
                                       tensor >= tensors ? "not registered" : "in two groups"));
      }
      group_of[tensor] = static_cast<int>(g);
    }
  }
  for (size_t t = 0; t < tensors; ++t) {
    if (group_of[t] == -1) return Invalid(absl::StrFormat("the plan leaves out tensor %d", t));
  }
  return OkStatus();
}

Scheduler::Scheduler(const Plan& plan, size_t tensors, const LaneWindows& windows)
    : group_of_(tensors, -1), ready_(tensors, false) {
  RW_CHECK(Check(plan, tensors).ok());
  std::map<std::string, int> lane_of;
  for (const Group& group : plan.groups) {
    const auto [lane, is_new] = lane_of.emplace(group.route, static_cast<int>(lanes_.size()));
    if (is_new) lanes_.push_back({{}, group.route == "tree" ? windows.tree : windows.ring});
    const int index = static_cast<int>(groups_.size());
    lanes_[lane->second].order.push_back(index);
    groups_.push_back({lane->second, group.tensors.size(), group.tensors.size(), false});
    for (uint32_t tensor : group.tensors) group_of_[tensor] = index;
  }
}

void Scheduler::Begin() {
  ready_.assign(ready_.size(), false);
  for (GroupState& group : groups_) {
    group.missing = group.tensors;
    group.packed = false;
  }
  for (LaneState& lane : lanes_) lane.next = lane.running = 0;
  finished_ = 0;
}

StatusOr<int> Scheduler::Ready(uint32_t tensor) {
  if (tensor >= ready_.size()) return Invalid(absl::StrFormat("there is no tensor %d", tensor));
  if (ready_[tensor]) return AlreadyExists(absl::StrFormat("tensor %d is ready twice", tensor));
  ready_[tensor] = true;
  GroupState& group = groups_[group_of_[tensor]];
  return --group.missing == 0 ? group_of_[tensor] : -1;
}

std::vector<int> Scheduler::Packed(int group) {
  groups_[group].packed = true;
  return Startable(&lanes_[groups_[group].lane]);
}

std::vector<int> Scheduler::Finished(int group) {
  ++finished_;
  LaneState* lane = &lanes_[groups_[group].lane];
  --lane->running;
  return Startable(lane);
}

std::vector<int> Scheduler::Startable(LaneState* lane) {
  std::vector<int> start;
  while (lane->next < lane->order.size() && lane->running < lane->window &&
         groups_[lane->order[lane->next]].packed) {
    start.push_back(lane->order[lane->next++]);
    ++lane->running;
  }
  return start;
}

std::vector<uint32_t> Scheduler::Missing() const {
  std::vector<uint32_t> missing;
  for (size_t t = 0; t < ready_.size(); ++t) {
    if (!ready_[t]) missing.push_back(static_cast<uint32_t>(t));
  }
  return missing;
}

}  // namespace ringwood

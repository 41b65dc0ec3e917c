#include "plan/turns.h"

#include <algorithm>
#include <utility>

namespace ringwood {
namespace {

std::vector<Group> PartsOf(const Group& group, const std::vector<TensorSpec>& tensors,
                           const std::vector<uint32_t>& turns) {
  std::vector<Group> parts;
  for (const uint32_t tensor : group.tensors) {
    const auto same = [&](const Group& part) {
      return turns[part.tensors.front()] == turns[tensor];
    };
    auto part = std::find_if(parts.begin(), parts.end(), same);
    if (part == parts.end()) {
      part = parts.insert(parts.end(), group);
      part->tensors.clear();
      part->k = 0;
    }
    part->tensors.push_back(tensor);
    if (group.route == "tree") part->k += EntriesOf(group.density, tensors[tensor].elements);
  }
  return parts;
}

}  // namespace

Plan SplitByTurns(Plan plan, const std::vector<TensorSpec>& tensors,
                  const std::vector<uint32_t>& turns) {
  std::vector<Group> groups;
  for (Group& group : plan.groups) {
    std::vector<Group> parts = PartsOf(group, tensors, turns);
    if (parts.size() == 1) parts.front() = std::move(group);
    std::move(parts.begin(), parts.end(), std::back_inserter(groups));
  }
  plan.groups = std::move(groups);
  return plan;
}

}  // namespace ringwood

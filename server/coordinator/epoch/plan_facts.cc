#include "server/coordinator/epoch/plan_facts.h"

#include <algorithm>
#include <vector>

namespace ringwood {
namespace {

v1::PlannedGroup ShownGroup(const ActivePlan& active, int number) {
  const v1::Group& group = active.plan().groups(number);
  v1::PlannedGroup shown;
  shown.set_group(static_cast<uint32_t>(number));
  shown.set_route(group.route());
  shown.set_tensors(static_cast<uint32_t>(group.tensors_size()));
  for (const uint32_t tensor : group.tensors()) {
    const bool known = static_cast<int>(tensor) < active.tensors().size();
    if (!known) continue;
    shown.set_elements(shown.elements() + active.tensors()[static_cast<int>(tensor)].elements());
  }
  shown.set_k(group.k());
  shown.set_density(group.density());
  shown.set_start_seconds(group.start_seconds());
  shown.set_end_seconds(group.end_seconds());
  return shown;
}

}  // namespace

v1::PlanFacts FactsOf(const ActivePlan& active) {
  v1::PlanFacts facts;
  facts.set_planner(active.plan().planner());
  facts.set_hash(active.plan().hash());
  facts.set_generation(active.generation());
  facts.set_from_round(active.from_round());
  facts.set_predicted_seconds(active.plan().predicted_seconds());
  facts.set_groups(static_cast<uint32_t>(active.plan().groups_size()));
  facts.set_tensors(static_cast<uint32_t>(active.tensors().size()));
  for (const v1::Tensor& tensor : active.tensors()) {
    facts.set_elements(facts.elements() + tensor.elements());
  }
  std::vector<int> shown(active.plan().groups_size());
  for (size_t i = 0; i < shown.size(); ++i) shown[i] = static_cast<int>(i);
  if (shown.size() > kMaxPlannedGroups) {
    const auto longer = [&active](int a, int b) {
      const v1::Group& one = active.plan().groups(a);
      const v1::Group& other = active.plan().groups(b);
      return one.end_seconds() - one.start_seconds() > other.end_seconds() - other.start_seconds();
    };
    std::stable_sort(shown.begin(), shown.end(), longer);
    shown.resize(kMaxPlannedGroups);
    std::sort(shown.begin(), shown.end());
  }
  for (const int number : shown) *facts.add_timeline() = ShownGroup(active, number);
  return facts;
}

}  // namespace ringwood

#include "plan/density_changes.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr size_t kNamed = 3;  // tensors; a line of the log holds no more

struct Choice {
  double density = 0;  // 0: not sparse
  const std::string* reason = nullptr;
};

std::vector<Choice> ChoicesOf(const Plan& plan, size_t tensors) {
  std::vector<Choice> choices(tensors);
  for (const Group& group : plan.groups) {
    if (group.route != "tree") continue;
    const double density = group.final_density == 0 ? group.density : group.final_density;
    for (const uint32_t t : group.tensors) choices[t] = {density, &group.reason};
  }
  return choices;
}

}  // namespace

double InformationOf(const std::vector<Group>& groups, const std::vector<TensorSpec>& tensors) {
  double entries = 0;
  for (const Group& group : groups) {
    if (group.route == "tree") {
      entries += static_cast<double>(group.k);
      continue;
    }
    for (const uint32_t t : group.tensors) entries += static_cast<double>(tensors[t].elements);
  }
  return entries;
}

std::string DensityChanges(const Plan& before, const Plan& after,
                           const std::vector<TensorSpec>& tensors) {
  const std::vector<Choice> old = ChoicesOf(before, tensors.size());
  const std::vector<Choice> now = ChoicesOf(after, tensors.size());
  std::vector<std::pair<double, size_t>> changed;  // by how much, negative; tensor
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (old[t].density == 0 || now[t].density == 0 || old[t].density == now[t].density) continue;
    changed.emplace_back(-std::abs(std::log(now[t].density / old[t].density)), t);
  }
  if (changed.empty()) return "";
  std::sort(changed.begin(), changed.end());
  std::string text = "densities:";
  for (size_t i = 0; i < std::min(kNamed, changed.size()); ++i) {
    const size_t t = changed[i].second;
    absl::StrAppendFormat(&text, "%s %s %.3g → %.3g (%s)", i == 0 ? "" : ",", tensors[t].name,
                          old[t].density, now[t].density, *now[t].reason);
  }
  if (changed.size() > kNamed) {
    absl::StrAppendFormat(&text, " and %d more", changed.size() - kNamed);
  }
  return text;
}

}  // namespace ringwood

#include "client/replan/live_profile.h"

#include <algorithm>

namespace ringwood {

ModelProfile LiveProfile(const std::vector<TensorSpec>& table, const Plan& plan,
                         const Measured& measured) {
  ModelProfile profile;
  profile.name = "live";
  profile.format = "ringwood";
  if (table.empty()) return profile;
  profile.forward_seconds =
      *std::min_element(measured.ready_seconds.begin(), measured.ready_seconds.end());
  for (size_t t = 0; t < table.size(); ++t) {
    ProfiledTensor tensor;
    tensor.name = table[t].name;
    tensor.elements = table[t].elements;
    tensor.element_bytes = table[t].element_bytes;
    tensor.ready_seconds = measured.ready_seconds[t] - profile.forward_seconds;
    profile.tensors.push_back(std::move(tensor));
  }
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    if (group.route != "tree") continue;
    double elements = 0;
    for (uint32_t t : group.tensors) elements += static_cast<double>(table[t].elements);
    for (uint32_t t : group.tensors) {
      profile.tensors[t].selection_seconds =
          measured.pack_seconds[g] * static_cast<double>(table[t].elements) / elements;
    }
  }
  std::stable_sort(profile.tensors.begin(), profile.tensors.end(),
                   [](const ProfiledTensor& a, const ProfiledTensor& b) {
                     return a.ready_seconds < b.ready_seconds;
                   });
  return profile;
}

}  // namespace ringwood

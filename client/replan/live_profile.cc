#include "client/replan/live_profile.h"

#include <algorithm>

namespace ringwood {

Trace LiveTrace(const std::vector<TensorSpec>& table, const Plan& plan, const Measured& measured) {
  Trace trace;
  trace.name = "live";
  trace.format = "ringwood";
  if (table.empty()) return trace;
  trace.forward_seconds =
      *std::min_element(measured.ready_seconds.begin(), measured.ready_seconds.end());
  for (size_t t = 0; t < table.size(); ++t) {
    TraceTensor tensor;
    tensor.name = table[t].name;
    tensor.elements = table[t].elements;
    tensor.ready_seconds = measured.ready_seconds[t] - trace.forward_seconds;
    trace.tensors.push_back(std::move(tensor));
  }
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    if (group.route != "tree") continue;
    double elements = 0;
    for (uint32_t t : group.tensors) elements += static_cast<double>(table[t].elements);
    for (uint32_t t : group.tensors) {
      trace.tensors[t].selection_seconds =
          measured.pack_seconds[g] * static_cast<double>(table[t].elements) / elements;
    }
  }
  std::stable_sort(
      trace.tensors.begin(), trace.tensors.end(),
      [](const TraceTensor& a, const TraceTensor& b) { return a.ready_seconds < b.ready_seconds; });
  return trace;
}

}  // namespace ringwood

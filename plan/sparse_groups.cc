#include "plan/sparse_groups.h"

#include "absl/strings/str_format.h"
#include "sparse/assign.h"

namespace ringwood {

StatusOr<std::vector<SparseGroup>> SparseGroupsOf(const Plan& plan, const TreeShape& job,
                                                  const std::vector<uint64_t>& elements) {
  std::vector<SparseGroup> groups;
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    const Group& planned = plan.groups[i];
    if (planned.route != "tree") continue;
    SparseGroup group;
    group.group = static_cast<uint32_t>(i);
    group.k = planned.k;
    group.codec = planned.codec;
    group.merge = planned.merge;
    for (const uint32_t tensor : planned.tensors) {
      if (tensor >= elements.size()) {
        return Invalid(
            absl::StrFormat("plan, group %d names tensor %d of %d", i, tensor, elements.size()));
      }
      group.elements += elements[tensor];
    }
    groups.push_back(std::move(group));
  }
  Assign(job, &groups);
  return groups;
}

}  // namespace ringwood

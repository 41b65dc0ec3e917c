#include "plan/sparse_groups.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "sparse/assign.h"

namespace ringwood {
namespace {

// Entries of the result; 0: as many as a worker sends.
uint64_t KeepOf(const Group& group, uint64_t elements) {
  if (group.keep == 1) return 0;
  const double entries = std::round(group.keep * static_cast<double>(group.k));
  if (!(entries < static_cast<double>(elements))) return elements;
  return std::max<uint64_t>(1, static_cast<uint64_t>(entries));
}

}  // namespace

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
    group.keep = KeepOf(planned, group.elements);
    groups.push_back(std::move(group));
  }
  Assign(job, &groups);
  return groups;
}

}  // namespace ringwood

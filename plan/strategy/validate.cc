#include <algorithm>

#include "absl/strings/str_format.h"
#include "plan/strategy/planner.h"
#include "sparse/entries.h"

namespace ringwood {
namespace {

Status CheckGroup(const Group& group, size_t index, const std::vector<TensorSpec>& tensors,
                  std::vector<bool>* seen) {
  if (group.route != "ring" && group.route != "tree") {
    return Invalid(absl::StrFormat("plan, group %d: no lane runs route '%s'", index, group.route));
  }
  if (group.tensors.empty()) return Invalid(absl::StrFormat("plan, group %d is empty", index));
  const bool tree = group.route == "tree";
  if (!(group.density > 0 && group.density <= 1)) {
    return Invalid(absl::StrFormat("plan, group %d: density %g", index, group.density));
  }
  uint64_t entries = 0, elements = 0;
  for (const uint32_t t : group.tensors) {
    if (t >= tensors.size() || (*seen)[t]) {
      return Invalid(absl::StrFormat("plan, group %d: tensor %d %s", index, t,
                                     t >= tensors.size() ? "does not exist" : "comes twice"));
    }
    (*seen)[t] = true;
    if (tensors[t].route == (tree ? "dense" : "sparse")) {
      return Invalid(absl::StrFormat("plan, group %d: tensor %s was set to %s by the user", index,
                                     tensors[t].name, tensors[t].route));
    }
    if (!tree && (tensors[t].element_bytes != 4) != (group.codec == kOwnType)) {
      return Invalid(absl::StrFormat(
          "plan, group %d: it travels as %s, and tensor %s has elements of %d bytes", index,
          group.codec, tensors[t].name, tensors[t].element_bytes));
    }
    entries += EntriesOf(group.density, tensors[t].elements);
    elements += std::min(tensors[t].elements, kMaxGroupElements + 1);  // no sum of these wraps
  }
  if (tree && elements > kMaxGroupElements) {
    return Invalid(absl::StrFormat(
        "plan, group %d: its tensors have more than %d elements together, which no sparse group "
        "may; make the largest dense (%s)",
        index, kMaxGroupElements, tensors[group.tensors.front()].name));
  }
  if (group.k != (tree ? entries : 0)) {
    return Invalid(absl::StrFormat("plan, group %d: %d entries where its density gives %d", index,
                                   group.k, tree ? entries : 0));
  }
  return OkStatus();
}

}  // namespace

Status Validate(const Plan& plan, const std::vector<TensorSpec>& tensors) {
  std::vector<bool> seen(tensors.size(), false);
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    RW_RETURN_IF_ERROR(CheckGroup(plan.groups[i], i, tensors, &seen));
  }
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (!seen[t]) {
      return Invalid(absl::StrFormat("plan: tensor %s is in no group", tensors[t].name));
    }
  }
  return OkStatus();
}

}  // namespace ringwood

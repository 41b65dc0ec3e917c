// Plans for tests that only vote.
#pragma once

#include <string>

#include "plan/wire.h"

namespace ringwood {

// One dense group of tensors 0..tensors-1.
inline v1::Plan OneRing(uint32_t tensors, const std::string& planner) {
  Plan plan;
  plan.planner = planner;
  if (tensors > 0) {
    Group group;
    group.route = "ring";
    for (uint32_t t = 0; t < tensors; ++t) group.tensors.push_back(t);
    plan.groups.push_back(group);
  }
  return ToProto(plan);
}

// Tensor 0 of `elements`, all of it up a tree.
inline v1::Plan OneTree(uint64_t elements, const std::string& planner) {
  Plan plan;
  plan.planner = planner;
  Group group;
  group.route = "tree";
  group.tensors = {0};
  group.k = elements;
  group.codec = "block16/fp32";
  plan.groups.push_back(group);
  return ToProto(plan);
}

}  // namespace ringwood

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

}  // namespace ringwood

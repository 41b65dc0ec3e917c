// Random models, and groupings of a lane by number.
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "plan/predict/simulate.h"
#include "plan/strategy/lane.h"
#include "plan/strategy/planner.h"

namespace ringwood {

// Bit j of `mask`: a group ends with tensor j of `n`.
inline std::vector<size_t> LastsOf(unsigned mask, size_t n) {
  std::vector<size_t> lasts;
  for (size_t j = 0; j + 1 < n; ++j) {
    if (mask >> j & 1) lasts.push_back(j);
  }
  lasts.push_back(n - 1);
  return lasts;
}

// Heavy-tailed sizes and gaps, as networks have them.
inline LaneInput RandomLane(Random& random, size_t n, bool affine) {
  LaneInput lane;
  double ready = 0;
  for (size_t j = 0; j < n; ++j) {
    ready += random.Below(3) == 0 ? 0 : 1e-2 * std::pow(random.Unit(), 3);
    lane.ready_seconds.push_back(ready);
    lane.bytes.push_back(4 + random.Below(uint64_t{1} << (4 + random.Below(20))));
  }
  if (affine) {
    lane.cost = Cost::Affine(5e-3 * random.Unit() * random.Unit(), 1e-8 * random.Unit());
    return lane;
  }
  std::vector<std::pair<double, double>> points;
  double bytes = 0;
  double seconds = 1e-3 * random.Unit();
  for (int p = 0; p < 8; ++p) {
    points.emplace_back(bytes, seconds);
    bytes += 1 + static_cast<double>(random.Below(1 << 20));
    seconds += random.Below(3) == 0 ? 0 : 5e-3 * random.Unit();
  }
  lane.cost = *Cost::Table(points);
  return lane;
}

// Sizes and gaps of backward that differ by orders of magnitude.
inline PlanInput RandomInput(Random& random, size_t n) {
  PlanInput input;
  double ready = 0;
  for (size_t t = 0; t < n; ++t) {
    ready += random.Below(4) == 0 ? 0 : 4e-3 * random.Unit();
    input.ready_seconds.push_back(ready);
    const uint64_t elements = 1 + random.Below(uint64_t{1} << (6 + random.Below(15)));
    input.tensors.push_back({absl::StrCat("t", t), elements, "auto", 0.01});
  }
  input.world = 2 + static_cast<int>(random.Below(15));
  input.servers = 1;
  input.network = {2e-4 * random.Unit(), 2e-8 * random.Unit(), 1e-10};
  input.selection = {2e-5 * random.Unit(), 2e-9 * random.Unit(), 0};
  return input;
}

// Where a plan of this input is played: its network, and no time for selecting.
inline PlanScene PlanSceneOf(const PlanInput& input) {
  PlanScene scene;
  scene.network = input.network;
  scene.workers = input.world;
  scene.reducers = input.servers;
  scene.entry_bytes = input.entry_bytes;
  scene.selection = {};
  return scene;
}

}  // namespace ringwood

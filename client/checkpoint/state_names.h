// Names of the session's own items in checkpoints; user items may not have this prefix.
#pragma once

#include <string>

namespace ringwood {

inline constexpr char kSessionPrefix[] = "ringwood/";

inline constexpr char kPlanItem[] = "ringwood/plan";  // shared: SavedPlan, serialised

inline std::string ResidualItem(const std::string& tensor) {
  return kSessionPrefix + ("residual/" + tensor);
}
inline std::string MomentumItem(const std::string& tensor) {
  return kSessionPrefix + ("momentum/" + tensor);
}

// Shared: what the blocks of a dense tensor reach (dense/lattice/codes.h).
inline std::string ReachItem(const std::string& tensor) {
  return kSessionPrefix + ("reach/" + tensor);
}

}  // namespace ringwood

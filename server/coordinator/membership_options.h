// What the operator of a coordinator chooses of its membership.
#pragma once

#include <cstdint>

namespace ringwood {

// The reducer of the coordinator's own process.
struct OwnReducer {
  uint32_t index = 0;
  uint64_t incarnation = 0;  // 0: there is none
};

struct MembershipOptions {
  int servers = 1;                     // reducers of a job
  double failure_timeout_seconds = 5;  // silence that counts as death, once steps are taken
  double join_timeout_seconds = 120;   // for the world to be complete, and again for its first step
  double stall_timeout_seconds = 0;  // without a move of anyone: ends the epoch; 0: only a warning
  double heartbeat_seconds = 1;      // how often a member beats
  OwnReducer own_reducer = {};
};

}  // namespace ringwood

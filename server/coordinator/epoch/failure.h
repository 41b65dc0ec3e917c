// Why an epoch ends before its job does, as its members are told. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "server/coordinator/roster.h"

namespace ringwood {

// Who is at fault. `node` == the roster's size: no single member.
struct Blame {
  uint32_t node = 0;
  StatusCode code = StatusCode::kUnknown;
  std::string reason;
  bool lasting = false;             // another epoch would not help
  std::vector<uint32_t> late = {};  // stragglers: they live, and the others go on without them
};

// The epoch fails while it would commit `step`. `elastic`: its members join again, where that
// helps.
v1::Failure FailureOf(const Blame& blame, const Roster& roster, uint64_t epoch, uint64_t step,
                      bool elastic);

// It ends after `step`, for ranks that leave, or if there are none for a process that waits to take
// part.
v1::Failure RegroupingAfter(uint64_t step, const std::vector<uint32_t>& leaving,
                            const Roster& roster, uint64_t epoch);

// What a caller of the epoch is told: its code, and who failed at which step.
Status StatusOf(const v1::Failure& failure);

}  // namespace ringwood

// A job's status for programs: what `ringwood status --json` prints and /status.json serves. Pure.
#pragma once

#include <string>

#include "ringwood/v1/control.pb.h"

namespace ringwood {

// Keys stay, new ones may come; docs/metrics.md describes them. `indent` < 0: one line.
std::string ToJson(const v1::StatusResponse& status, int indent);

// "rank" or "reducer".
std::string RoleName(v1::Role role);
// "00a1…": 16 digits, as the log and `ringwood checkpoint list` name it.
std::string NameOfJob(uint64_t job);

}  // namespace ringwood

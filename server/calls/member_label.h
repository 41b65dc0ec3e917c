// The name of a member of a job in messages.
#pragma once

#include <cstdint>
#include <string>

#include "ringwood/v1/control.pb.h"

namespace ringwood {

// "rank 2 (host h1)", "server 0 (host h0)" or "reducer of rank 2 (host h1)".
std::string MemberLabel(v1::Role role, uint32_t rank, const std::string& host);

}  // namespace ringwood

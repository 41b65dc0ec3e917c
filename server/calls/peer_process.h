// Whose connection a call came on: what a caller says of itself is not enough to read its memory.
#pragma once

#include <string>

namespace ringwood {

// Whether `process`, of this host and this network namespace, holds the other end of a connection
// to this process. `peer`: that end, as gRPC names it ("ipv4:127.0.0.1:40000"). False where the
// kernel does not show it: the process is another user's, or a proxy stands between.
bool HoldsConnection(int process, const std::string& peer);

}  // namespace ringwood

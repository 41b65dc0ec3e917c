// How long the network may be away, and how long silence lasts before it counts as death: the times
// that control and data plane derive from the one number T that users set (--failure-timeout).
//
// Everybody who is waited for is heard every T/5: heartbeats, answered pings and asks. TCP sends
// what was lost again after 0.2 s, 0.4 s, 0.8 s, ... so what an outage of b swallowed arrives at
// most 2 b + 0.2 s after its beginning. T/5 + 2 b + 0.2 s stays below T as long as b is below
// 2/5 T - 0.1 s: an outage of that length is survived, and one of T or more is a death.
#pragma once

#include <algorithm>

namespace ringwood {

// Seconds without network that a job survives: 2 at 5.
constexpr double ToleratedOutageSeconds(double failure_timeout) { return 0.4 * failure_timeout; }

// Seconds without a word after which a connection is pinged. The coordinator takes more than one
// ping a second on an idle connection for an attack.
constexpr double PingAfterSeconds(double failure_timeout) {
  return std::max(1.25, failure_timeout / 5);
}

// Seconds that the answer may take, and, because gRPC hands it to TCP as TCP_USER_TIMEOUT, that
// what was sent may stay unreceived: what an outage needs.
constexpr double PongWithinSeconds(double failure_timeout) {
  return std::max(1.0, 0.8 * failure_timeout);
}
static_assert(PongWithinSeconds(5) >= 2 * 0.9 * ToleratedOutageSeconds(5) + 0.2);

}  // namespace ringwood

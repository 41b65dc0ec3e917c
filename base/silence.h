// How long a network outage may last, and how long a silence before it counts as death: the times
// that control and data plane derive from one number T, --failure-timeout.
//
// Every peer that is waited for is heard every T/5: heartbeats, answered pings and asks. TCP
// retransmits after 0.2 s, 0.4 s, 0.8 s, ... so what an outage of b swallowed arrives at most
// 2 b + 0.2 s after its beginning. T/5 + 2 b + 0.2 s stays below T as long as b is below
// 2/5 T - 0.1 s: an outage of that length is survived, and one of T or more is a death.
#pragma once

#include <algorithm>

namespace ringwood {

// The longest outage that a job survives, in seconds: 2 for T = 5.
constexpr double ToleratedOutageSeconds(double failure_timeout) { return 0.4 * failure_timeout; }

// Seconds of silence after which a connection is pinged. The coordinator takes more than one
// ping a second on an idle connection for an attack.
constexpr double PingAfterSeconds(double failure_timeout) {
  return std::max(1.25, failure_timeout / 5);
}

// Seconds that the answer to a ping may take. gRPC passes it to TCP as TCP_USER_TIMEOUT, so it is
// also how long sent data may stay unacknowledged.
constexpr double PongWithinSeconds(double failure_timeout) {
  return std::max(1.0, 0.8 * failure_timeout);
}
static_assert(PongWithinSeconds(5) >= 2 * 0.9 * ToleratedOutageSeconds(5) + 0.2);

// Seconds that a peer has until it is heard first, where an epoch goes on with processes that run:
// they only connect. (A job that begins waits longer: processes still start, many at a time.)
constexpr double ConnectWithinSeconds(double failure_timeout) {
  return std::max(10.0, 3 * failure_timeout);
}

}  // namespace ringwood

// Measures this world by timed all-reduces of known schedules. Collective calls, outside of rounds;
// the answers have the same bits on all ranks: they are made of the longest that any of them saw.
#pragma once

#include "client/connection/collectives.h"

namespace ringwood {

// What a hop costs: about 50 ms for 4 ranks at 1 Gbit/s.
StatusOr<HopCost> ProbeHops(Collectives* collectives, const Place& place);

// Bytes a second of payload that the slowest card between the hosts carries each way, by rings that
// are long enough to tell: 40 ms at 1 Gbit/s, about 200 at 25. 0: it cannot be told, or the ranks
// are all on one host.
StatusOr<double> ProbeWire(Collectives* collectives, const Place& place);

// One line of rank 0's log: "data plane: 10.0.0.1 eth0, tcp by UCX, 4 ranks on 2 hosts, 0.95 Gbit/s
// measured". The wrong card, or a slow one, is the most frequent reason for slow steps.
Status LogDataPlane(Collectives* collectives, const Connection& connection);

}  // namespace ringwood

// Measures this world's network by timed all-reduces of known schedules. Collective calls, outside
// of rounds. The results have the same bits on all ranks: they use the maximum over the ranks.
#pragma once

#include "client/connection/collectives.h"
#include "client/connection/epoch_link.h"
#include "plan/model/planned_network.h"

namespace ringwood {

// Measures the cost of a hop: takes about 50 ms for 4 ranks at 1 Gbit/s, and 20 round trips where
// those are long.
StatusOr<HopCost> ProbeHops(Collectives* collectives, const Place& place);

// Payload of the slowest NIC between the hosts in bytes per second and direction, measured by long
// rings: takes 40 ms at 1 Gbit/s, about 200 at 25, and some seconds where delays are long. 0:
// unknown, or all ranks are on one host.
StatusOr<double> ProbeWire(Collectives* collectives, const Place& place);

// Seconds of a hop between hosts, by the fastest of some rows of short all-reduces: at most a sixth
// too short. 0: all ranks are on one host.
StatusOr<double> ProbeHop(Collectives* collectives, const Place& place);

// Both, and one line of rank 0's log: "data plane: 10.0.0.1 eth0, tcp by UCX, 4 ranks on 2 hosts,
// 0.95 Gbit/s measured". A wrong or slow NIC is the most frequent reason for slow steps.
StatusOr<MeasuredLink> MeasureDataPlane(EpochLink* link);

// What some of the ranks know, to those that know nothing: one short all-reduce.
StatusOr<MeasuredLink> ShareLink(const MeasuredLink& known, EpochLink* link);

}  // namespace ringwood

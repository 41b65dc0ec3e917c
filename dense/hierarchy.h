// All-reduce of several ranks a host: inside the host first, so that each NIC carries one copy of
// the tensor and not one for every rank. Of S bytes on H hosts a NIC sends and receives
// 2 (H-1)/H S, where a ring of all P ranks in the order of their hosts has 2 (P-1)/P S.
//
// The tensor is cut into slices, as many as the largest host has ranks, and every slice into a part
// for each host. On each host every slice has an agent, so hosts may have any number of ranks: rank
// i L / slices of a host of L ranks is the agent of slice i. H = 2 hosts of 3 and 1 ranks:
//
//               slice 0   slice 1   slice 2
//     host 0     rank 0    rank 1    rank 2      1. each rank sends each slice to its agent here,
//     host 1     rank 3    rank 3    rank 3         which adds;
//                   ◄─► rings between hosts      2. the agents of a slice form a ring over hosts,
//                                                   one a slice, all at once, a slot for each part;
//                                                3. the agent sends the sums to the ranks here.
//
// Steps 1 and 3 are direct exchanges: each pair on a host is one hop apart. What arrives in step 1
// is asked for part by part, when the ring of step 2 needs it. Messages of step 1 are `exact`: a
// rounded wire rounds between hosts only.
//
// Order of additions in part p of a slice, deterministic because results repeat bit for bit: on
// each host the agent, then the ranks after it, modulo L: ((x[a] + x[a+1]) + x[a+2]) + …; then the
// hosts' sums ((S[p] + S[p+1]) + S[p+2]) + …, modulo H.
//
// The halves, for shares of the ranks (dense/shares.h), go the same way: the share of rank r on
// host h is a slot that is added up from host h+1 on to rank r itself, or spread from there. A NIC
// carries (H-1)/H S.
#pragma once

#include "dense/hosts.h"
#include "transport/schedule.h"

namespace ringwood {

// Slot s of HierarchySlots is part s mod H of slice s / H.
Schedule HierarchicalAllReduce(int rank, const Hosts& hosts);
int HierarchySlots(const Hosts& hosts);

// Slot r is the share of rank r: complete there afterwards, or expected there.
Schedule HierarchicalReduceScatter(int rank, const Hosts& hosts);
Schedule HierarchicalAllGather(int rank, const Hosts& hosts);

// The rank of host `host` that adds up slice `slice` and knows its sum first there.
int Agent(const Hosts& hosts, int host, int slice);

}  // namespace ringwood

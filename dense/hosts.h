// Which ranks share a host. A host is what the launcher calls one: namespaces and containers of one
// machine are hosts of their own when they are launched as such.
#pragma once

#include <string>
#include <vector>

namespace ringwood {

// Ranks by host: hosts in the order of their lowest rank, ranks ascending. Every rank once.
using Hosts = std::vector<std::vector<int>>;

// `names[rank]`: what the launcher calls the rank's host.
Hosts GroupByHost(const std::vector<std::string>& names);

// Every rank on a host of its own.
Hosts OneEach(int world);

// `ranks` a host, in order; the last has what is left.
Hosts EvenHosts(int world, int ranks);

int RanksOf(const Hosts& hosts);

// The host of a rank, which must be on one.
size_t HostOf(const Hosts& hosts, int rank);

// The other ranks of its host, beginning with the next one: so not all send to the same one first.
std::vector<int> NeighboursOf(const Hosts& hosts, int rank);

int LargestHost(const Hosts& hosts);  // ranks of it

// All ranks, host after host: next to each other in this order are as many neighbours as can be.
std::vector<int> HostOrder(const Hosts& hosts);

// "every rank of `world` stands in `hosts` once".
bool IsComplete(const Hosts& hosts, int world);

}  // namespace ringwood

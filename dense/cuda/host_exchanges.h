// What one rank exchanges of a chunk that is summed by a hierarchy (dense/hierarchy.h) over
// messages of NCCL's, as a value. A chunk has a slice for each rank of the largest host, and a
// slice a part for each host; part h of slice s is number s H + h. On every host each slice has an
// agent.
//
//   add inside      each rank sends each slice to its agent on this host, which adds
//   add between     the agents of a slice send part h of their sums to the one of host h, which
//   adds gather between  that one sends the sum of its part to the slice's other agents gather
//   inside   agents send the sums of their slices to the ranks of their host
//
// With one rank on each host there is only "between", on a single host only "inside". So a NIC
// carries one sum of its host's ranks, however many they are.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "dense/hierarchy.h"
#include "dense/hosts.h"

namespace ringwood::cuda {

// Parts that follow each other.
struct Parts {
  uint64_t first = 0;
  uint64_t count = 0;
};

struct PartMessage {
  int peer = 0;
  Parts parts;
};

// Messages between two ranks have the same order on both. What is received to be added comes in the
// order in which it is added: of AddInside all of mine() from each peer, of AddBetween one part
// from each other host, slice after slice.
struct PartExchange {
  std::vector<PartMessage> sends, receives;
};

class HostExchanges {
 public:
  HostExchanges(const Hosts& hosts, int rank)
      : hosts_(hosts),
        slices_(static_cast<uint64_t>(LargestHost(hosts))),
        host_(HostOf(hosts, rank)),
        neighbours_(NeighboursOf(hosts, rank)),
        mine_(Of(rank)) {}

  uint64_t hosts() const { return hosts_.size(); }
  uint64_t parts() const { return slices_ * hosts(); }       // of a chunk
  Parts mine() const { return mine_; }                       // all of the slices whose agent it is
  uint64_t slices() const { return mine_.count / hosts(); }  // as many
  int neighbours() const { return static_cast<int>(neighbours_.size()); }  // others on its host
  // Of its `slice`-th slice, which it adds up for all hosts.
  uint64_t Final(uint64_t slice) const { return mine_.first + slice * hosts() + host_; }

  PartExchange AddInside() const {
    PartExchange exchange;
    for (const int neighbour : neighbours_) {
      exchange.sends.push_back({neighbour, Of(neighbour)});
      exchange.receives.push_back({neighbour, mine_});
    }
    return exchange;
  }

  PartExchange AddBetween() const {
    PartExchange exchange;
    for (uint64_t s = 0; s < slices(); ++s) {
      const uint64_t begin = mine_.first + s * hosts();
      for (uint64_t distance = 1; distance < hosts(); ++distance) {
        const uint64_t host = (host_ + distance) % hosts();
        const int agent = Agent(hosts_, static_cast<int>(host), static_cast<int>(begin / hosts()));
        exchange.sends.push_back({agent, {begin + host, 1}});
        exchange.receives.push_back({agent, {Final(s), 1}});
      }
    }
    return exchange;
  }

  PartExchange GatherBetween() const { return Backwards(AddBetween()); }
  PartExchange GatherInside() const { return Backwards(AddInside()); }

 private:
  // A sum goes to all whose part of it came.
  static PartExchange Backwards(PartExchange added) {
    return {std::move(added.receives), std::move(added.sends)};
  }

  // The parts of the slices whose agent a rank of this host is: they follow each other.
  Parts Of(int rank) const {
    Parts parts;
    for (uint64_t s = 0; s < slices_; ++s) {
      if (Agent(hosts_, static_cast<int>(host_), static_cast<int>(s)) != rank) continue;
      if (parts.count == 0) parts.first = s * hosts();
      parts.count += hosts();
    }
    return parts;
  }

  const Hosts& hosts_;  // outlives this
  const uint64_t slices_;
  const uint64_t host_;
  const std::vector<int> neighbours_;
  const Parts mine_;  // after what Of reads
};

}  // namespace ringwood::cuda

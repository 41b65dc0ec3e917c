#include "dense/hierarchy.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ringwood {
namespace {

// One slot's way through the hosts: the rank of each host that adds it up and passes it on.
struct Line {
  int slot = 0;
  std::vector<int> agents;  // by host
};
// lines[p]: those that begin to be added up on host p, and are complete on the one before it.
using Lines = std::vector<std::vector<Line>>;

Lines LinesOfSlices(const Hosts& hosts) {
  const int count = static_cast<int>(hosts.size());
  Lines lines(hosts.size());
  for (int part = 0; part < count; ++part) {
    for (int slice = 0; slice < LargestHost(hosts); ++slice) {
      Line& line = lines[part].emplace_back();
      line.slot = slice * count + part;
      for (int host = 0; host < count; ++host) line.agents.push_back(Agent(hosts, host, slice));
    }
  }
  return lines;
}

// Slot r is complete on rank r.
Lines LinesOfShares(const Hosts& hosts) {
  Lines lines(hosts.size());
  for (size_t host = 0; host < hosts.size(); ++host) {
    const std::vector<int>& owners = hosts[host];
    for (size_t i = 0; i < owners.size(); ++i) {
      Line& line = lines[(host + 1) % hosts.size()].emplace_back();
      line.slot = owners[i];
      for (const std::vector<int>& ranks : hosts) {
        line.agents.push_back(ranks[i * ranks.size() / owners.size()]);
      }
    }
  }
  return lines;
}

// One rank's part, made in the order in which it is run.
class Maker {
 public:
  Maker(int rank, const Hosts& hosts, Lines lines)
      : rank_(rank),
        hosts_(hosts),
        count_(static_cast<int>(hosts.size())),
        lines_(std::move(lines)),
        host_(static_cast<int>(HostOf(hosts, rank))),
        others_(NeighboursOf(hosts, rank)) {}

  Maker& Reduce() {
    for (int stage = 0; stage < count_; ++stage) HandOver(Part(-stage));
    for (int stage = 0; stage < count_; ++stage) Reduce(stage, Part(-stage));
    return *this;
  }
  Maker& Gather() {
    for (int stage = 0; stage < count_; ++stage) Gather(stage, Part(1 - stage));
    return *this;
  }
  Schedule Take() { return std::move(schedule_); }

 private:
  int Part(int shift) const { return (host_ + shift + count_) % count_; }
  int AgentHere(const Line& line) const { return line.agents[host_]; }
  int AgentAfter(const Line& line) const { return line.agents[Part(1)]; }
  int AgentBefore(const Line& line) const { return line.agents[Part(-1)]; }

  void HandOver(int part) {
    for (const Line& line : lines_[part]) {
      if (AgentHere(line) != rank_) Add(Op::kSend, AgentHere(line), line.slot, 1, true);
    }
  }

  void Reduce(int stage, int part) {
    for (const Line& line : lines_[part]) {
      if (AgentHere(line) != rank_) continue;
      for (int other : others_) Add(Op::kReceiveReduce, other, line.slot, 1, true);
      if (stage > 0) {
        Add(Op::kReceiveReduce, AgentBefore(line), line.slot, TermsBefore(stage, 0));
      }
      if (stage + 1 < count_) {
        Add(Op::kSend, AgentAfter(line), line.slot, TermsBefore(stage, 1));
      }
    }
  }

  void Gather(int stage, int part) {
    const int all = RanksOf(hosts_);
    for (const Line& line : lines_[part]) {
      if (AgentHere(line) != rank_) continue;
      if (stage > 0) Add(Op::kReceive, AgentBefore(line), line.slot, all);
      if (stage + 1 < count_) Add(Op::kSend, AgentAfter(line), line.slot, all);
      for (int other : others_) Add(Op::kSend, other, line.slot, all);
    }
    for (const Line& line : lines_[part]) {
      if (AgentHere(line) != rank_) Add(Op::kReceive, AgentHere(line), line.slot, all);
    }
  }

  // Ranks of the `stage` hosts before this one, and of `here` (0 or 1) this one.
  int TermsBefore(int stage, int here) const {
    int ranks = 0;
    for (int back = 1 - here; back <= stage; ++back) {
      ranks += static_cast<int>(hosts_[static_cast<size_t>(Part(-back))].size());
    }
    return ranks;
  }

  void Add(Op op, int peer, int slot, int terms, bool exact = false) {
    schedule_.push_back({op, peer, slot, exact, terms});
  }

  const int rank_;
  const Hosts& hosts_;
  const int count_;  // of hosts
  const Lines lines_;
  const int host_;
  const std::vector<int> others_;
  Schedule schedule_;
};

}  // namespace

Schedule HierarchicalAllReduce(int rank, const Hosts& hosts) {
  return Maker(rank, hosts, LinesOfSlices(hosts)).Reduce().Gather().Take();
}

Schedule HierarchicalReduceScatter(int rank, const Hosts& hosts) {
  return Maker(rank, hosts, LinesOfShares(hosts)).Reduce().Take();
}

Schedule HierarchicalAllGather(int rank, const Hosts& hosts) {
  return Maker(rank, hosts, LinesOfShares(hosts)).Gather().Take();
}

int HierarchySlots(const Hosts& hosts) {
  return LargestHost(hosts) * static_cast<int>(hosts.size());
}

int Agent(const Hosts& hosts, int host, int slice) {
  const std::vector<int>& ranks = hosts[host];
  return ranks[static_cast<size_t>(slice) * ranks.size() / LargestHost(hosts)];
}

}  // namespace ringwood

#include "dense/hierarchy.h"

#include <algorithm>

#include "base/check.h"

namespace ringwood {
namespace {

// One rank's part, made in the order in which it is run.
class Maker {
 public:
  Maker(int rank, const Hosts& hosts) : hosts_(hosts), count_(static_cast<int>(hosts.size())) {
    const auto here = std::find_if(hosts.begin(), hosts.end(), [rank](const auto& ranks) {
      return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
    });
    RW_CHECK(here != hosts.end());
    host_ = static_cast<int>(here - hosts.begin());
    // The other ranks here, beginning after this one.
    const auto self = std::find(here->begin(), here->end(), rank);
    others_.assign(self + 1, here->end());
    others_.insert(others_.end(), here->begin(), self);
    for (int slice = 0; slice < LargestHost(hosts); ++slice) {
      (Agent(hosts, host_, slice) == rank ? own_ : foreign_).push_back(slice);
    }
  }

  Schedule Make() {
    for (int stage = 0; stage < count_; ++stage) HandOver(Part(-stage));
    for (int stage = 0; stage < count_; ++stage) Reduce(stage, Part(-stage));
    for (int stage = 0; stage < count_; ++stage) Gather(stage, Part(1 - stage));
    return std::move(schedule_);
  }

 private:
  int Part(int shift) const { return (host_ + shift + count_) % count_; }
  int Slot(int slice, int part) const { return slice * count_ + part; }
  int AgentAfter(int slice) const { return Agent(hosts_, (host_ + 1) % count_, slice); }
  int AgentBefore(int slice) const { return Agent(hosts_, (host_ + count_ - 1) % count_, slice); }

  void HandOver(int part) {
    for (int slice : foreign_) {
      Add(Op::kSend, Agent(hosts_, host_, slice), Slot(slice, part), 1, true);
    }
  }

  void Reduce(int stage, int part) {
    for (int slice : own_) {
      const int slot = Slot(slice, part);
      for (int other : others_) Add(Op::kReceiveReduce, other, slot, 1, true);
      if (stage > 0) Add(Op::kReceiveReduce, AgentBefore(slice), slot, TermsBefore(stage, 0));
      if (stage + 1 < count_) Add(Op::kSend, AgentAfter(slice), slot, TermsBefore(stage, 1));
    }
  }

  void Gather(int stage, int part) {
    const int all = RanksOf(hosts_);
    for (int slice : own_) {
      const int slot = Slot(slice, part);
      if (stage > 0) Add(Op::kReceive, AgentBefore(slice), slot, all);
      if (stage + 1 < count_) Add(Op::kSend, AgentAfter(slice), slot, all);
      for (int other : others_) Add(Op::kSend, other, slot, all);
    }
    for (int slice : foreign_) {
      Add(Op::kReceive, Agent(hosts_, host_, slice), Slot(slice, part), all);
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

  const Hosts& hosts_;
  const int count_;  // of hosts
  int host_ = 0;
  std::vector<int> others_;
  std::vector<int> own_, foreign_;  // slices whose agent here is this rank, or another
  Schedule schedule_;
};

}  // namespace

Schedule HierarchicalAllReduce(int rank, const Hosts& hosts) { return Maker(rank, hosts).Make(); }

int HierarchySlots(const Hosts& hosts) {
  return LargestHost(hosts) * static_cast<int>(hosts.size());
}

int Agent(const Hosts& hosts, int host, int slice) {
  const std::vector<int>& ranks = hosts[host];
  return ranks[static_cast<size_t>(slice) * ranks.size() / LargestHost(hosts)];
}

}  // namespace ringwood

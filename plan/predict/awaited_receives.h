// The receives that one chunk of a simulated node awaits at once: those of its schedule up to the
// next send, whose messages come in any order. A peer's messages answer its receives in the order
// of the schedule. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace ringwood {

class AwaitedReceives {
 public:
  // Forgets the ones before, and keeps their memory.
  void Clear() { all_.clear(); }

  // Steps ascend. Sort() follows the last one.
  void Add(int peer, uint32_t step) { all_.push_back({peer, step, false}); }
  void Sort() {
    std::stable_sort(all_.begin(), all_.end(),
                     [](const Receive& a, const Receive& b) { return a.peer < b.peer; });
  }

  // A message of the peer's has come: the step that it answers. None: this peer's have all come.
  std::optional<uint32_t> Come(int peer) {
    auto found = std::lower_bound(all_.begin(), all_.end(), peer,
                                  [](const Receive& r, int wanted) { return r.peer < wanted; });
    while (found != all_.end() && found->peer == peer && found->come) ++found;
    if (found == all_.end() || found->peer != peer) return std::nullopt;
    found->come = true;
    return found->step;
  }

  // The first step, of the schedule, whose message has not come. None: all have.
  std::optional<uint32_t> First() const {
    std::optional<uint32_t> first;
    for (const Receive& receive : all_) {
      if (!receive.come && (!first || receive.step < *first)) first = receive.step;
    }
    return first;
  }

 private:
  struct Receive {
    int peer;
    uint32_t step;
    bool come;
  };

  std::vector<Receive> all_;  // by peer and step
};

}  // namespace ringwood

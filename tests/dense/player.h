// Plays the schedules of all nodes at once, on values that remember where they come from: proof by
// exhaustion that every contribution lands exactly once and that nothing waits for ever.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "transport/schedule.h"

namespace ringwood {

// What a slot holds: rank → how often its contribution is in it.
using Contributions = std::map<int, int>;

struct Played {
  std::vector<std::vector<Contributions>> slots;  // [node][slot]
  std::vector<int> sent;                          // [node] slots sent
  bool finished = true;                           // false: deadlock
  bool drained = true;                            // false: a message was never received
  bool counted = true;                            // false: a step's terms are not what it carries
};

// Of how many contributions the content is the sum.
inline int TermsOf(const Contributions& content) {
  int terms = 0;
  for (const auto& [rank, times] : content) terms += times;
  return terms;
}

// Sends do not wait for the receiver; a receive waits for the message with the same number between
// the same pair, as the interpreter's names do.
inline Played Play(const std::vector<Schedule>& schedules,
                   std::vector<std::vector<Contributions>> slots) {
  const int world = static_cast<int>(schedules.size());
  Played played{std::move(slots), std::vector<int>(world), true, true, true};
  std::map<std::pair<int, int>, std::vector<Contributions>> wire;
  std::vector<size_t> next(world);
  for (bool moved = true; moved;) {
    moved = false;
    for (int node = 0; node < world; ++node) {
      while (next[node] < schedules[node].size()) {
        const Step& step = schedules[node][next[node]];
        auto& mine = played.slots[node][step.slot];
        if (step.op == Op::kSend) {
          wire[{node, step.peer}].push_back(mine);
          played.counted &= TermsOf(mine) == step.terms;
          ++played.sent[node];
        } else {
          auto& queue = wire[{step.peer, node}];
          if (queue.empty()) break;
          if (step.op == Op::kReceive) mine.clear();
          played.counted &= TermsOf(queue.front()) == step.terms;
          for (const auto& [rank, times] : queue.front()) mine[rank] += times;
          queue.erase(queue.begin());
        }
        ++next[node];
        moved = true;
      }
    }
  }
  for (int node = 0; node < world; ++node) {
    played.finished &= next[node] == schedules[node].size();
  }
  for (const auto& [pair, queue] : wire) played.drained &= queue.empty();
  return played;
}

// Every node starts with its own contribution in every slot.
inline std::vector<std::vector<Contributions>> OwnContributions(int world, int slots) {
  std::vector<std::vector<Contributions>> start(world, std::vector<Contributions>(slots));
  for (int node = 0; node < world; ++node) {
    for (auto& slot : start[node]) slot = {{node, 1}};
  }
  return start;
}

inline Contributions EveryoneOnce(int world) {
  Contributions all;
  for (int rank = 0; rank < world; ++rank) all[rank] = 1;
  return all;
}

}  // namespace ringwood

// Messages of a simulation that came before their receivers awaited them. Those of one key
// answer their receives first in, first out.
//
// Most messages come when they are awaited and never get here. So a node is asked first whether it
// has any, which costs one load, and only then is the table searched. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "plan/predict/scene.h"

namespace ringwood {

// What came.
struct Arrival {
  double through;  // seconds; when all of it was there
  double bytes;
  int slot;  // of the schedule
};

// What tells messages apart that wait at the same time: the nodes, the play's number in its
// scene, and the chunk's in its play. All are below the scene's limits.
struct ArrivalKey {
  int to = 0;
  int from = 0;
  int play = 0;
  int chunk = 0;

  uint64_t Packed() const {
    static_assert(kMostNodes <= 1 << 16 && kMostPlays <= 1 << 12 && kMostChunks <= 1 << 20);
    const auto part = [](int value) { return static_cast<uint64_t>(static_cast<uint32_t>(value)); };
    return part(to) << 48 | part(from) << 32 | part(play) << 20 | part(chunk);
  }
  static ArrivalKey Unpacked(uint64_t packed) {
    return {static_cast<int>(packed >> 48), static_cast<int>(packed >> 32 & 0xffff),
            static_cast<int>(packed >> 20 & 0xfff), static_cast<int>(packed & 0xfffff)};
  }
  bool operator==(const ArrivalKey&) const = default;
};

class EarlyArrivals {
 public:
  explicit EarlyArrivals(size_t nodes) : of_node_(nodes, 0) {}

  bool empty() const { return queues_.empty(); }
  // Some message waits at this node.
  bool AnyAt(int node) const { return of_node_[static_cast<size_t>(node)] > 0; }

  void Push(const ArrivalKey& key, const Arrival& arrival) {
    queues_[key.Packed()].all.push_back(arrival);
    ++of_node_[static_cast<size_t>(key.to)];
  }

  // The oldest of this key, which is then forgotten.
  std::optional<Arrival> Pop(const ArrivalKey& key) {
    if (!AnyAt(key.to)) return std::nullopt;
    const auto found = queues_.find(key.Packed());
    if (found == queues_.end()) return std::nullopt;
    Queue& queue = found->second;
    const Arrival oldest = queue.all[queue.next++];
    if (queue.next == queue.all.size()) queues_.erase(found);
    --of_node_[static_cast<size_t>(key.to)];
    return oldest;
  }

  // One of those that nobody has taken. Not empty.
  ArrivalKey Any() const { return ArrivalKey::Unpacked(queues_.begin()->first); }

 private:
  struct Queue {
    std::vector<Arrival> all;
    size_t next = 0;  // those before were taken
  };

  std::unordered_map<uint64_t, Queue> queues_;  // by packed key; none is used up
  std::vector<uint32_t> of_node_;               // messages that wait at each
};

}  // namespace ringwood

// Transports of many nodes in one thread, which deliver messages and confirm sends in a random
// order made from a seed: every interleaving that a network may show, repeatable. A payload is read
// when it is delivered, so a sender that reuses it before `done` is found.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/random.h"
#include "transport/transport.h"

namespace ringwood {

class ShuffledNetwork {
 public:
  ShuffledNetwork(int nodes, uint64_t seed);
  ~ShuffledNetwork();

  Transport* at(int node);
  void Run();          // until nothing can move any more
  bool Quiet() const;  // no receive and no message is left
  uint64_t sent_bytes(int node) const;
  uint64_t received_bytes(int node) const;
  const std::vector<int>& receivers(int node) const;  // of its messages, in the order of sending

 private:
  class Node;
  struct Key {
    int from, to;
    MessageName name;
    auto operator<=>(const Key&) const = default;
  };
  struct Message {
    Content content;
    std::span<const std::byte> payload;
    Transport::SendDone done;
  };
  struct Posted {
    Content content;
    std::span<std::byte> into;
    Transport::ReceiveDone done;
  };

  void Match(const Key& key);
  void Deliver(const Key& key);

  Random random_;
  std::map<Key, Message> messages_;
  std::map<Key, Posted> posted_;
  std::vector<std::function<void()>> ready_;  // any of them may happen next
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace ringwood

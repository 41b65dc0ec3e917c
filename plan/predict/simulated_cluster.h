// The hardware under a simulation: hosts, each with a NIC of two directions and a memory, and their
// nodes, each with an adder. Says when a message has left, when it is through, and when a sum is
// there.
//
// Max-plus: each of these is free from a time on and serves one after the other, in the order of
// the calls; so calls come in the order in which the simulation's events do. Times are seconds,
// lengths bytes. One thread. Small functions in a header: they run for every message.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "plan/predict/scene.h"

namespace ringwood {

// From one node to another.
struct Transfer {
  int from = 0;
  int to = 0;
  double bytes = 0;
};

class SimulatedCluster {
 public:
  // Of a scene that CheckScene took.
  explicit SimulatedCluster(const Scene& scene)
      : inside_beta_(scene.network.inside_beta),
        gamma_(scene.network.gamma),
        nodes_(NodesOf(scene)) {
    const size_t nodes = nodes_.size();
    PlaceNodes(scene);
    shared_ = hosts_.size() < nodes;
    for (size_t n = 0; n < nodes; ++n) {
      Node& node = nodes_[n];
      const NodeSpeed speed = n < scene.speeds.size() ? scene.speeds[n] : NodeSpeed();
      node.alpha = scene.network.alpha * speed.alpha;
      node.delay = scene.network.delay * speed.alpha;
      node.beta = scene.network.beta * speed.beta;
      node.compute = speed.compute;
    }
  }

  size_t nodes() const { return nodes_.size(); }
  // Some host has several nodes.
  bool shared() const { return shared_; }
  // The node's NodeSpeed.
  double compute(int node) const { return nodes_[static_cast<size_t>(node)].compute; }

  // The message's content is there at `ready`. Through the host's memory all of it comes at
  // `seconds`; over the NICs its first byte does, and Receive says when all of it has come.
  struct Coming {
    double seconds;
    bool through;
  };
  Coming Send(const Transfer& message, double ready) {
    const Node& node = nodes_[static_cast<size_t>(message.from)];
    Host& host = hosts_[static_cast<size_t>(node.host)];
    const bool inside = shared_ && nodes_[static_cast<size_t>(message.to)].host == node.host;
    double& free = inside ? host.memory_free : host.out_free;
    const double begin = std::max(ready, free);
    free = begin + (inside ? inside_beta_ : node.beta) * message.bytes;
    return {(inside ? free : begin + node.delay) + node.alpha, inside};
  }

  // The first byte comes at `seconds`: when the receiver's NIC has all of the message. The slower
  // of both NICs holds it up.
  double Receive(const Transfer& message, double seconds) {
    const Node& node = nodes_[static_cast<size_t>(message.to)];
    double& in_free = hosts_[static_cast<size_t>(node.host)].in_free;
    const double beta = std::max(node.beta, nodes_[static_cast<size_t>(message.from)].beta);
    in_free = std::max(in_free, seconds) + beta * message.bytes;
    return in_free;
  }

  // What is to be added is there at `ready`: when the sum is.
  double Add(int node, double bytes, double ready) {
    double& adder_free = nodes_[static_cast<size_t>(node)].adder_free;
    adder_free = std::max(ready, adder_free) + gamma_ * bytes;
    return adder_free;
  }

 private:
  void PlaceNodes(const Scene& scene) {
    const size_t hosts = scene.hosts.size(), nodes = nodes_.size();
    if (!scene.node_hosts.empty()) {
      int last = 0;
      for (size_t n = 0; n < nodes; ++n) {
        nodes_[n].host = scene.node_hosts[n];
        last = std::max(last, scene.node_hosts[n]);
      }
      hosts_.resize(static_cast<size_t>(last) + 1);
      return;
    }
    for (size_t h = 0; h < hosts; ++h) {
      for (int rank : scene.hosts[h]) nodes_[static_cast<size_t>(rank)].host = static_cast<int>(h);
    }
    const size_t alone_from = hosts == 0 ? 0 : static_cast<size_t>(scene.workers);
    hosts_.resize(hosts + nodes - alone_from);
    for (size_t n = alone_from; n < nodes; ++n) {
      nodes_[n].host = static_cast<int>(hosts + n - alone_from);
    }
  }

  struct Node {
    double alpha = 0;
    double delay = 0;  // beside alpha, between hosts
    double beta = 0;
    double compute = 1;
    int host = 0;
    double adder_free = 0;
  };
  struct Host {
    double out_free = 0;  // NIC, outgoing
    double in_free = 0;   // NIC, incoming
    double memory_free = 0;
  };

  const double inside_beta_;
  const double gamma_;
  std::vector<Node> nodes_;
  std::vector<Host> hosts_;
  bool shared_ = false;
};

}  // namespace ringwood

// A fabric and its transport over a node, the object that holds the connections and is shared by
// both and by calls in flight. Node has address(), loop(), Connect, Send, Receive, Withdraw, Close,
// Counters.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/loop.h"
#include "transport/fabric.h"
#include "transport/transport.h"

namespace ringwood {

template <typename Node>
class NodeTransport : public Transport {
 public:
  explicit NodeTransport(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  ~NodeTransport() override { node_->Close(Aborted("the transport was destroyed")); }

  void Send(int peer, const MessageName& name, const Content& content, const Payload& payload,
            SendDone done) override {
    node_->Send(peer, name, content, payload, std::move(done));
  }
  void Receive(int peer, const MessageName& name, const Content& content,
               const ReceiveBuffer& buffer, ReceiveDone done) override {
    node_->Receive(peer, name, content, buffer, std::move(done));
  }
  void Withdraw(Lane lane, uint64_t round) override { node_->Withdraw(lane, round); }
  void Close(const Status& reason) override { node_->Close(reason); }
  TransportCounters Counters() const override { return node_->Counters(); }

 private:
  const std::shared_ptr<Node> node_;
};

template <typename Node>
class NodeFabric : public Fabric {
 public:
  NodeFabric(std::shared_ptr<Node> node, std::string wire)
      : node_(std::move(node)), wire_(std::move(wire)) {}
  ~NodeFabric() override {
    if (!connected_) node_->Close(Aborted("the fabric was destroyed"));
  }

  std::string Address() const override { return node_->address(); }
  std::string Wire() const override { return wire_; }

  StatusOr<std::unique_ptr<Transport>> Connect(const EpochName& name,
                                               const std::vector<Peer>& peers,
                                               const FabricLimits& limits) override {
    RW_CHECK(!connected_ && node_->loop()->OnThread());
    RW_RETURN_IF_ERROR(node_->Connect(name, peers, limits));
    connected_ = true;
    return std::unique_ptr<Transport>(std::make_unique<NodeTransport<Node>>(node_));
  }

 private:
  const std::shared_ptr<Node> node_;
  const std::string wire_;
  bool connected_ = false;
};

}  // namespace ringwood

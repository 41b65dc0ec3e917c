#include "transport/ucx/fabric.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "transport/interface.h"
#include "transport/ucx/node.h"

namespace ringwood {
namespace {

constexpr double kStartSeconds = 20;  // UCX looks at every device of the machine when it starts

class UcxTransport : public Transport {
 public:
  explicit UcxTransport(std::shared_ptr<UcxNode> node) : node_(std::move(node)) {}
  ~UcxTransport() override { node_->Close(Aborted("the transport was destroyed")); }

  void Send(int peer, const MessageName& name, const Content& content,
            std::span<const std::byte> payload, SendDone done) override {
    node_->Send(peer, name, content, payload, std::move(done));
  }
  void Receive(int peer, const MessageName& name, const Content& content, std::span<std::byte> into,
               ReceiveDone done) override {
    node_->Receive(peer, name, content, into, std::move(done));
  }
  void Close(const Status& reason) override { node_->Close(reason); }
  TransportCounters Counters() const override { return node_->Counters(); }

 private:
  const std::shared_ptr<UcxNode> node_;
};

class UcxFabric : public Fabric {
 public:
  UcxFabric(std::shared_ptr<UcxNode> node, std::string place)
      : node_(std::move(node)), place_(std::move(place)) {}
  ~UcxFabric() override {
    if (!connected_) node_->Close(Aborted("the fabric was destroyed"));
  }

  std::string Address() const override { return node_->address(); }

  StatusOr<std::unique_ptr<Transport>> Connect(const EpochName& name,
                                               const std::vector<Peer>& peers,
                                               const FabricLimits& limits) override {
    RW_CHECK(!connected_ && node_->loop()->OnThread());
    RW_RETURN_IF_ERROR(node_->Connect(name, peers, limits));
    connected_ = true;
    // One line a job: that of node 0. The others say the same of their own cards.
    Log(name.self == 0 ? LogLevel::kInfo : LogLevel::kDebug,
        absl::StrFormat("data plane: %s, tcp by UCX, %d nodes", place_, peers.size()));
    return std::unique_ptr<Transport>(std::make_unique<UcxTransport>(node_));
  }

 private:
  const std::shared_ptr<UcxNode> node_;
  const std::string place_;  // "192.168.1.3 eth0"
  bool connected_ = false;
};

}  // namespace

StatusOr<std::unique_ptr<Fabric>> MakeUcxFabric(Loop* loop, const UcxOptions& options) {
  const std::string interface =
      options.network_interface.empty() ? "lo" : options.network_interface;
  RW_ASSIGN_OR_RETURN(const std::string address, InterfaceAddress(interface));
  RW_ASSIGN_OR_RETURN(const bool loopback, IsLoopback(interface));
  if (!loopback && !options.trusted_fabric) {
    return Denied(absl::StrFormat(
        "the UCX data plane on %s (%s) is neither encrypted nor authenticated: declare the network "
        "private with --trusted-fabric, or choose another transport",
        interface, address));
  }
  auto node = std::make_shared<std::shared_ptr<UcxNode>>();
  RW_RETURN_IF_ERROR(loop->Call(
      [loop, interface, address, node]() -> Status {
        RW_ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker,
                            UcxWorker::Make(interface, Unpredictable()));
        auto made = std::make_shared<UcxNode>(loop, std::move(worker));
        RW_RETURN_IF_ERROR(made->Start(address));
        *node = std::move(made);
        return OkStatus();
      },
      Seconds(kStartSeconds)));
  return std::unique_ptr<Fabric>(
      std::make_unique<UcxFabric>(std::move(*node), address + " " + interface));
}

}  // namespace ringwood

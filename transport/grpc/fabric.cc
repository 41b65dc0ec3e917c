#include "transport/grpc/fabric.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "transport/grpc/node.h"
#include "transport/interface.h"

namespace ringwood {
namespace {

constexpr double kStartSeconds = 20;  // to listen, on a machine with more threads than cores

class GrpcTransport : public Transport {
 public:
  explicit GrpcTransport(std::shared_ptr<GrpcNode> node) : node_(std::move(node)) {}
  ~GrpcTransport() override { node_->Close(Aborted("the transport was destroyed")); }

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
  const std::shared_ptr<GrpcNode> node_;
};

class GrpcFabric : public Fabric {
 public:
  explicit GrpcFabric(std::shared_ptr<GrpcNode> node) : node_(std::move(node)) {}
  ~GrpcFabric() override {
    if (!connected_) node_->Close(Aborted("the fabric was destroyed"));
  }

  std::string Address() const override { return node_->address(); }

  StatusOr<std::unique_ptr<Transport>> Connect(const EpochName& name,
                                               const std::vector<Peer>& peers,
                                               const FabricLimits& limits) override {
    RW_CHECK(!connected_ && node_->loop()->OnThread());
    RW_RETURN_IF_ERROR(node_->Connect(name, peers, limits));
    connected_ = true;
    return std::unique_ptr<Transport>(std::make_unique<GrpcTransport>(node_));
  }

 private:
  const std::shared_ptr<GrpcNode> node_;
  bool connected_ = false;
};

}  // namespace

StatusOr<std::unique_ptr<Fabric>> MakeGrpcFabric(Loop* loop, const GrpcOptions& options) {
  const std::string interface =
      options.network_interface.empty() ? "lo" : options.network_interface;
  RW_ASSIGN_OR_RETURN(const std::string address, InterfaceAddress(interface));
  RW_ASSIGN_OR_RETURN(const bool loopback, IsLoopback(interface));
  const bool secured = options.server_credentials != nullptr;
  if (secured != (options.channel_credentials != nullptr)) {
    return Invalid("gRPC's data plane needs credentials for both sides of a connection, or none");
  }
  if (!loopback && !secured && !options.trusted_fabric) {
    return Denied(absl::StrFormat(
        "the data plane on %s (%s) would be plaintext: give it certificates, or declare the "
        "network private with --trusted-fabric",
        interface, address));
  }
  auto node = std::make_shared<GrpcNode>(loop, options);
  RW_RETURN_IF_ERROR(
      loop->Call([node, address] { return node->Start(address); }, Seconds(kStartSeconds)));
  Log(LogLevel::kDebug, absl::StrFormat("data plane: gRPC%s on %s %s", secured ? " with TLS" : "",
                                        interface, address));
  return std::unique_ptr<Fabric>(std::make_unique<GrpcFabric>(std::move(node)));
}

}  // namespace ringwood

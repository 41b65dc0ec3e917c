#include "server/calls/grpc_server.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "proto/call.h"
#include "proto/server_start.h"

namespace ringwood {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;  // control messages and chunks are far smaller
constexpr int kMaxStreamsOfConnection = 256;
constexpr double kStopSeconds = 3;
constexpr int kLeastPingMilliseconds = 1000;
constexpr int kHandshakeMilliseconds = 5'000;  // for a connection to speak HTTP/2
constexpr int kIdleMilliseconds =
    60'000;  // without a call; a client connects again when it has one
constexpr size_t kMaxQuotaBytes = 1u << 30;  // of gRPC's buffers; beyond it senders wait
constexpr int kMaxReserve = 1024;            // descriptors for everything but connections

// Names the server's start in an answer.
class StartTeller : public grpc::experimental::Interceptor {
 public:
  explicit StartTeller(const std::string& start) : start_(start) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Point::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace(kServerStartKey, start_);
    }
    if (methods->QueryInterceptionHookPoint(Point::PRE_SEND_STATUS)) {
      methods->GetSendTrailingMetadata()->emplace(kServerStartKey, start_);
    }
    methods->Proceed();
  }

 private:
  const std::string start_;
};

// Of the calls of those who find a server by its store; others pay nothing.
class StartTellers : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit StartTellers(std::string start) : start_(std::move(start)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override {
    const std::string_view method = call->method();
    for (const std::string_view told :
         {"/ringwood.v1.Coordinator/Status", "/ringwood.v1.Coordinator/Pull",
          "/ringwood.v1.Store/Hold", "/ringwood.v1.Deployment/Jobs"}) {
      if (method == told) return new StartTeller(start_);  // gRPC's, until the call's end
    }
    return nullptr;
  }

 private:
  const std::string start_;
};

}  // namespace

GrpcServer::GrpcServer(std::unique_ptr<FrontDoor> door, GrpcServerOptions options)
    : options_(std::move(options)), door_(std::move(door)) {}

GrpcServer::~GrpcServer() = default;

StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Open(const std::string& address,
                                                       GrpcServerOptions options) {
  FrontDoorOptions settings;
  settings.silence = Seconds(options.failure_timeout_seconds);
  settings.reserve = std::min(kMaxReserve, RaiseDescriptorLimit() / 4);
  RW_ASSIGN_OR_RETURN(auto door, FrontDoor::Open(address, settings));
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(door), std::move(options)));
}

Status GrpcServer::Listen() { return door_->Listen(); }

void GrpcServer::Limit(grpc::ServerBuilder* builder) const {
  builder->SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsOfConnection);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMilliseconds);
  builder->SetResourceQuota(grpc::ResourceQuota("ringwood server").Resize(kMaxQuotaBytes));
  // Heartbeats find silence; pings find dead connections without heartbeats, and must not be
  // quicker.
  const int silence = static_cast<int>(1000 * options_.failure_timeout_seconds);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                              std::max(silence, kLeastPingMilliseconds));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, silence);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kLeastPingMilliseconds);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
}

Status GrpcServer::Serve(const std::vector<grpc::Service*>& services,
                         std::unique_ptr<grpc::ContextAllocator> contexts) {
  if (options_.turn) turns_ = std::make_unique<Turns>();
  grpc::ServerBuilder builder;
  using Kind = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      Kind::FROM_FD,
      GuardedCredentials(options_.token, options_.credentials, options_.turn, turns_.get()));
  for (grpc::Service* service : services) builder.RegisterService(service);
  if (contexts != nullptr) builder.SetContextAllocator(std::move(contexts));
  Limit(&builder);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> tellers;
  tellers.push_back(std::make_unique<StartTellers>(options_.start));
  builder.experimental().SetInterceptorCreators(std::move(tellers));
  grpc_ = builder.BuildAndStart();
  if (grpc_ == nullptr) return Internal("gRPC cannot serve");
  door_->Begin([this](int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters taken;
    taken.fd = connection;
    acceptor_->HandleNewConnection(&taken);
  });
  return OkStatus();
}

void GrpcServer::CloseDoor() { door_.reset(); }

void GrpcServer::Shutdown() {
  if (grpc_ == nullptr) return;
  if (turns_ != nullptr) turns_->Close();
  grpc_->Shutdown(DeadlineIn(Seconds(kStopSeconds)));
  grpc_->Wait();
}

}  // namespace ringwood

#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/log.h"
#include "base/random.h"
#include "proto/call.h"
#include "proto/job_token.h"
#include "proto/token.h"
#include "proto/token_file.h"
#include "server/calls/call_guard.h"
#include "server/calls/front_door.h"
#include "server/calls/limits.h"
#include "server/calls/listen.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/etcd/coord_store.h"
#include "server/coordinator/etcd/leadership.h"
#include "server/coordinator/kept_record.h"
#include "server/reducer/reducer_node.h"
#include "server/status/board.h"
#include "server/status/http_server.h"
#include "server/store/store_directory.h"
#include "server/store/store_service.h"
#include "server/updates/update_service.h"
#include "transport/open_fabric.h"

namespace ringwood {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;  // control messages and chunks are far smaller
constexpr int kMaxStreamsOfConnection = 256;
constexpr double kStopSeconds = 3;
constexpr double kReattachSeconds = 30;  // members find a coordinator that was started again
constexpr int kLeastPingMilliseconds = 1000;
constexpr int kHandshakeMilliseconds = 5'000;  // for a connection to speak HTTP/2
constexpr int kIdleMilliseconds =
    60'000;  // without a call; a client connects again when it has one
constexpr size_t kMaxQuotaBytes = 1u << 30;  // of gRPC's buffers; beyond it senders wait
constexpr int kMaxReserve = 1024;            // descriptors for everything but connections

constexpr double kLeastGraceSeconds = 0.1;  // a heartbeat every 20 ms

Status CheckOptions(const ServerOptions& options) {
  if (options.servers < 0 || options.servers > static_cast<int>(kMaxServers)) {
    return Invalid(
        absl::StrFormat("--servers %d: 0 to %d are possible", options.servers, kMaxServers));
  }
  if (!(options.failure_timeout_seconds >= 0.5 && options.failure_timeout_seconds <= 3600)) {
    return Invalid(absl::StrFormat("--failure-timeout %g: 0.5 to 3600 seconds are possible",
                                   options.failure_timeout_seconds));
  }
  if (!(options.join_timeout_seconds > 0)) {
    return Invalid("--join-timeout must be longer than 0 seconds");
  }
  if (!(options.stall_timeout_seconds >= 0)) {
    return Invalid("--stall-timeout must be 0 seconds or longer");
  }
  const int most = options.max_world > 0 ? options.max_world : static_cast<int>(kMaxWorld);
  if (options.min_world < 1 || options.min_world > most) {
    return Invalid(
        absl::StrFormat("--min-np %d: 1 to %d (--max-np) are possible", options.min_world, most));
  }
  const double grace = options.straggler_grace_seconds;
  if (!(grace == 0 || (grace >= kLeastGraceSeconds && grace <= 3600))) {
    return Invalid(absl::StrFormat("--straggler-grace %g: 0, or %g to 3600 seconds are possible",
                                   grace, kLeastGraceSeconds));
  }
  if (grace > 0 && !options.elastic) {
    return Invalid("--straggler-grace: only an --elastic job goes on without a rank that is late");
  }
  if (!options.http.empty() && !options.coordinator.empty()) {
    return Invalid("--http belongs to the server that coordinates, which knows all members");
  }
  if (options.coord_store.empty()) return OkStatus();
  if (!options.coordinator.empty()) {
    return Invalid(
        "--coord-store belongs to a server that coordinates, not to one with --coordinator");
  }
  RW_ASSIGN_OR_RETURN(const EtcdAddress etcd, ParseEtcdAddress(options.coord_store));
  if (etcd.on_loopback() || options.trusted_fabric) return OkStatus();
  return Denied("--coord-store " + options.coord_store +
                " is spoken to without TLS: declare its network private with --trusted-fabric "
                "--network-interface IF, or reach etcd on 127.0.0.1");
}

// Off loopback as the control plane itself, and never without a token.
StatusOr<std::string> ChooseHttp(const ServerOptions& options) {
  RW_ASSIGN_OR_RETURN(const std::string address,
                      ChooseListen({.listen = options.http,
                                    .insecure = options.insecure || options.credentials != nullptr,
                                    .trusted_fabric = options.trusted_fabric,
                                    .network_interface = options.network_interface}));
  if (address.rfind("127.", 0) == 0 || !options.token.empty()) return address;
  return Denied("--http " + options.http +
                " can be reached from other hosts and the job has no token: give one with "
                "--token-file, or listen on 127.0.0.1");
}

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Heartbeats come five times within the failure timeout, at least one a second; where stragglers
// are looked for, five times within their grace, since they tell who is ready.
double HeartbeatSeconds(const ServerOptions& options) {
  const double timeout = std::min(5.0, options.failure_timeout_seconds);
  const double grace = options.straggler_grace_seconds;
  return (grace > 0 ? std::min(timeout, grace) : timeout) / 5;
}

}  // namespace

struct Server::Parts {
  ServerOptions options;
  const uint64_t reducer_incarnation = Unpredictable() | 1;
  int port = 0;
  std::string http;              // where it listens; empty: nowhere
  std::unique_ptr<Board> board;  // outlives the coordinator and the store, which it watches
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<UpdateService> updates;
  std::unique_ptr<StoreService> store;  // uses the updates
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> grpc;
  std::unique_ptr<FrontDoor> door;
  std::unique_ptr<ReducerNode> reducer;
  std::unique_ptr<HttpServer> shown;       // the status
  bool keeps_address = false;              // and token in the store
  std::unique_ptr<Leadership> leadership;  // with coord_store; its thread starts what is above

  absl::Mutex mutex;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  Status failed ABSL_GUARDED_BY(mutex);

  std::string host() const { return options.listen.substr(0, options.listen.rfind(':')); }
  Status OpenStore();
  void KeepAddress();
  MembershipOptions Membership() const;
  Status StartCoordinator(std::unique_ptr<CoordStore> record);
  Status OpenDoor(const std::string& address);
  Status StartServing();
  void StartReducer();
  Status ShowStatus();
  Status Serve(std::unique_ptr<CoordStore> record);
  void StandBy(const EtcdAddress& etcd);
  void Fail(const Status& status);
  bool Over() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return stopped || !failed.ok(); }
};

// Checkpoints, and the update log beside them.
Status Server::Parts::OpenStore() {
  const Duration patience = Seconds(options.store_patience_seconds);
  const auto place = [this](const char* folder) {
    return options.store.empty() ? "" : options.store + folder;
  };
  RW_ASSIGN_OR_RETURN(updates, UpdateService::Create({place("/updates"),
                                                      {.on = !options.update_log.empty(),
                                                       .fsync = options.update_log == "fsync"},
                                                      patience}));
  StoreService::Options storing;
  storing.directory = place("/checkpoints");
  storing.patience = patience;
  storing.retention = options.retention;
  storing.checked = options.checked;
  storing.reach = [this](uint64_t job, const CheckpointId& id) { return updates->Reach(job, id); };
  storing.kept = [this](uint64_t job, std::vector<CheckpointId> kept) {
    board->Completed(job, kept, UnixSeconds());
    updates->Keep(job, std::move(kept));
  };
  RW_ASSIGN_OR_RETURN(store, StoreService::Create(storing));
  return OkStatus();
}

// Where this user finds it. Who cannot must name it, no more.
void Server::Parts::KeepAddress() {
  keeps_address = true;
  Status kept = KeepToken(AddressFile(options.store), absl::StrFormat("%s:%d", host(), port));
  if (kept.ok() && !options.token.empty()) {
    kept = KeepToken(TokenFile(options.store), options.token);
  }
  if (kept.ok() && options.credentials != nullptr) {
    kept = KeepToken(IdentityFile(options.store), options.credentials->identity().folder);
  }
  if (!kept.ok()) Log(LogLevel::kWarning, Message(kept));
}

MembershipOptions Server::Parts::Membership() const {
  MembershipOptions membership;
  membership.servers = options.servers;
  membership.failure_timeout_seconds = options.failure_timeout_seconds;
  membership.join_timeout_seconds = options.join_timeout_seconds;
  if (options.reducer_index < options.servers) {
    membership.own_reducer = {static_cast<uint32_t>(options.reducer_index), reducer_incarnation};
  }
  membership.stall_timeout_seconds = options.stall_timeout_seconds;
  membership.heartbeat_seconds = HeartbeatSeconds(options);
  membership.elastic = options.elastic;
  membership.min_world = options.min_world;
  membership.max_world = options.max_world;
  membership.straggler_grace_seconds = options.straggler_grace_seconds;
  membership.update_log = updates->on();
  membership.keeps_checkpoints = !options.store.empty();
  membership.host = options.host;
  const bool kept = !options.store.empty() || !options.coord_store.empty();
  membership.reattach_grace_seconds = options.reattach_grace_seconds < 0
                                          ? (kept ? kReattachSeconds : 0)
                                          : options.reattach_grace_seconds;
  membership.hash = [key = options.token](uint64_t incarnation) {
    return IncarnationHash(incarnation, key);
  };
  if (!options.token.empty()) {
    // Not the secret itself, which who came with a token made from it does not have.
    membership.fabric_key = [secret = options.token](uint64_t job, uint64_t epoch) {
      return DerivedKey(secret, absl::StrFormat("data of job %x, epoch %d", job, epoch));
    };
  }
  return membership;
}

// Without `record` it is in the store, or in memory.
Status Server::Parts::StartCoordinator(std::unique_ptr<CoordStore> record) {
  if (!options.store.empty()) {
    RW_RETURN_IF_ERROR(PrepareStore(options.store));
    if (record == nullptr) {
      RW_ASSIGN_OR_RETURN(record, OpenCoordStore(options.store + "/coordinator", options.token,
                                                 Seconds(options.store_patience_seconds)));
    }
  }
  if (record == nullptr) record = MakeMemoryCoordStore();
  board = std::make_unique<Board>(HeartbeatSeconds(options));
  RW_RETURN_IF_ERROR(OpenStore());
  if (!options.store.empty()) KeepAddress();  // the store is ours from here on
  Coordinator::Options coordination;
  coordination.membership = Membership();
  coordination.store = std::move(record);
  coordination.epoch_floor = store->newest_epoch();
  coordination.find_base = [this](uint64_t job, Coordinator::BaseAnswer answer) {
    store->FindBase(job, [this, answer](StatusOr<std::optional<CheckpointBase>> base) {
      if (!base.ok() || !*base) return answer(std::move(base));
      StatusOr<CheckpointBase> extended = updates->Extend(**base);
      if (!extended.ok()) return answer(extended.status());
      answer(std::optional<CheckpointBase>(*extended));
    });
  };
  coordination.on_failure = options.failed;
  coordination.seen = [this](const Event& event, const Actions& actions, TimePoint now) {
    board->Saw(event, actions, now, UnixSeconds());
  };
  coordination.complete = [this](v1::StatusResponse* status, TimePoint now) {
    board->Complete(status, now, UnixSeconds());
  };
  coordination.on_epoch = [this](const v1::EpochRecord& epoch) {
    store->SetEpoch(epoch);
    updates->SetEpoch(epoch);
    if (options.began) options.began(epoch);
  };
  RW_ASSIGN_OR_RETURN(coordinator, Coordinator::Create(std::move(coordination)));
  return OkStatus();
}

Status Server::Parts::OpenDoor(const std::string& address) {
  FrontDoorOptions settings;
  settings.silence = Seconds(options.failure_timeout_seconds);
  settings.reserve = std::min(kMaxReserve, RaiseDescriptorLimit() / 4);
  RW_ASSIGN_OR_RETURN(door, FrontDoor::Open(address, settings));
  port = door->port();
  return OkStatus();
}

Status Server::Parts::StartServing() {
  static std::once_flag plugins;  // gRPC keeps these switches for the process
  std::call_once(plugins, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
  grpc::ServerBuilder builder;
  using Kind = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  acceptor = builder.experimental().AddExternalConnectionAcceptor(
      Kind::FROM_FD, GuardedCredentials(options.token, options.credentials));
  builder.RegisterService(coordinator->service());
  builder.RegisterService(store->service());
  builder.RegisterService(updates->service());
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsOfConnection);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMilliseconds);
  builder.SetResourceQuota(grpc::ResourceQuota("ringwood server").Resize(kMaxQuotaBytes));
  // Heartbeats find silence; pings find dead connections without heartbeats, and must not be
  // quicker.
  const int silence = static_cast<int>(1000 * options.failure_timeout_seconds);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, std::max(silence, kLeastPingMilliseconds));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, silence);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kLeastPingMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  grpc = builder.BuildAndStart();
  if (grpc == nullptr) return Internal("gRPC cannot serve");
  door->Begin([this](int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters taken;
    taken.fd = connection;
    acceptor->HandleNewConnection(&taken);
  });
  return OkStatus();
}

void Server::Parts::StartReducer() {
  ReducerNodeOptions node;
  // The embedded reducer finds the coordinator where it listens.
  node.coordinator =
      options.coordinator.empty() ? absl::StrFormat("%s:%d", host(), port) : options.coordinator;
  node.index = options.reducer_index;
  node.incarnation = reducer_incarnation;
  node.host = options.host;
  node.access = {options.token, options.credentials};
  node.failure_timeout_seconds = options.failure_timeout_seconds;
  node.coordinator_grace_seconds = options.coordinator_grace_seconds;
  node.max_memory_bytes = options.max_memory_bytes;
  node.make_fabric = [this](Loop* loop) -> StatusOr<std::unique_ptr<Fabric>> {
    RW_ASSIGN_OR_RETURN(auto fabric, OpenFabric(loop, {options.transport, options.network_interface,
                                                       options.trusted_fabric, options.ports,
                                                       options.token, options.credentials}));
    return options.watched ? options.watched(std::move(fabric)) : std::move(fabric);
  };
  node.joined = options.joined;
  node.refused = [this](const Status& status) {
    Log(LogLevel::kError, "reducer_refused", "the reducer cannot continue: " + Message(status));
    Fail(status);
  };
  reducer = std::make_unique<ReducerNode>(std::move(node));
}

Status Server::Parts::ShowStatus() {
  if (http.empty()) return OkStatus();
  StatusPages::Options showing;
  showing.guarded = http.rfind("127.", 0) != 0;
  showing.token = options.token;
  showing.status = [this] { return coordinator->Describe(); };
  const auto pages = std::make_shared<StatusPages>(std::move(showing));
  RW_ASSIGN_OR_RETURN(shown, HttpServer::Open(http, [pages](const HttpRequest& request) {
                        return pages->Answer(request);
                      }));
  if (options.shows) {
    options.shows(absl::StrFormat("%s:%d", http.substr(0, http.rfind(':')), shown->port()));
  }
  return OkStatus();
}

Status Server::Parts::Serve(std::unique_ptr<CoordStore> record) {
  RW_RETURN_IF_ERROR(door->Listen());
  RW_RETURN_IF_ERROR(StartCoordinator(std::move(record)));
  RW_RETURN_IF_ERROR(StartServing());
  if (options.reducer_index < options.servers) StartReducer();
  RW_RETURN_IF_ERROR(ShowStatus());
  if (options.serves) options.serves(port);
  return OkStatus();
}

void Server::Parts::StandBy(const EtcdAddress& etcd) {
  Leadership::Options seat;
  seat.etcd = etcd;
  seat.address = absl::StrFormat("%s:%d", host(), port);
  seat.lease_seconds = LeaseSeconds(options.failure_timeout_seconds);
  seat.leads = [this, etcd,
                patience = Seconds(static_cast<double>(seat.lease_seconds))](int64_t revision) {
    const Status served = Serve(MakeEtcdCoordStore({etcd, revision, options.token, patience}));
    if (!served.ok()) Fail(served);
  };
  seat.deposed = [this](const Status& why) {
    Fail(why);
    if (options.deposed) options.deposed(why);
  };
  leadership = std::make_unique<Leadership>(std::move(seat));
}

void Server::Parts::Fail(const Status& status) {
  absl::MutexLock lock(&mutex);
  if (failed.ok()) failed = status;
}

StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  RW_RETURN_IF_ERROR(CheckOptions(options));
  auto parts = std::make_unique<Parts>();
  parts->options = options;
  if (options.coordinator.empty()) {
    RW_ASSIGN_OR_RETURN(
        std::string address,
        ChooseListen({options.listen, options.insecure, options.credentials != nullptr,
                      options.trusted_fabric, options.network_interface}));
    RW_ASSIGN_OR_RETURN(address, TakePort(address, options.ports));
    RW_RETURN_IF_ERROR(parts->OpenDoor(address));
    if (!options.http.empty()) {
      RW_ASSIGN_OR_RETURN(parts->http, ChooseHttp(options));
    }
  }
  std::unique_ptr<Server> server(new Server(std::move(parts)));
  if (!options.coordinator.empty()) {
    server->parts_->StartReducer();
    if (options.serves) options.serves(0);
  } else if (options.coord_store.empty()) {
    RW_RETURN_IF_ERROR(server->parts_->Serve(nullptr));
  } else {
    RW_ASSIGN_OR_RETURN(const EtcdAddress etcd, ParseEtcdAddress(options.coord_store));
    server->parts_->StandBy(etcd);
  }
  return server;
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() { Stop(); }

int Server::port() const { return parts_->port; }

void Server::Stop() {
  {
    absl::MutexLock lock(&parts_->mutex);
    if (parts_->stopped) return;
    parts_->stopped = true;
  }
  if (parts_->leadership != nullptr) parts_->leadership->Close();
  parts_->shown.reset();
  if (parts_->coordinator != nullptr) parts_->coordinator->Stop("the server is stopping");
  parts_->door.reset();
  parts_->reducer.reset();
  if (parts_->store != nullptr) parts_->store->Stop();
  if (parts_->updates != nullptr) parts_->updates->Stop();
  if (parts_->grpc != nullptr) {
    parts_->grpc->Shutdown(DeadlineIn(Seconds(kStopSeconds)));
    parts_->grpc->Wait();
  }
  parts_->grpc.reset();
  parts_->coordinator.reset();
  parts_->store.reset();
  parts_->updates.reset();
  if (parts_->keeps_address) {
    unlink(AddressFile(parts_->options.store).c_str());
    unlink(TokenFile(parts_->options.store).c_str());
    unlink(IdentityFile(parts_->options.store).c_str());
  }
  parts_->leadership.reset();  // resigns
}

Status Server::Wait(Duration timeout) {
  absl::MutexLock lock(&parts_->mutex);
  const bool over = parts_->mutex.AwaitWithTimeout(absl::Condition(parts_.get(), &Parts::Over),
                                                   absl::FromChrono(timeout));
  if (!over) return TimedOut("the server still runs");
  return parts_->stopped ? OkStatus() : parts_->failed;
}

}  // namespace ringwood

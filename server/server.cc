#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/files/descriptors.h"
#include "base/log.h"
#include "base/net/endpoint.h"
#include "base/random.h"
#include "proto/call.h"
#include "proto/job_token.h"
#include "proto/token.h"
#include "proto/token_file.h"
#include "server/calls/call_guard.h"
#include "server/calls/front_door.h"
#include "server/calls/limits.h"
#include "server/calls/listen.h"
#include "server/coordinator/etcd/coord_store.h"
#include "server/coordinator/etcd/leadership.h"
#include "server/deployment.h"
#include "server/deployment_doors.h"
#include "server/job_follower.h"
#include "server/job_host.h"
#include "server/reducer/reducer_node.h"
#include "server/status/http_server.h"
#include "server/store/service/store_service.h"
#include "server/store/store_directory.h"

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
constexpr int kMaxJobs = 256;                // each has some 20 threads
constexpr int kMaxReserve = 1024;            // descriptors for everything but connections

constexpr double kLeastGraceSeconds = 0.1;  // a heartbeat every 20 ms

Status CheckDeployment(const ServerOptions& options) {
  if (options.jobs == 0) {
    return options.job_limits.empty()
               ? OkStatus()
               : Invalid("--job-limits are of the jobs of a deployment: give --jobs too");
  }
  if (options.jobs < 0 || options.jobs > kMaxJobs) {
    return Invalid(absl::StrFormat("--jobs %d: 1 to %d are possible", options.jobs, kMaxJobs));
  }
  if (options.token.empty() || !JobOfToken(options.token).empty() ||
      ClaimedRoles(options.token) != kEveryRole) {
    return Denied(
        "--jobs: each job has a token of its own, made from a secret: make one with `ringwood "
        "token "
        "new` and give it with --token-file");
  }
  if (!options.update_log.empty()) {
    return Invalid(
        "--jobs: the jobs of a deployment have no --update-log: let them save more often, or give "
        "the job that needs it a server of its own");
  }
  if (!options.coord_store.empty()) {
    return Invalid(
        "--jobs: a deployment has no standby (--coord-store): have it started again when it ends, "
        "as systemd and Kubernetes do, and its jobs go on; or give the job a server of its own");
  }
  if (!options.coordinator.empty() && !options.store.empty()) {
    return Invalid(
        "--jobs: the jobs of a deployment keep their checkpoints in the store of the server that "
        "coordinates: leave out --store here, or give the job that needs several stores servers of "
        "its own");
  }
  if (options.watched) {
    return Invalid(
        "--jobs: the reducers of a deployment record no --timeline: its ranks do, with "
        "RINGWOOD_TIMELINE; or give the job a server of its own");
  }
  for (const auto& [job, limits] : options.job_limits) {
    RW_RETURN_IF_ERROR(Annotate(CheckJobName(job), "--job-limits: \"" + job + "\""));
  }
  return OkStatus();
}

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
  RW_RETURN_IF_ERROR(CheckDeployment(options));
  if (options.http.empty() && !options.http_tls.empty()) {
    return Invalid("--http-tls is of a page that is not served: give its address with --http");
  }
  if (!options.http.empty() && !options.coordinator.empty()) {
    return Invalid("--http belongs to the server that coordinates, which knows all members");
  }
  if (options.coord_store.empty()) {
    return options.etcd_tls.empty() ? OkStatus()
                                    : Invalid("--etcd-tls belongs to --coord-store etcds://…");
  }
  if (!options.coordinator.empty()) {
    return Invalid(
        "--coord-store belongs to a server that coordinates, not to one with --coordinator");
  }
  RW_ASSIGN_OR_RETURN(const EtcdAddress etcd,
                      ParseEtcdAddress(options.coord_store, options.etcd_tls));
  if (etcd.credentials != nullptr || etcd.on_loopback() || options.trusted_fabric) {
    return OkStatus();
  }
  return Denied("--coord-store " + options.coord_store +
                " is spoken to without TLS: write etcds:// and give the folder with etcd's ca.pem "
                "with --etcd-tls, declare its network private with --trusted-fabric "
                "--network-interface IF, or reach etcd on 127.0.0.1");
}

StatusOr<std::string> ChooseControl(const ServerOptions& options) {
  return ChooseListen({.listen = options.listen,
                       .insecure = options.insecure,
                       .tls = options.credentials != nullptr,
                       .trusted_fabric = options.trusted_fabric,
                       .network_interface = options.network_interface});
}

// Off loopback as the control plane itself, with a certificate of its own, and never without a
// token.
StatusOr<std::string> ChooseHttp(const ServerOptions& options) {
  RW_ASSIGN_OR_RETURN(const std::string address,
                      ChooseListen({.listen = options.http,
                                    .page = true,
                                    .insecure = options.insecure || options.credentials != nullptr,
                                    .tls = !options.http_tls.empty(),
                                    .trusted_fabric = options.trusted_fabric,
                                    .network_interface = options.network_interface}));
  if (IsLoopbackHost(HostOf(address)) || !options.token.empty()) return address;
  return Denied("--http " + options.http +
                " can be reached from other hosts and the job has no token: give one with "
                "--token-file, or listen on 127.0.0.1");
}

}  // namespace

struct Server::Parts {
  ServerOptions options;
  int port = 0;
  std::string http;  // where it listens; empty: nowhere
  // One of these; of a process that is a reducer alone the last two.
  std::unique_ptr<JobHost> job;
  std::unique_ptr<Deployment> deployment;
  std::unique_ptr<StoreService> further;  // store, beside the reducer of this process
  std::unique_ptr<ReducerNode> reducer;
  std::unique_ptr<JobFollower> follower;
  std::unique_ptr<DeploymentDoors> doors;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> grpc;
  std::unique_ptr<FrontDoor> door;
  std::unique_ptr<HttpServer> shown;       // the status
  bool keeps_address = false;              // and token in the store
  std::unique_ptr<Leadership> leadership;  // with coord_store; its thread starts what is above

  absl::Mutex mutex;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  Status failed ABSL_GUARDED_BY(mutex);

  std::string serving_address() const { return ToString({HostOf(options.listen), port}); }
  void KeepAddress();
  Status OpenDoor(const std::string& address);
  Status StartServing();
  void StartReducer();
  Status OpenFurtherStore();
  StatusOr<std::vector<v1::StatusResponse>> StatusesOf(const std::string& token);
  Status ShowStatus();
  Status Serve(std::unique_ptr<CoordStore> record);
  void StandBy(const EtcdAddress& etcd);
  void Fail(const Status& status);
  bool Over() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return stopped || !failed.ok(); }
};

// Where this user finds it. Who cannot must name it, no more.
void Server::Parts::KeepAddress() {
  keeps_address = true;
  Status kept = KeepToken(AddressFile(options.store), serving_address());
  if (kept.ok() && !options.token.empty()) {
    kept = KeepToken(TokenFile(options.store), options.token);
  }
  if (kept.ok() && options.credentials != nullptr) {
    kept = KeepToken(IdentityFile(options.store), options.credentials->identity().folder);
  }
  if (!kept.ok()) Log(LogLevel::kWarning, Message(kept));
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
      Kind::FROM_FD, GuardedCredentials(options.token, options.credentials, options.jobs > 0));
  if (deployment != nullptr) {
    for (grpc::Service* service : doors->services()) builder.RegisterService(service);
    builder.SetContextAllocator(DeploymentDoors::Contexts());
  } else if (further != nullptr) {
    builder.RegisterService(further->service());
    builder.RegisterService(further->parts());
  } else {
    builder.RegisterService(job->coordinator().service());
    builder.RegisterService(job->store().service());
    builder.RegisterService(job->updates().service());
  }
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

// Of a process that is a reducer alone.
void Server::Parts::StartReducer() {
  if (options.jobs > 0) {
    follower = std::make_unique<JobFollower>(options);
    return;
  }
  reducer = MakeReducer(options, options.coordinator, Unpredictable() | 1,
                        [this](const Status& status) { Fail(status); });
}

// Of a process that joins another's coordinator: it keeps parts of that one's checkpoints, for
// ranks and the main store to find where it serves.
Status Server::Parts::OpenFurtherStore() {
  RW_ASSIGN_OR_RETURN(std::string address, ChooseControl(options));
  RW_ASSIGN_OR_RETURN(address, TakePort(address, options.ports));
  RW_RETURN_IF_ERROR(OpenDoor(address));
  RW_RETURN_IF_ERROR(PrepareStore(options.store));
  RW_RETURN_IF_ERROR(MarkDivided(options.store));
  RW_RETURN_IF_ERROR(PreparePartsFolder(options.store, options.reducer_index));
  StoreService::Options storing;
  storing.directory = PartsFolder(options.store, options.reducer_index);
  storing.store = options.store;
  storing.further = true;
  storing.patience = Seconds(options.store_patience_seconds);
  storing.max_bytes = options.max_store_bytes;
  RW_ASSIGN_OR_RETURN(further, StoreService::Create(storing));
  RW_RETURN_IF_ERROR(door->Listen());
  RW_RETURN_IF_ERROR(StartServing());
  options.store_address = serving_address();
  return OkStatus();
}

// Of the job of this token; with the deployment's of all.
StatusOr<std::vector<v1::StatusResponse>> Server::Parts::StatusesOf(const std::string& token) {
  if (JobOfToken(token).empty()) return deployment->Statuses();
  RW_ASSIGN_OR_RETURN(v1::StatusResponse status, deployment->StatusOf(token));
  return std::vector<v1::StatusResponse>{std::move(status)};
}

Status Server::Parts::ShowStatus() {
  if (http.empty()) return OkStatus();
  StatusPages::Options showing;
  showing.guarded = !IsLoopbackHost(HostOf(http));
  showing.token = options.token;
  if (deployment != nullptr) {
    showing.guarded = true;  // a token says which job
    showing.status_of = [this](const std::string& token) { return StatusesOf(token); };
  } else {
    showing.status = [this] { return job->coordinator().Describe(); };
  }
  const auto pages = std::make_shared<StatusPages>(std::move(showing));
  RW_ASSIGN_OR_RETURN(shown,
                      HttpServer::Open(http, options.http_tls, [pages](const HttpRequest& request) {
                        return pages->Answer(request);
                      }));
  if (options.shows) {
    options.shows((options.http_tls.empty() ? "http://" : "https://") +
                  ToString({HostOf(http), shown->port()}) + "/");
  }
  return OkStatus();
}

Status Server::Parts::Serve(std::unique_ptr<CoordStore> record) {
  RW_RETURN_IF_ERROR(door->Listen());
  if (options.jobs > 0) {
    RW_ASSIGN_OR_RETURN(deployment, Deployment::Create(options, serving_address()));
    doors = std::make_unique<DeploymentDoors>(deployment.get());
  } else {
    RW_ASSIGN_OR_RETURN(job, JobHost::Open(options, std::move(record)));
  }
  if (!options.store.empty()) KeepAddress();
  RW_RETURN_IF_ERROR(StartServing());
  // The embedded reducer finds the coordinator where it listens.
  if (job != nullptr) {
    job->StartReducer(serving_address(), options.token,
                      [this](const Status& status) { Fail(status); });
  }
  RW_RETURN_IF_ERROR(ShowStatus());
  if (options.serves) options.serves(port);
  return OkStatus();
}

void Server::Parts::StandBy(const EtcdAddress& etcd) {
  Leadership::Options seat;
  seat.etcd = etcd;
  seat.address = serving_address();
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
  seat.refused = [this](const Status& why) { Fail(why); };
  leadership = std::make_unique<Leadership>(std::move(seat));
}

void Server::Parts::Fail(const Status& status) {
  absl::MutexLock lock(&mutex);
  if (failed.ok()) failed = status;
}

StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  RW_RETURN_IF_ERROR(CheckOptions(options));
  RW_RETURN_IF_ERROR(ReserveDescriptors());
  auto parts = std::make_unique<Parts>();
  parts->options = options;
  if (options.coordinator.empty()) {
    RW_ASSIGN_OR_RETURN(std::string address, ChooseControl(options));
    RW_ASSIGN_OR_RETURN(address, TakePort(address, options.ports));
    RW_RETURN_IF_ERROR(parts->OpenDoor(address));
    if (!options.http.empty()) {
      RW_ASSIGN_OR_RETURN(parts->http, ChooseHttp(options));
    }
  }
  std::unique_ptr<Server> server(new Server(std::move(parts)));
  if (!options.coordinator.empty()) {
    if (!options.store.empty()) RW_RETURN_IF_ERROR(server->parts_->OpenFurtherStore());
    server->parts_->StartReducer();
    if (options.serves) options.serves(server->port());
  } else if (options.coord_store.empty()) {
    RW_RETURN_IF_ERROR(server->parts_->Serve(nullptr));
  } else {
    RW_ASSIGN_OR_RETURN(const EtcdAddress etcd,
                        ParseEtcdAddress(options.coord_store, options.etcd_tls));
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
  if (parts_->job != nullptr) parts_->job->StopCoordinator("the server is stopping");
  if (parts_->deployment != nullptr) parts_->deployment->Stop("the server is stopping");
  parts_->door.reset();
  parts_->reducer.reset();
  parts_->follower.reset();
  if (parts_->job != nullptr) parts_->job->Stop();
  if (parts_->further != nullptr) parts_->further->Stop();
  if (parts_->grpc != nullptr) {
    parts_->grpc->Shutdown(DeadlineIn(Seconds(kStopSeconds)));
    parts_->grpc->Wait();
  }
  parts_->grpc.reset();
  parts_->job.reset();
  parts_->further.reset();
  parts_->doors.reset();
  parts_->deployment.reset();
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

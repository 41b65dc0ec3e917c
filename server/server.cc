#include "server/server.h"

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/files/descriptors.h"
#include "base/log.h"
#include "base/net/endpoint.h"
#include "base/random.h"
#include "server/calls/grpc_server.h"
#include "server/calls/listen.h"
#include "server/coordinator/etcd/coord_store.h"
#include "server/coordinator/etcd/leadership.h"
#include "server/deployment.h"
#include "server/deployment_doors.h"
#include "server/job_follower.h"
#include "server/job_host.h"
#include "server/options_check.h"
#include "server/reducer/reducer_node.h"
#include "server/status/status_port.h"
#include "server/store/service/store_service.h"
#include "server/store/store_directory.h"
#include "server/whereabouts.h"

namespace ringwood {

struct Server::Parts {
  ServerOptions options;
  int port = 0;
  // One of these; of a process that is a reducer alone the last two.
  std::unique_ptr<JobHost> job;
  std::unique_ptr<Deployment> deployment;
  std::unique_ptr<StoreService> further;  // store, beside the reducer of this process
  std::unique_ptr<ReducerNode> reducer;
  std::unique_ptr<JobFollower> follower;
  std::unique_ptr<DeploymentDoors> doors;
  std::unique_ptr<GrpcServer> grpc;
  std::unique_ptr<StatusPort> shown;       // null without http
  std::string kept_address;                // in the store, with the token; empty: none is there
  std::unique_ptr<Leadership> leadership;  // with coord_store; its thread starts what is above

  absl::Mutex mutex;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  Status failed ABSL_GUARDED_BY(mutex);

  std::string serving_address() const { return ToString({HostOf(options.listen), port}); }
  void KeepAddress();
  Status OpenPort();
  Status StartServing();
  void StartReducer();
  Status OpenFurtherStore();
  Status OpenStatusPort();
  Status ShowStatus();
  Status Serve(std::unique_ptr<CoordStore> record);
  void StandBy(const EtcdAddress& etcd);
  void Fail(const Status& status);
  bool IsOver() {
    absl::MutexLock lock(&mutex);
    return Over();
  }
  bool Over() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return stopped || !failed.ok(); }
};

// Where this user finds it. Who cannot must name it, no more.
void Server::Parts::KeepAddress() {
  kept_address = serving_address();
  if (job != nullptr) return job->LeaveAddress(kept_address);
  const Status kept = LeaveWhereabouts(options, kept_address);
  if (!kept.ok()) Log(LogLevel::kWarning, Message(kept));
}

Status Server::Parts::OpenPort() {
  RW_ASSIGN_OR_RETURN(std::string address, ChooseControl(options));
  RW_ASSIGN_OR_RETURN(address, TakePort(address, options.ports));
  GrpcServerOptions serving;
  serving.token = options.token;
  serving.start = options.start;
  serving.credentials = options.credentials;
  if (options.jobs > 0) {
    serving.turn = [this](std::string_view token) { return deployment->TurnOf(token); };
  }
  serving.failure_timeout_seconds = options.failure_timeout_seconds;
  RW_ASSIGN_OR_RETURN(grpc, GrpcServer::Open(address, std::move(serving)));
  port = grpc->port();
  return OkStatus();
}

Status Server::Parts::StartServing() {
  if (deployment != nullptr) return grpc->Serve(doors->services(), DeploymentDoors::Contexts());
  if (further != nullptr) return grpc->Serve({further->service(), further->parts()});
  return grpc->Serve(
      {job->coordinator().service(), job->store().service(), job->updates().service()});
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
  RW_RETURN_IF_ERROR(OpenPort());
  RW_RETURN_IF_ERROR(PrepareStore(options.store));
  RW_RETURN_IF_ERROR(MarkDivided(options.store));
  RW_RETURN_IF_ERROR(PreparePartsFolder(options.store, options.reducer_index));
  StoreService::Options storing;
  storing.directory = PartsFolder(options.store, options.reducer_index);
  storing.store = options.store;
  storing.further = true;
  storing.patience = StorePatience(options);
  storing.max_bytes = options.max_store_bytes;
  RW_ASSIGN_OR_RETURN(further, StoreService::Create(storing));
  RW_RETURN_IF_ERROR(grpc->Listen());
  RW_RETURN_IF_ERROR(StartServing());
  options.store_address = serving_address();
  return OkStatus();
}

// Its pages are asked for after ShowStatus only.
Status Server::Parts::OpenStatusPort() {
  if (options.http.empty()) return OkStatus();
  RW_ASSIGN_OR_RETURN(const std::string http, ChooseHttp(options));
  StatusPages::Options pages;
  pages.token = options.token;
  if (options.jobs > 0) {
    pages.status_of = [this](const std::string& token) { return deployment->StatusesOf(token); };
  } else {
    pages.status = [this] { return job->coordinator().Describe(); };
  }
  RW_ASSIGN_OR_RETURN(shown, StatusPort::Open(http, options.http_tls, std::move(pages)));
  return OkStatus();
}

Status Server::Parts::ShowStatus() {
  if (shown == nullptr) return OkStatus();
  RW_RETURN_IF_ERROR(shown->Listen());
  if (options.shows) options.shows(shown->url());
  return OkStatus();
}

Status Server::Parts::Serve(std::unique_ptr<CoordStore> record) {
  RW_RETURN_IF_ERROR(grpc->Listen());
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
    // Damage stays: starting again does not help.
    const bool damaged = served.code() == StatusCode::kDataLoss;
    if (!served.ok()) Fail(damaged ? Refused(Message(served)) : served);
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
  RW_RETURN_IF_ERROR(CheckServerOptions(options));
  RW_RETURN_IF_ERROR(ReserveDescriptors());
  auto parts = std::make_unique<Parts>();
  parts->options = options;
  parts->options.start = absl::StrFormat("%016x", Unpredictable());
  parts->options.gives_up = [raw = parts.get(), asked = options.gives_up] {
    return raw->IsOver() || (asked && asked());
  };
  if (options.coordinator.empty()) {
    RW_RETURN_IF_ERROR(parts->OpenPort());
    RW_RETURN_IF_ERROR(parts->OpenStatusPort());
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
    // What would end it only when it leads. The leader may have the databases open.
    if (!options.store.empty()) RW_RETURN_IF_ERROR(PrepareStoreAhead(options.store));
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
  if (parts_->grpc != nullptr) parts_->grpc->CloseDoor();
  parts_->reducer.reset();
  parts_->follower.reset();
  if (parts_->job != nullptr) parts_->job->Stop();
  if (parts_->further != nullptr) parts_->further->Stop();
  // While the store is locked: who waits for it leaves its own.
  if (!parts_->kept_address.empty()) {
    TakeBackWhereabouts(parts_->options.store, parts_->kept_address);
  }
  if (parts_->grpc != nullptr) parts_->grpc->Shutdown();
  parts_->grpc.reset();
  parts_->job.reset();
  parts_->further.reset();
  parts_->doors.reset();
  parts_->deployment.reset();
  parts_->leadership.reset();  // resigns
}

void Server::Drain() {
  if (parts_->reducer != nullptr) parts_->reducer->Drain();
}

bool Server::Drained() const {
  if (parts_->reducer != nullptr) return parts_->reducer->drained();
  const auto status = parts_->job->coordinator().Describe();
  return status.ok() && status->phase() != "running";
}

Status Server::Wait(Duration timeout) {
  absl::MutexLock lock(&parts_->mutex);
  const bool over = parts_->mutex.AwaitWithTimeout(absl::Condition(parts_.get(), &Parts::Over),
                                                   absl::FromChrono(timeout));
  if (!over) return TimedOut("the server still runs");
  return parts_->stopped ? OkStatus() : parts_->failed;
}

}  // namespace ringwood

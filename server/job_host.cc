#include "server/job_host.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/random.h"
#include "proto/job_token.h"
#include "proto/token.h"
#include "server/coordinator/kept_record.h"
#include "server/deployed_job.h"
#include "server/store/ballast.h"
#include "server/store/store_directory.h"
#include "server/whereabouts.h"
#include "transport/open_fabric.h"

namespace ringwood {
namespace {

constexpr double kReattachSeconds = 30;  // members find a coordinator that was started again

constexpr double kLeastLeadersPatience = 1;  // the leader before it may be in its last write

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

std::unique_ptr<ReducerNode> MakeReducer(const ServerOptions& options,
                                         const std::string& coordinator, uint64_t incarnation,
                                         std::function<void(const Status&)> refused) {
  ReducerNodeOptions node;
  node.coordinator = coordinator;
  node.index = options.reducer_index;
  node.incarnation = incarnation;
  node.host = options.host;
  node.access = {options.token, options.credentials, options.token_file};
  node.failure_timeout_seconds = options.failure_timeout_seconds;
  node.coordinator_grace_seconds = options.coordinator_grace_seconds;
  node.max_memory_bytes = options.max_memory_bytes;
  node.store_address = options.store_address;
  node.make_fabric = [options](Loop* loop) -> StatusOr<std::unique_ptr<Fabric>> {
    RW_ASSIGN_OR_RETURN(auto fabric, OpenFabric(loop, {options.transport, options.network_interface,
                                                       options.trusted_fabric, options.ports,
                                                       options.token, options.credentials}));
    return options.watched ? options.watched(std::move(fabric)) : std::move(fabric);
  };
  node.joined = options.joined;
  node.refused = [refused = std::move(refused)](const Status& status) {
    Log(LogLevel::kError, "reducer_refused", "the reducer cannot continue: " + Message(status));
    refused(status);
  };
  return std::make_unique<ReducerNode>(std::move(node));
}

LockPatience StorePatience(const ServerOptions& options) {
  const double given = options.store_patience_seconds;
  if (options.coord_store.empty()) return {Seconds(std::max(0.0, given)), options.gives_up};
  // Who waits this long is told so, and is not told that its configuration is wrong.
  const double leads = given < 0 ? std::numeric_limits<double>::infinity() : given;
  return {Seconds(std::max(kLeastLeadersPatience, leads)), options.gives_up};
}

double ReattachGraceSeconds(const ServerOptions& options) {
  if (options.reattach_grace_seconds >= 0) return options.reattach_grace_seconds;
  const bool kept = !options.store.empty() || !options.coord_store.empty();
  return kept ? kReattachSeconds : 0;
}

JobHost::JobHost(const ServerOptions& options)
    : options_(options), reducer_incarnation_(Unpredictable() | 1) {}

JobHost::~JobHost() = default;

StatusOr<std::unique_ptr<JobHost>> JobHost::Open(const ServerOptions& options,
                                                 std::unique_ptr<CoordStore> record) {
  std::unique_ptr<JobHost> host(new JobHost(options));
  RW_RETURN_IF_ERROR(host->Coordinate(std::move(record)));
  return host;
}

void JobHost::LeaveAddress(const std::string& address) {
  address_ = address;
  if (!options_.store.empty()) TellStore();
}

// Who cannot find it must name it, no more.
void JobHost::TellStore() const {
  const Status left = LeaveWhereabouts(options_, address_);
  if (!left.ok()) Log(LogLevel::kWarning, Message(left));
}

void JobHost::StartReducer(const std::string& coordinator, const std::string& token,
                           std::function<void(const Status&)> refused) {
  if (options_.reducer_index >= options_.servers) return;
  ServerOptions own = options_;
  own.token = token;
  reducer_ = MakeReducer(own, coordinator, reducer_incarnation_, std::move(refused));
}

void JobHost::StopCoordinator(const std::string& reason) { coordinator_->Stop(reason); }

void JobHost::Stop() {
  reducer_.reset();
  store_->Stop();
  updates_->Stop();
}

// Checkpoints, and the update log beside them.
Status JobHost::OpenStore() {
  const LockPatience patience = StorePatience(options_);
  const auto place = [this](const char* folder) {
    return options_.store.empty() ? "" : options_.store + folder;
  };
  RW_ASSIGN_OR_RETURN(updates_, UpdateService::Create({place("/updates"),
                                                       {.on = !options_.update_log.empty(),
                                                        .fsync = options_.update_log == "fsync"},
                                                       patience}));
  StoreService::Options storing;
  storing.directory = place("/checkpoints");
  storing.store = options_.store;
  // Who says that it has a further store is not shown the secret.
  storing.access = {options_.token.empty() ? "" : ServersTokenOf(options_.token),
                    options_.credentials};
  storing.patience = patience;
  storing.retention = options_.retention;
  storing.max_bytes = options_.max_store_bytes;
  storing.checked = options_.checked;
  storing.reach = [this](uint64_t job, const CheckpointId& id) { return updates_->Reach(job, id); };
  storing.kept = [this](uint64_t job, std::vector<CheckpointId> kept, uint64_t bytes) {
    board_->Completed(job, kept, UnixSeconds());
    updates_->LeaveRoomFor(bytes);
    updates_->Keep(job, std::move(kept));
    // In an empty folder that has taken the store's place this checkpoint is the first.
    if (const Status again = record_->Keep(); !again.ok()) {
      Log(LogLevel::kWarning, "the epoch is not on record: " + Message(again));
    }
    if (access(AddressFile(options_.store).c_str(), F_OK) != 0) TellStore();
  };
  RW_ASSIGN_OR_RETURN(store_, StoreService::Create(storing));
  updates_->LeaveRoomFor(store_->newest_bytes());
  for (const DatedCheckpoint& found : store_->found()) {
    board_->Found(found.job, found.id, found.unix_seconds);
  }
  return OkStatus();
}

MembershipOptions JobHost::Membership() const {
  MembershipOptions membership;
  membership.servers = options_.servers;
  membership.failure_timeout_seconds = options_.failure_timeout_seconds;
  membership.join_timeout_seconds = options_.join_timeout_seconds;
  if (options_.reducer_index < options_.servers) {
    membership.own_reducer = {static_cast<uint32_t>(options_.reducer_index), reducer_incarnation_};
  }
  membership.stall_timeout_seconds = options_.stall_timeout_seconds;
  membership.heartbeat_seconds = HeartbeatSeconds(options_);
  membership.elastic = options_.elastic;
  membership.min_world = options_.min_world;
  membership.max_world = options_.max_world;
  membership.straggler_grace_seconds = options_.straggler_grace_seconds;
  membership.update_log = updates_->on();
  membership.keeps_checkpoints = !options_.store.empty();
  membership.divides_checkpoints = !options_.store.empty() && !options_.of_deployment;
  membership.why_undivided =
      options_.of_deployment
          ? "the jobs of a deployment keep theirs in its own store"
          : "the server that coordinates has none (start it with --store, or none of them)";
  membership.host = options_.host;
  membership.reattach_grace_seconds = ReattachGraceSeconds(options_);
  membership.has_successor = (options_.of_deployment || !options_.coord_store.empty()) &&
                             membership.reattach_grace_seconds > 0;
  membership.hash = [key = options_.token](uint64_t incarnation) {
    return IncarnationHash(incarnation, key);
  };
  if (!options_.token.empty()) {
    // Not the secret itself, which who came with a token made from it does not have.
    membership.fabric_key = [secret = options_.token](uint64_t job, uint64_t epoch) {
      return DerivedKey(secret, absl::StrFormat("data of job %x, epoch %d", job, epoch));
    };
  }
  return membership;
}

Status JobHost::Coordinate(std::unique_ptr<CoordStore> record) {
  if (!options_.store.empty()) {
    RW_RETURN_IF_ERROR(PrepareStore(options_.store));
    if (options_.max_store_bytes == 0) KeepBallast(options_.store);
    if (record == nullptr) {
      RW_ASSIGN_OR_RETURN(record, OpenCoordStore(options_.store + "/coordinator", options_.token,
                                                 StorePatience(options_)));
    }
  }
  record_ = record == nullptr ? MakeMemoryCoordStore() : std::move(record);
  board_ = std::make_unique<Board>(HeartbeatSeconds(options_));
  RW_RETURN_IF_ERROR(OpenStore());
  Coordinator::Options coordination;
  coordination.membership = Membership();
  coordination.store = record_;
  coordination.epoch_floor = store_->newest_epoch();
  coordination.find_base = [this](uint64_t job, const std::vector<StorePlace>& stores,
                                  Coordinator::BaseAnswer answer) {
    store_->FindBase(job, stores, [this, answer](StatusOr<std::optional<CheckpointBase>> base) {
      if (!base.ok() || !*base) return answer(std::move(base));
      StatusOr<CheckpointBase> extended = updates_->Extend(**base);
      if (!extended.ok()) return answer(extended.status());
      answer(std::optional<CheckpointBase>(*extended));
    });
  };
  coordination.on_failure = options_.failed;
  coordination.on_await = options_.awaits;
  coordination.seen = [this](const Event& event, const Actions& actions, TimePoint now) {
    board_->Saw(event, actions, now, UnixSeconds());
  };
  coordination.complete = [this](v1::StatusResponse* status, TimePoint now) {
    board_->Complete(status, now, UnixSeconds());
  };
  coordination.on_epoch = [this](const v1::EpochRecord& epoch) {
    store_->SetEpoch(epoch);
    updates_->SetEpoch(epoch);
    if (options_.began) options_.began(epoch);
  };
  RW_ASSIGN_OR_RETURN(coordinator_, Coordinator::Create(std::move(coordination)));
  return OkStatus();
}

}  // namespace ringwood

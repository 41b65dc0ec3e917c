#include "client/connection/epoch_link.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "base/silence.h"
#include "base/text.h"
#include "dense/collective.h"
#include "proto/access.h"
#include "proto/attachment.h"
#include "proto/store_places.h"
#include "sparse/tree.h"
#include "transport/inbox.h"

namespace ringwood {
namespace {

constexpr double kLoopSeconds = 30;      // a task on a loop of ours that does not wait for a peer
constexpr double kLeaveSeconds = 5;      // the coordinator may be gone: leaving must not hang
constexpr double kLateLeaveSeconds = 1;  // after a failure, which may be the coordinator's own
constexpr size_t kMaxFailureBytes = 16 << 10;  // of an exception: a traceback fits
constexpr double kLeastSilenceSeconds = 1;     // of a peer; what is shorter is a busy machine
constexpr double kPortsSeconds = 5;  // for the ports of the epoch before, which linger for 2 s
constexpr double kGraceSeconds = 1;  // on top of the failure timeout, for the notice to arrive

std::string LabelOf(const v1::Member& member) {
  return absl::StrFormat("%s %d (host %s)", member.role() == v1::ROLE_WORKER ? "rank" : "server",
                         member.rank(), member.host());
}

// If all ranks are on "localhost" but use a NIC, no rank was told its host (another launcher), so
// none is taken for a neighbour. Equal on all ranks, as one of them alone is never on loopback.
Hosts HostsOf(const std::vector<std::string>& names, const std::string& interface) {
  Hosts hosts = GroupByHost(names);
  const bool loopback = interface.empty() || interface == "lo";
  if (loopback || hosts.size() > 1 || names[0] != "localhost") return hosts;
  Log(LogLevel::kInfo, "which ranks share a host is not known: set RINGWOOD_HOST of each");
  return OneEach(static_cast<int>(names.size()));
}

// A narrow range of ports may have none left while those of the epoch before linger.
StatusOr<std::unique_ptr<Fabric>> MakeNextFabric(Connection* connection, bool first) {
  const TimePoint end = Now() + Seconds(first ? 0 : kPortsSeconds);
  for (;;) {
    StatusOr<std::unique_ptr<Fabric>> fabric = connection->MakeFabric();
    const StatusCode code = fabric.status().code();
    const bool none = code == StatusCode::kResourceExhausted || code == StatusCode::kUnavailable;
    if (!none || Now() >= end) return fabric;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

bool IsSignOfADeath(const Status& status) {
  return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kAborted;
}

// Whether another process's failure may be the cause, and no fault of this one.
bool MayBeOfAnother(const Status& failure) {
  return IsSignOfADeath(failure) || failure.code() == StatusCode::kDeadlineExceeded;
}

}  // namespace

StatusOr<std::unique_ptr<EpochLink>> EpochLink::Join(Connection* connection,
                                                     const SessionOptions& options) {
  const Duration timeout = Seconds(options.join_timeout_seconds);
  RW_ASSIGN_OR_RETURN(auto link, Enter(connection, options, timeout, nullptr));
  RW_RETURN_IF_ERROR(link->Connect(timeout));
  return link;
}

StatusOr<std::unique_ptr<EpochLink>> EpochLink::Enter(Connection* connection,
                                                      const SessionOptions& options,
                                                      Duration timeout, const v1::Held* held) {
  std::unique_ptr<EpochLink> link(new EpochLink(connection, options.rank));
  RW_ASSIGN_OR_RETURN(link->fabric_, MakeNextFabric(connection, held == nullptr));
  link->wire_ = link->fabric_->Wire();
  v1::JoinRequest request;
  request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
  request.set_role(v1::ROLE_WORKER);
  request.set_rank(options.rank);
  request.set_world(options.world);
  request.set_host(options.host);
  request.set_incarnation(connection->incarnation());
  request.set_fabric_address(link->fabric_->Address());
  request.set_resume(options.resume != Resume::kNo);
  request.set_or_start(options.resume == Resume::kOrStart);
  request.set_job(options.job);
  request.set_brings_reducer(options.brings_reducer);
  request.set_join_timeout_seconds(ToSeconds(timeout));
  if (held != nullptr) *request.mutable_held() = *held;
  RW_ASSIGN_OR_RETURN(link->joined_, connection->control()->Join(request, timeout));
  RW_RETURN_IF_ERROR(link->TakePlace(options));
  link->grace_ = CoordinatorGrace(options.coordinator_grace_seconds, link->elastic());
  return link;
}

// Workers are counted through in the order of their slots, without gaps; all of a fixed job are
// there, so that a worker's number is its slot.
Status EpochLink::TakePlace(const SessionOptions& options) {
  place_.rank = static_cast<int>(joined_.node());
  place_.world = joined_.elastic() ? static_cast<int>(joined_.world()) : options.world;
  std::vector<std::string> hosts(place_.world);  // by rank
  std::vector<std::string> node_hosts;
  slots_.assign(place_.world, 0);
  for (const v1::Member& member : joined_.members()) {
    place_.servers += member.role() == v1::ROLE_REDUCER;
    node_hosts.push_back(member.host());
    if (member.role() == v1::ROLE_WORKER && member.node() < hosts.size()) {
      hosts[member.node()] = member.host();
      slots_[member.node()] = static_cast<int>(member.rank());
    }
  }
  const bool moved = !joined_.elastic() && place_.rank != slot_;
  if (joined_.members_size() != place_.world + place_.servers || place_.rank >= place_.world ||
      moved) {
    return Internal(absl::StrFormat("the coordinator made rank %d node %d of %d nodes, %d servers",
                                    slot_, place_.rank, joined_.members_size(), place_.servers));
  }
  place_.hosts = HostsOf(hosts, options.network_interface);
  place_.node_hosts = HostNumbers(node_hosts);
  return OkStatus();
}

std::string EpochLink::StoreOf(uint32_t rank) const {
  const auto further = FurtherStores(joined_.members(), static_cast<size_t>(place_.world));
  const uint32_t store = StoreOfRank(rank, further.size());
  return store == 0 ? "" : further[store - 1].address;
}

bool EpochLink::Holds(int rank) const {
  const auto& holders = joined_.holders();
  return std::find(holders.begin(), holders.end(), static_cast<uint32_t>(rank)) != holders.end();
}

Status EpochLink::Connect(Duration timeout) {
  std::vector<Peer> peers;
  for (const v1::Member& member : joined_.members()) {
    peers.push_back({static_cast<int>(member.node()), LabelOf(member), member.fabric_address(),
                     member.host(), IdentityRoleOf(member.role()), static_cast<int>(member.rank()),
                     member.on_trial()});
  }
  const EpochName name{joined_.job(), joined_.epoch(), static_cast<int>(joined_.node()),
                       joined_.fabric_key()};
  const double heartbeat = joined_.heartbeat_seconds() > 0 ? joined_.heartbeat_seconds() : 1;
  Progress* const progress = connection_->progress();
  const Tally* const tally = connection_->tally();
  progress->Entered(joined_.base_step());
  const double silence = joined_.failure_timeout_seconds() > 0
                             ? joined_.failure_timeout_seconds()
                             : ToSeconds(Attendance().failure_timeout);
  // Before the data plane, so that the coordinator sees the death of everyone to whom a connection
  // stands. A failure that is announced meanwhile closes the data plane when it stands.
  attends_ = true;
  const Attendance attendance{joined_.epoch(),
                              joined_.node(),
                              connection_->incarnation(),
                              Seconds(heartbeat),
                              Seconds(silence),
                              grace_,
                              [progress, tally](v1::Beat* beat) {
                                progress->Fill(beat);
                                tally->Fill(beat->mutable_report());
                              }};
  RW_RETURN_IF_ERROR(connection_->control()->Attend(
      attendance, timeout,
      [this](const Status& failure, bool recovers) { Announce(failure, recovers); }));
  FabricLimits limits;
  limits.silence_seconds = std::max(kLeastSilenceSeconds, silence);
  limits.start_seconds = joined_.holders().empty()
                             ? std::max(limits.start_seconds, ToSeconds(timeout))
                             : ConnectWithinSeconds(silence);
  limits.needed_peers = FewestPeers(place_);
  return connection_->net()->Call(
      [this, name, peers, limits]() -> Status {
        RW_ASSIGN_OR_RETURN(transport_, fabric_->Connect(name, peers, limits));
        return OkStatus();
      },
      timeout);
}

EpochLink::~EpochLink() {
  if (attends_) connection_->control()->EndAttendance();  // no announcement from here on
  const Status ended = connection_->net()->Call(
      [this] {
        if (transport_) transport_->Close(Aborted("the session is closed"));
        device_ring_.reset();
        transport_.reset();
        fabric_.reset();
        return OkStatus();
      },
      Seconds(kLongestWaitSeconds));
  RW_CHECK(ended.ok());
}

Status EpochLink::OpenDeviceRing(const DeviceRingOptions& options) {
  return connection_->net()->Call(
      [this, options]() -> Status {
        RW_RETURN_IF_ERROR(status());
        RW_ASSIGN_OR_RETURN(device_ring_,
                            connection_->accelerator().make_ring(connection_->net(), options));
        return OkStatus();
      },
      Seconds(DeviceRing::kMakeSeconds + kLoopSeconds));
}

StatusOr<std::shared_ptr<Communicator>> EpochLink::MakeCommunicator(const std::vector<int>& ranks,
                                                                    uint32_t number) {
  if (elastic()) {
    return Refused(
        "communicators are of fixed jobs: the members of an elastic one (--elastic) change");
  }
  RW_ASSIGN_OR_RETURN(const Place place, PlaceIn(place_, ranks));
  absl::MutexLock lock(&mutex_);
  RW_RETURN_IF_ERROR(status_);
  if (number == 0) return Invalid("a communicator's number is 1 or more");
  if (!communicators_.insert(number).second) {
    return AlreadyExists(
        absl::StrFormat("this session had a communicator with the number %d", number));
  }
  return std::make_shared<Communicator>(this, place, number);
}

void EpochLink::Listen(std::function<void(const Status&)> listener) {
  absl::MutexLock lock(&mutex_);
  if (!status_.ok()) listener(status_);
  listener_ = std::move(listener);
}

Status EpochLink::status() {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void EpochLink::Announce(const Status& failure, bool recovers) {
  {
    absl::MutexLock lock(&mutex_);
    announced_ = failure;
    announced_recovers_ = recovers;
  }
  Fail(failure);
}

void EpochLink::Fail(const Status& reason) {
  absl::MutexLock lock(&mutex_);
  if (!status_.ok()) return;
  status_ = reason;
  // Posted before anyone hears of the failure, so that who drains the loops then waits for this
  // too. Once an epoch, and the caller's buffers are safe only when the transport is closed: it has
  // a place in a mailbox that is full.
  // In an elastic job a fault of this process is not told to the peers: it would be taken for
  // theirs, and they go on.
  const bool ours = elastic() && !MayBeOfAnother(reason);
  const Status told = ours ? Aborted(Message(reason)) : reason;
  connection_->net()->PostReserved([this, reason, told] {
    if (transport_) transport_->Close(told);
    if (device_ring_) (void)device_ring_->Close(reason);  // it logs what does not let go
  });
  if (listener_) listener_(reason);
}

bool EpochLink::Recovers() {
  absl::MutexLock lock(&mutex_);
  if (!joined_.elastic() || status_.ok()) return false;
  if (!announced_.ok()) return announced_recovers_;
  return MayBeOfAnother(status_);
}

Status EpochLink::Named(const Status& status) {
  const bool sign = IsSignOfADeath(status) || IsTold(status);
  absl::MutexLock lock(&mutex_);
  if (!sign) return status;
  const auto announced = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !announced_.ok() || left_;
  };
  const double moment = elastic() ? 0 : joined_.failure_timeout_seconds();
  const bool known =
      mutex_.AwaitWithTimeout(absl::Condition(&announced), absl::Seconds(moment + kGraceSeconds));
  return known && !announced_.ok() ? announced_ : status;
}

Status EpochLink::Leave(const std::string& failure) {
  {
    absl::MutexLock lock(&mutex_);
    left_ = true;
  }
  v1::LeaveRequest request;
  request.set_epoch(joined_.epoch());
  request.set_node(joined_.node());
  request.set_incarnation(connection_->incarnation());
  request.set_failed(!failure.empty());
  request.set_reason(Printable(failure, kMaxFailureBytes));
  request.set_saves(connection_->progress()->saves());
  connection_->tally()->Fill(request.mutable_report());
  return connection_->control()->Leave(request,
                                       Seconds(status().ok() ? kLeaveSeconds : kLateLeaveSeconds));
}

}  // namespace ringwood

#include "server/reducer/reducer_node.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/silence.h"
#include "plan/sparse_groups.h"
#include "plan/wire.h"
#include "server/calls/member_label.h"
#include "server/reducer/control_link.h"
#include "server/reducer/reducer_attendance.h"
#include "sparse/reducer/part.h"
#include "sparse/reducer/reducer.h"
#include "transport/inbox.h"
#include "transport/watch.h"

namespace ringwood {
namespace {

constexpr double kFirstPauseSeconds = 0.05;
constexpr double kLongestPauseSeconds = 2;
constexpr double kCloseSeconds = 10;

bool IsFinal(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kPermissionDenied:
    case StatusCode::kAlreadyExists:
    case StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

// A message that does not fit the plan, or a peer that was silent for the failure timeout, as
// against one that is gone, or what another process noticed: nobody else will say it.
bool IsOurNews(const Status& status) {
  if (IsTold(status)) return false;
  return status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kDataLoss ||
         status.code() == StatusCode::kDeadlineExceeded;
}

}  // namespace

class ReducerNode::Life {
 public:
  explicit Life(ReducerNodeOptions options)
      : options_(std::move(options)), data_("reducer"), loop_("reducer-control") {
    loop_.Post([this] { Begin(); });
  }

  ~Life() {
    (void)loop_.Call(
        [this] {
          ended_ = true;
          if (attendance_) attendance_->Leave(false, "the server is stopping");
          CloseEpoch(Aborted("the server is stopping"));
          link_.reset();  // no callback posts to loop_ afterwards
          return OkStatus();
        },
        Seconds(2 * kCloseSeconds));
  }

  void Drain() {
    loop_.PostReserved([this] {
      draining_ = true;
      if (!welcome_) EndDrained();
    });
  }
  bool drained() const { return drained_; }

 private:
  // Runs `task` on the loop if this life still is in the epoch attempt that `turn_` named.
  template <typename Task>
  void Later(uint64_t turn, Task task) {
    loop_.PostReserved([this, turn, task = std::move(task)]() mutable {
      if (turn == turn_ && !ended_) task();
    });
  }
  void Pause(std::function<void()> then) {
    loop_.After(Seconds(pause_), [this, turn = turn_, then = std::move(then)] {
      if (turn == turn_ && !ended_) then();
    });
    pause_ = std::min(2 * pause_, kLongestPauseSeconds);
  }

  void Begin();
  void Join();
  void Joined(StatusOr<v1::JoinResponse> answer);
  void Attend();
  void Connect();
  Status ConnectOn();
  void Noticed(const v1::Notice& notice);
  bool Serves(const v1::Activated& activated) const;
  Status Serve(const v1::Activated& activated);
  void Troubled(const Status& why);
  void Unheard(const std::vector<int>& nodes, const Status& why);
  void Again(const Status& why, bool at_once);
  void EndDrained();
  void CloseEpoch(const Status& why);

  const ReducerNodeOptions options_;

  // Touched only on data_.
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Reducer> reducer_;
  uint64_t memory_bound_ = 0;  // of the plan that is served; loop_ reads it while data_ is idle

  // Touched only on loop_.
  uint64_t turn_ = 0;  // counts attempts; a callback of an older one is ignored
  bool ended_ = false;
  bool draining_ = false;
  double pause_ = kFirstPauseSeconds;
  std::string address_;
  uint64_t newest_epoch_ = 0;
  v1::JoinRequest request_;                        // of the newest Join
  std::optional<v1::Held> unheard_;                // whom it did not hear in its last epoch
  std::optional<v1::JoinResponse> welcome_;        // in an epoch
  std::optional<v1::Activated> serving_;           // the plan, in an epoch
  std::unique_ptr<ControlLink> link_;              // while it joins
  std::unique_ptr<ReducerAttendance> attendance_;  // in an epoch
  // Of an elastic job's epoch that is over, until the next is joined: the coordinator takes the end
  // of its heartbeats for a death.
  std::unique_ptr<ReducerAttendance> former_;

  std::atomic<bool> drained_{false};
  Loop data_;
  Loop loop_;
};

void ReducerNode::Life::Begin() {
  StatusOr<std::unique_ptr<Fabric>> fabric = options_.make_fabric(&data_);
  if (!fabric.ok()) {
    Log(LogLevel::kError, "data_plane_failed", "no data plane: " + Message(fabric.status()));
    if (IsFinal(fabric.status())) return options_.refused(fabric.status());
    return Pause([this] { Begin(); });
  }
  address_ = (*fabric)->Address();
  auto handed = std::make_shared<std::unique_ptr<Fabric>>(*std::move(fabric));
  data_.Post([this, handed] { fabric_ = std::move(*handed); });
  Join();
}

void ReducerNode::Life::Join() {
  request_.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
  request_.set_role(v1::ROLE_REDUCER);
  request_.set_rank(static_cast<uint32_t>(options_.index));
  request_.set_host(options_.host);
  request_.set_incarnation(options_.incarnation);
  request_.set_fabric_address(address_);
  request_.set_newest_epoch_seen(newest_epoch_);
  request_.set_max_memory_bytes(options_.max_memory_bytes);
  request_.set_store_address(options_.store_address);
  request_.clear_held();
  if (unheard_) *request_.mutable_held() = *unheard_;
  if (link_ == nullptr) {
    link_ = std::make_unique<ControlLink>(options_.coordinator, options_.access,
                                          Seconds(options_.failure_timeout_seconds));
  }
  // No deadline: it is answered when the world is there, however long a checkpoint is checked
  // before. A coordinator that falls silent breaks the connection.
  link_->Join(request_, Duration::max(), [this, turn = turn_](StatusOr<v1::JoinResponse> answer) {
    Later(turn, [this, answer = std::move(answer)] { Joined(answer); });
  });
}

void ReducerNode::Life::Joined(StatusOr<v1::JoinResponse> answer) {
  if (!answer.ok()) {
    if (IsFinal(answer.status())) return options_.refused(answer.status());
    // The world is not complete yet, or the coordinator is not there yet: the fabric stays.
    if (answer.status().code() == StatusCode::kDeadlineExceeded) return Join();
    const Status refused = WhyRefused(options_.coordinator, options_.access);
    if (!refused.ok()) return options_.refused(refused);
    Log(LogLevel::kDebug, "cannot join yet: " + Message(answer.status()));
    return Pause([this] { Join(); });
  }
  pause_ = kFirstPauseSeconds;
  unheard_.reset();
  link_.reset();
  former_.reset();
  welcome_ = *std::move(answer);
  newest_epoch_ = welcome_->epoch();
  if (options_.joined) options_.joined(*welcome_);
  Attend();
}

void ReducerNode::Life::Attend() {
  ReducerAttendance::Options options{
      options_.coordinator,
      options_.access,
      Seconds(options_.failure_timeout_seconds),
      CoordinatorGrace(options_.coordinator_grace_seconds, welcome_->elastic()),
      request_,
      *welcome_};
  attendance_ = std::make_unique<ReducerAttendance>(
      &loop_, std::move(options),
      ReducerAttendance::Callbacks{[this] { Connect(); },
                                   [this](const v1::Notice& notice) { Noticed(notice); },
                                   [this](const Status& why, bool told) { Again(why, told); }});
}

// Before the data plane, so that the coordinator notices at once when this process ends: who has a
// connection to it relies on that. From here on messages of early workers are kept, up to the
// fabric's bound.
void ReducerNode::Life::Connect() {
  const Status connected = data_.Call([this] { return ConnectOn(); }, Seconds(kCloseSeconds));
  if (!connected.ok()) Troubled(connected);
}

// On data_.
Status ReducerNode::Life::ConnectOn() {
  std::vector<Peer> peers;
  for (const v1::Member& member : welcome_->members()) {
    peers.push_back({static_cast<int>(member.node()),
                     MemberLabel(member.role(), member.rank(), member.host()),
                     member.fabric_address(), member.host(), IdentityRoleOf(member.role()),
                     static_cast<int>(member.rank()), member.on_trial()});
  }
  const EpochName name{welcome_->job(), welcome_->epoch(), static_cast<int>(welcome_->node()),
                       welcome_->fabric_key()};
  FabricLimits limits;
  limits.silence_seconds = std::max(1.0, welcome_->failure_timeout_seconds());
  if (!welcome_->holders().empty()) {
    limits.start_seconds = ConnectWithinSeconds(limits.silence_seconds);
  }
  RW_ASSIGN_OR_RETURN(transport_, fabric_->Connect(name, peers, limits));
  return OkStatus();
}

void ReducerNode::Life::Noticed(const v1::Notice& notice) {
  if (notice.has_failure()) {
    const v1::Failure& failure = notice.failure();
    // Whoever failed may be silent, and answers no goodbye: not the code of an orderly end.
    return Again(Unavailable(absl::StrFormat("%s failed in epoch %d: %s",
                                             failure.who().empty() ? "the job" : failure.who(),
                                             failure.epoch(), failure.reason())),
                 true);
  }
  if (notice.has_ended()) return Again(OkStatus(), true);
  if (!notice.has_plan() || Serves(notice.plan())) return;
  serving_ = notice.plan();
  const Status served =
      data_.Call([this, plan = notice.plan()] { return Serve(plan); }, Seconds(kCloseSeconds));
  if (!served.ok()) return attendance_->Leave(true, Message(served));
  attendance_->BoundMemory(memory_bound_);
}

// A coordinator that came back tells the plan again, or an older one, if it died before anybody
// heard of the newest; which comes with the same commit then. Who serves a plan already is in the
// middle of a round.
bool ReducerNode::Life::Serves(const v1::Activated& activated) const {
  if (!serving_ || !attendance_->returned()) return false;
  const uint32_t now = GenerationOf(serving_->from_round());
  const uint32_t told = GenerationOf(activated.from_round());
  return told < now || (told == now && activated.plan().hash() == serving_->plan().hash());
}

// On data_. A second plan replaces the first between two rounds.
Status ReducerNode::Life::Serve(const v1::Activated& activated) {
  if (transport_ == nullptr) return OkStatus();  // Troubled has it
  RW_ASSIGN_OR_RETURN(const Plan plan, FromProto(activated.plan()));
  int workers = 0;
  std::vector<std::string> hosts;
  for (const v1::Member& member : welcome_->members()) {
    workers += member.role() == v1::ROLE_WORKER;
    hosts.push_back(member.host());
  }
  const TreeShape shape{.workers = workers,
                        .reducers = welcome_->members_size() - workers,
                        .fanout = static_cast<int>(plan.fanout),
                        .hosts = HostNumbers(hosts)};
  std::vector<uint64_t> elements;
  for (const v1::Tensor& tensor : activated.tensors()) elements.push_back(tensor.elements());
  RW_ASSIGN_OR_RETURN(std::vector<SparseGroup> groups, SparseGroupsOf(plan, shape, elements));
  memory_bound_ = ReducerMemoryBound(shape, static_cast<int>(welcome_->node()), groups);
  reducer_.reset();
  transport_->Withdraw(Lane::kSparse, activated.from_round());  // what the one before waited for
  reducer_ = std::make_unique<Reducer>(
      transport_.get(), shape, static_cast<int>(welcome_->node()), std::move(groups),
      [this, turn = turn_](Status status) { Later(turn, [this, status] { Troubled(status); }); });
  reducer_->Start(activated.from_round());
  return OkStatus();
}

// A peer that is gone is not news yet: it may have died, then the coordinator's notice is under way
// and names it; or all have left in order, then the end of the job is. If it says nothing within
// the time in which it must notice, the trouble is our own. What only we can know is said at once.
void ReducerNode::Life::Troubled(const Status& why) {
  if (IsOurNews(why)) {
    Log(LogLevel::kError, "tree_failed", "tree: " + Message(why));
    const std::vector<int> silent = SilentNodes(why);
    if (!silent.empty() && welcome_->elastic()) return Unheard(silent, why);
    return attendance_->Leave(true, Message(why));
  }
  Log(LogLevel::kDebug, "tree: " + Message(why));
  loop_.After(Seconds(2 * welcome_->failure_timeout_seconds()), [this, turn = turn_, why] {
    if (turn != turn_ || ended_) return;
    Log(LogLevel::kWarning, "tree_failed", "tree: " + Message(why));
    attendance_->Leave(true, Message(why));
  });
}

// As a worker does: it joins again and says whom it waited for in vain, who then stays apart.
void ReducerNode::Life::Unheard(const std::vector<int>& nodes, const Status& why) {
  unheard_.emplace();
  unheard_->set_job(welcome_->job());
  unheard_->set_epoch(welcome_->epoch());
  for (const int node : nodes) unheard_->add_silent(static_cast<uint32_t>(node));
  Again(Unavailable(Message(why)), true);
}

void ReducerNode::Life::Again(const Status& why, bool at_once) {
  if (!why.ok()) Log(LogLevel::kInfo, "epoch_left", "epoch over: " + Message(why));
  CloseEpoch(why.ok() ? Aborted("the job is over") : why);
  if (draining_) return EndDrained();
  if (at_once) return Begin();
  Pause([this] { Begin(); });
}

// In no epoch: a join that is under way is not answered any more.
void ReducerNode::Life::EndDrained() {
  ++turn_;
  link_.reset();
  drained_ = true;
}

void ReducerNode::Life::CloseEpoch(const Status& why) {
  ++turn_;
  if (attendance_) attendance_->Quiet();
  const bool elastic = welcome_ && welcome_->elastic() && !ended_;
  welcome_.reset();
  serving_.reset();
  (void)data_.Call(
      [this, why] {
        reducer_.reset();
        if (transport_ != nullptr) transport_->Close(why);
        transport_.reset();
        fabric_.reset();
        return OkStatus();
      },
      Seconds(kCloseSeconds));
  former_ = elastic ? std::move(attendance_) : nullptr;
  attendance_.reset();
}

ReducerNode::ReducerNode(ReducerNodeOptions options)
    : life_(std::make_unique<Life>(std::move(options))) {}
ReducerNode::~ReducerNode() = default;
void ReducerNode::Drain() { life_->Drain(); }
bool ReducerNode::drained() const { return life_->drained(); }

}  // namespace ringwood

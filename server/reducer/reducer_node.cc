#include "server/reducer/reducer_node.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "plan/sparse_groups.h"
#include "plan/wire.h"
#include "server/calls/member_label.h"
#include "server/reducer/control_link.h"
#include "sparse/reducer.h"

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
// against one that is gone: nobody else will say it.
bool IsOurNews(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kDataLoss ||
         status.code() == StatusCode::kDeadlineExceeded;
}

}  // namespace

class ReducerNode::Life {
 public:
  explicit Life(ReducerNodeOptions options)
      : options_(std::move(options)),
        data_("reducer"),
        loop_("reducer-control"),
        link_(std::make_unique<ControlLink>(options_.coordinator, options_.token,
                                            Seconds(options_.failure_timeout_seconds))) {
    loop_.Post([this] { Begin(); });
  }

  ~Life() {
    (void)loop_.Call(
        [this] {
          ended_ = true;
          if (welcome_) SayLeave(false, "the server is stopping");
          CloseEpoch(Aborted("the server is stopping"));
          return OkStatus();
        },
        Seconds(kCloseSeconds));
    link_.reset();  // no callback posts to loop_ afterwards
  }

 private:
  // Runs `task` on the loop if this life still is in the epoch attempt that `turn_` named.
  template <typename Task>
  void Later(uint64_t turn, Task task) {
    loop_.Post([this, turn, task = std::move(task)]() mutable {
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
  Status Connect();
  void BeatOn();
  void Noticed(const v1::Notice& notice);
  Status Serve(const v1::Activated& activated);
  void Troubled(const Status& why);
  void Again(const Status& why, bool at_once);
  void CloseEpoch(const Status& why);
  void SayLeave(bool failed, const std::string& reason);

  const ReducerNodeOptions options_;

  // Touched only on data_.
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Reducer> reducer_;

  // Touched only on loop_.
  uint64_t turn_ = 0;  // counts attempts; a callback of an older one is ignored
  bool ended_ = false;
  double pause_ = kFirstPauseSeconds;
  std::string address_;
  uint64_t newest_epoch_ = 0;
  std::optional<v1::JoinResponse> welcome_;  // in an epoch

  Loop data_;
  Loop loop_;
  std::unique_ptr<ControlLink> link_;
};

void ReducerNode::Life::Begin() {
  StatusOr<std::unique_ptr<Fabric>> fabric = options_.make_fabric(&data_);
  if (!fabric.ok()) {
    Log(LogLevel::kError, "no data plane: " + Message(fabric.status()));
    if (IsFinal(fabric.status())) return options_.refused(fabric.status());
    return Pause([this] { Begin(); });
  }
  address_ = (*fabric)->Address();
  auto handed = std::make_shared<std::unique_ptr<Fabric>>(*std::move(fabric));
  data_.Post([this, handed] { fabric_ = std::move(*handed); });
  Join();
}

void ReducerNode::Life::Join() {
  v1::JoinRequest request;
  request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
  request.set_role(v1::ROLE_REDUCER);
  request.set_rank(static_cast<uint32_t>(options_.index));
  request.set_host(options_.host);
  request.set_incarnation(options_.incarnation);
  request.set_fabric_address(address_);
  request.set_newest_epoch_seen(newest_epoch_);
  request.set_max_memory_bytes(options_.max_memory_bytes);
  // No deadline: it is answered when the world is there, however long a checkpoint is checked
  // before. A coordinator that falls silent breaks the connection.
  link_->Join(request, Duration::max(), [this, turn = turn_](StatusOr<v1::JoinResponse> answer) {
    Later(turn, [this, answer = std::move(answer)] { Joined(answer); });
  });
}

void ReducerNode::Life::Joined(StatusOr<v1::JoinResponse> answer) {
  if (!answer.ok()) {
    if (IsFinal(answer.status())) return options_.refused(answer.status());
    // The world is not complete yet, or the coordinator is not there yet: the fabric stays.
    if (answer.status().code() == StatusCode::kDeadlineExceeded) return Join();
    Log(LogLevel::kDebug, "cannot join yet: " + Message(answer.status()));
    return Pause([this] { Join(); });
  }
  pause_ = kFirstPauseSeconds;
  welcome_ = *std::move(answer);
  newest_epoch_ = welcome_->epoch();
  if (options_.joined) options_.joined(*welcome_);
  const uint64_t turn = turn_;
  link_->Attend(
      [this, turn](const v1::Notice& notice) { Later(turn, [this, notice] { Noticed(notice); }); },
      [this, turn](Status status) {
        Later(turn, [this, status] { Again(Annotate(status, "the coordinator is lost"), false); });
      });
  BeatOn();
  // From here on messages of early workers are kept, up to the fabric's bound.
  if (Status connected = data_.Call([this] { return Connect(); }, Seconds(kCloseSeconds));
      !connected.ok()) {
    Troubled(connected);
  }
}

Status ReducerNode::Life::Connect() {
  std::vector<Peer> peers;
  for (const v1::Member& member : welcome_->members()) {
    peers.push_back({static_cast<int>(member.node()),
                     MemberLabel(member.role(), member.rank(), member.host()),
                     member.fabric_address(), member.host()});
  }
  const EpochName name{welcome_->job(), welcome_->epoch(), static_cast<int>(welcome_->node())};
  FabricLimits limits;
  limits.silence_seconds = std::max(1.0, welcome_->failure_timeout_seconds());
  RW_ASSIGN_OR_RETURN(transport_, fabric_->Connect(name, peers, limits));
  return OkStatus();
}

void ReducerNode::Life::BeatOn() {
  if (!welcome_) return;
  v1::Beat beat;
  beat.set_epoch(welcome_->epoch());
  beat.set_node(welcome_->node());
  beat.set_incarnation(options_.incarnation);
  link_->Beat(beat);
  loop_.After(Seconds(welcome_->heartbeat_seconds()), [this, turn = turn_] {
    if (turn == turn_ && !ended_) BeatOn();
  });
}

void ReducerNode::Life::Noticed(const v1::Notice& notice) {
  if (notice.has_failure()) {
    const v1::Failure& failure = notice.failure();
    return Again(Aborted(absl::StrFormat("%s failed in epoch %d: %s",
                                         failure.who().empty() ? "the job" : failure.who(),
                                         failure.epoch(), failure.reason())),
                 true);
  }
  if (notice.has_ended()) return Again(OkStatus(), true);
  if (!notice.has_plan()) return;
  const Status served =
      data_.Call([this, plan = notice.plan()] { return Serve(plan); }, Seconds(kCloseSeconds));
  if (!served.ok()) SayLeave(true, Message(served));
}

// On data_. A second plan replaces the first between two rounds.
Status ReducerNode::Life::Serve(const v1::Activated& activated) {
  if (transport_ == nullptr) return OkStatus();  // Troubled has it
  RW_ASSIGN_OR_RETURN(const Plan plan, FromProto(activated.plan()));
  int workers = 0;
  for (const v1::Member& member : welcome_->members()) workers += member.role() == v1::ROLE_WORKER;
  const TreeShape shape{workers, welcome_->members_size() - workers, static_cast<int>(plan.fanout)};
  std::vector<uint64_t> elements;
  for (const v1::Tensor& tensor : activated.tensors()) elements.push_back(tensor.elements());
  RW_ASSIGN_OR_RETURN(std::vector<SparseGroup> groups, SparseGroupsOf(plan, shape, elements));
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
    Log(LogLevel::kError, "tree: " + Message(why));
    return SayLeave(true, Message(why));
  }
  Log(LogLevel::kDebug, "tree: " + Message(why));
  loop_.After(Seconds(2 * welcome_->failure_timeout_seconds()), [this, turn = turn_, why] {
    if (turn != turn_ || ended_) return;
    Log(LogLevel::kWarning, "tree: " + Message(why));
    SayLeave(true, Message(why));
  });
}

void ReducerNode::Life::SayLeave(bool failed, const std::string& reason) {
  v1::LeaveRequest leave;
  leave.set_epoch(welcome_->epoch());
  leave.set_node(welcome_->node());
  leave.set_incarnation(options_.incarnation);
  leave.set_failed(failed);
  leave.set_reason(reason);
  link_->Leave(leave, Seconds(1));
}

void ReducerNode::Life::Again(const Status& why, bool at_once) {
  if (!why.ok()) Log(LogLevel::kInfo, "epoch over: " + Message(why));
  CloseEpoch(why.ok() ? Aborted("the job is over") : why);
  if (at_once) return Begin();
  Pause([this] { Begin(); });
}

void ReducerNode::Life::CloseEpoch(const Status& why) {
  ++turn_;
  welcome_.reset();
  link_->EndAttendance();
  (void)data_.Call(
      [this, why] {
        reducer_.reset();
        if (transport_ != nullptr) transport_->Close(why);
        transport_.reset();
        fabric_.reset();
        return OkStatus();
      },
      Seconds(kCloseSeconds));
}

ReducerNode::ReducerNode(ReducerNodeOptions options)
    : life_(std::make_unique<Life>(std::move(options))) {}
ReducerNode::~ReducerNode() = default;

}  // namespace ringwood

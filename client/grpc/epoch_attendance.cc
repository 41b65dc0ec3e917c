#include "client/grpc/epoch_attendance.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/log.h"
#include "proto/call.h"

namespace ringwood {
namespace {

constexpr double kLookSeconds = 0.1;   // between two looks whether the coordinator is back
constexpr double kSettleSeconds = 1;   // for what was cancelled to end: it needs no network
constexpr double kEndSeconds = 3600;   // for the loop: the process may be stopped meanwhile
constexpr double kExplainSeconds = 1;  // on top of the failure timeout, for the stream's own end
constexpr double kLeavePause = 0.05;   // seconds between two attempts to leave
constexpr int kMostOpenedAgain = 50;   // streams whose connection was not made

Status StatusOfFailure(const v1::Failure& failure) {
  const auto code =
      failure.code() == 0 ? StatusCode::kUnavailable : static_cast<StatusCode>(failure.code());
  const bool in_order = failure.who().empty() && code == StatusCode::kAborted;
  if (in_order) return Status(code, failure.reason());
  return Status(code, absl::StrFormat("%s failed in epoch %d at step %d: %s",
                                      failure.who().empty() ? "the job" : failure.who(),
                                      failure.epoch(), failure.step(), failure.reason()));
}

// Of a member that others wait for in the same place one speaks for all.
void SayOfAttendance(const Attendance& attendance, const char* event, const std::string& text) {
  Log(attendance.node == 0 ? LogLevel::kWarning : LogLevel::kDebug, event, text);
}

}  // namespace

EpochAttendance::EpochAttendance(Options options)
    : options_(std::move(options)),
      tie_(Coordinator(), options_.attendance.grace),
      loop_("rw-beat") {
  auto line = PlainLine();
  {
    absl::MutexLock lock(&mutex_);
    line_ = line;
  }
  loop_.Post([this, line] {
    Open(line);
    BeatOn();
  });
}

EpochAttendance::~EpochAttendance() {
  Quiet();
  const Status ended = loop_.Call(
      [this] {
        reattaching_.reset();
        stream_.reset();
        return OkStatus();
      },
      Seconds(kEndSeconds));
  RW_CHECK(ended.ok());
}

Status EpochAttendance::AwaitConfirmation(Duration timeout) {
  absl::MutexLock lock(&mutex_);
  if (!mutex_.AwaitWithTimeout(absl::Condition(this, &EpochAttendance::Settled),
                               absl::FromChrono(timeout))) {
    return TimedOut(absl::StrFormat("%s did not confirm the first heartbeat in %.0f s",
                                    Coordinator(), ToSeconds(timeout)));
  }
  return tie_.over() ? tie_.why() : OkStatus();
}

Status EpochAttendance::Make(const std::string& what, Duration timeout, const Call& call) {
  const TimePoint end = Now() + timeout;
  for (;;) {
    grpc::ClientContext context;
    std::shared_ptr<Line> line;
    RW_ASSIGN_OR_RETURN(const uint64_t number, BeginCall(&context, end, what, &line));
    const grpc::Status status = call(line->stub.get(), &context);
    if (const auto made = EndCall(&context, number, end, what, status)) return *made;
  }
}

StatusOr<uint64_t> EpochAttendance::BeginCall(grpc::ClientContext* context, TimePoint end,
                                              const std::string& what,
                                              std::shared_ptr<Line>* line) {
  context->set_deadline(DeadlineIn(end - Now()));
  absl::MutexLock lock(&mutex_);
  (void)mutex_.AwaitWithTimeout(absl::Condition(this, &EpochAttendance::Settled),
                                absl::FromChrono(end - Now()));
  if (tie_.over()) return tie_.why();
  if (!tie_.attached()) return TimedOut(what + ": " + Coordinator() + " is away");
  *line = line_;
  calls_.insert(context);
  return tie_.number();
}

// What broke with the connection is explained by the end of the stream, which may be noticed later.
// With a grace a coordinator that was started again may also get the call before this member is
// attached to it, as a channel connects by itself, and calls the epoch over (kAborted).
std::optional<Status> EpochAttendance::EndCall(grpc::ClientContext* context, uint64_t number,
                                               TimePoint end, const std::string& what,
                                               const grpc::Status& status) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(context);
  if (status.ok()) return OkStatus();
  const Status answer = Annotate(FromGrpc(status), what + " at " + Coordinator());
  if (MayBeTheConnection(answer.code()) || (Looks() && answer.code() == StatusCode::kAborted)) {
    const auto moved = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !tie_.attached() || tie_.number() != number || quiet_;
    };
    const Duration explained = Looks()
                                   ? options_.attendance.failure_timeout + Seconds(kExplainSeconds)
                                   : Seconds(2 * kBreakSeconds);
    const Duration patience = std::min(explained, end - Now());
    const bool known = mutex_.AwaitWithTimeout(absl::Condition(&moved), absl::FromChrono(patience));
    if (known && !tie_.over() && !quiet_) return std::nullopt;
  }
  return tie_.over() ? tie_.why() : answer;
}

void EpochAttendance::Quiet() {
  absl::MutexLock lock(&mutex_);
  quiet_ = true;
}

grpc::Status EpochAttendance::Leave(Duration timeout, const Call& call) {
  const TimePoint end = Now() + timeout;
  std::shared_ptr<Line> line;
  bool away, over;
  {
    absl::MutexLock lock(&mutex_);
    quiet_ = true;
    line = line_;
    away = tie_.lost();
    over = tie_.over();
  }
  for (;;) {
    if (away) line = EagerLine();
    grpc::ClientContext context;
    context.set_wait_for_ready(away);
    context.set_deadline(DeadlineIn(end - Now()));
    const grpc::Status status = call(line->stub.get(), &context);
    away = !over && options_.attendance.grace > Duration::zero() &&
           status.error_code() == grpc::StatusCode::UNAVAILABLE;
    if (!away || Now() + Seconds(kLeavePause) >= end) return status;
    absl::SleepFor(absl::Seconds(kLeavePause));
  }
}

// How long silence may last is known from here on only.
std::shared_ptr<EpochAttendance::Line> EpochAttendance::PlainLine() const {
  return std::make_shared<Line>(options_.address, options_.access,
                                OwnConnection{.silence = options_.attendance.failure_timeout});
}

std::shared_ptr<EpochAttendance::Line> EpochAttendance::EagerLine() const {
  return std::make_shared<Line>(options_.address, options_.access,
                                OwnConnection{.silence = options_.attendance.failure_timeout,
                                              .reconnection = kEagerReconnection});
}

EpochAttendance::Act EpochAttendance::Took(Act act) {
  if (act == Act::kReattach || act == Act::kEnd) {
    for (grpc::ClientContext* call : calls_) call->TryCancel();
  }
  return act;
}

void EpochAttendance::Follow(Act act) {
  if (act == Act::kReattach) loop_.PostReserved([this] { Reattach(); });
  if (act != Act::kEnd) return;
  Status why;
  bool recovers;
  {
    absl::MutexLock lock(&mutex_);
    why = tie_.why();
    recovers = recovers_;
  }
  options_.failed(why, recovers);
}

void EpochAttendance::Confirmed() {
  double away = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (tie_.lost()) away = ToSeconds(Now() - lost_since_);
    tie_.Confirmed();
  }
  if (away == 0) return;
  SayOfAttendance(options_.attendance, "coordinator_back",
                  absl::StrFormat("%s is back after %.2f s: epoch %d goes on", Coordinator(), away,
                                  options_.attendance.epoch));
}

void EpochAttendance::Noticed(const v1::Notice& notice) {
  if (!notice.has_failure()) return;
  End(StatusOfFailure(notice.failure()), notice.failure().recovers());
}

void EpochAttendance::End(const Status& why, bool recovers) {
  Act act;
  {
    absl::MutexLock lock(&mutex_);
    if (quiet_) return;
    act = Took(tie_.Told(why));
    if (act == Act::kEnd) recovers_ = recovers;
  }
  Follow(act);
}

// The connection was not made, which says nothing of the coordinator.
bool EpochAttendance::OpensAgain() {
  {
    absl::MutexLock lock(&mutex_);
    if (quiet_ || tie_.over() || ++opened_again_ > kMostOpenedAgain) return false;
  }
  const auto open = [this] {
    {
      absl::MutexLock lock(&mutex_);
      if (quiet_ || tie_.over()) return;
    }
    stream_.reset();
    Open(PlainLine());
  };
  return loop_.PostReserved([this, open] { loop_.After(Seconds(kLookSeconds), open); });
}

bool EpochAttendance::Stands(const Line& line, const grpc::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (quiet_) return false;  // nobody waits for the answer
  }
  const bool decides = !Looks() && MayBeTheConnection(FromGrpc(status).code());
  return decides ? !line.Broke() : line.connected();
}

void EpochAttendance::StreamEnded(const Line& line, const grpc::Status& status) {
  if (AsksAgain(status) && OpensAgain()) return;
  const bool connected = Stands(line, status);
  Act act;
  bool again;
  {
    absl::MutexLock lock(&mutex_);
    if (quiet_) return;
    again = tie_.lost();
    if (!again) lost_since_ = Now();
    act = Took(tie_.StreamEnded(FromGrpc(status), connected, Now()));
  }
  if (act == Act::kReattach && !again) {
    SayOfAttendance(
        options_.attendance, "coordinator_lost",
        absl::StrFormat("%s is lost: looking for it for %g s, epoch %d stands", Coordinator(),
                        ToSeconds(options_.attendance.grace), options_.attendance.epoch));
  }
  Follow(act);
}

void EpochAttendance::Open(std::shared_ptr<Line> line) {
  {
    absl::MutexLock lock(&mutex_);
    line_ = line;
  }
  HeartbeatStream::Callbacks callbacks;
  callbacks.confirmed = [this] { Confirmed(); };
  callbacks.noticed = [this](const v1::Notice& notice) { Noticed(notice); };
  callbacks.ended = [this, line](const grpc::Status& status) {
    if (Looks()) return StreamEnded(*line, status);
    loop_.PostReserved([this, line, status] { StreamEnded(*line, status); });  // Broke waits
  };
  stream_ = std::make_unique<HeartbeatStream>(line->stub.get(), std::move(callbacks));
  Beat();
}

void EpochAttendance::Beat() {
  if (stream_ == nullptr) return;
  v1::Beat beat;
  beat.set_epoch(options_.attendance.epoch);
  beat.set_node(options_.attendance.node);
  beat.set_incarnation(options_.attendance.incarnation);
  if (options_.attendance.fill) options_.attendance.fill(&beat);
  stream_->Beat(beat);
}

void EpochAttendance::BeatOn() {
  loop_.After(options_.attendance.every, [this] {
    Beat();
    BeatOn();
  });
}

void EpochAttendance::Reattach() {
  stream_.reset();
  Duration pause;
  {
    absl::MutexLock lock(&mutex_);
    if (quiet_ || !tie_.lost()) return;
    pause = tie_.Pause();
  }
  if (!looking_) {
    looking_ = true;
    loop_.After(Seconds(kLookSeconds), [this] { Look(); });
  }
  loop_.After(pause, [this] { Ask(); });
}

// A commit whose answer is on its way here counts: so the calls have ended before this member says
// what it knows. They were cancelled.
void EpochAttendance::Ask() {
  if (reattaching_) return;
  v1::ReattachRequest request;
  {
    absl::MutexLock lock(&mutex_);
    const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_.empty(); };
    const bool ended =
        mutex_.AwaitWithTimeout(absl::Condition(&idle), absl::Seconds(kSettleSeconds));
    if (quiet_ || !tie_.lost()) return;
    if (!ended) return loop_.After(Seconds(kLookSeconds), [this] { Ask(); });
    request = options_.known();
  }
  const auto answered = [this] { loop_.PostReserved([this] { Answered(); }); };
  reattaching_ = std::make_unique<Reattaching>(EagerLine(), std::move(request), answered);
}

void EpochAttendance::Answered() {
  if (reattaching_ == nullptr) return;  // cancelled
  const std::unique_ptr<Reattaching> call = std::move(reattaching_);
  const Status answer = call->answer();
  Act act;
  {
    absl::MutexLock lock(&mutex_);
    if (quiet_) return;
    act = Took(tie_.Answered(answer));
  }
  if (act == Act::kAttend) return Open(call->line());
  if (act == Act::kReattach) return Reattach();
  Follow(act);
}

void EpochAttendance::Look() {
  const bool connected = (reattaching_ && reattaching_->line()->connected()) || stream_ != nullptr;
  Act act;
  bool lost;
  {
    absl::MutexLock lock(&mutex_);
    if (quiet_) return;
    act = Took(tie_.Look(connected, Now()));
    lost = tie_.lost();
  }
  looking_ = lost;
  if (lost) loop_.After(Seconds(kLookSeconds), [this] { Look(); });
  Follow(act);
}

}  // namespace ringwood

#include "client/grpc/control.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "client/grpc/coordinator_line.h"
#include "client/grpc/epoch_attendance.h"
#include "client/grpc/known_epoch.h"
#include "proto/attachment.h"
#include "proto/call.h"
#include "ringwood/v1/control.grpc.pb.h"

namespace ringwood {
namespace {

constexpr double kAgainSeconds = 0.1;    // a deployment opens a job in about so long
constexpr double kFirstWordSeconds = 3;  // of waiting for the others to join, until a line says so
constexpr double kStatusSeconds = 1;     // the question whom one waits for
constexpr double kLongestJoinSeconds = 86'400;  // far above the check of any checkpoint
constexpr double kLeastSilenceSeconds = 3;      // in which no question is answered: it hangs
constexpr double kInterruptSeconds = 0.1;       // between two looks for an interrupt

class GrpcControl : public Control {
 public:
  GrpcControl(const std::string& address, const Access& access, double grace_seconds)
      : address_(address), access_(access), grace_seconds_(grace_seconds) {
    Connect({});
  }

  StatusOr<v1::JoinResponse> Join(const v1::JoinRequest& request, Duration timeout) override {
    // The epoch before is over: its heartbeats only show that this process lives.
    if (attendance_) attendance_->Quiet();
    StatusOr<v1::JoinResponse> response = JoinWithin(request, timeout);
    RW_RETURN_IF_ERROR(response.status());
    known_.Joined(request, *response);
    return response;
  }

  Status Attend(const Attendance& attendance, Duration timeout, EpochFailed failed) override {
    EpochAttendance::Options options;
    options.address = address_;
    options.access = access_;
    options.attendance = attendance;
    options.known = [this] { return known_.request(); };
    options.failed = std::move(failed);
    {
      absl::MutexLock lock(&mutex_);
      RW_RETURN_IF_ERROR(interrupted_);
      attendance_ = std::make_unique<EpochAttendance>(std::move(options));
    }
    return attendance_->AwaitConfirmation(timeout);
  }

  void EndAttendance() override {
    std::unique_ptr<EpochAttendance> ended;  // without the lock
    absl::MutexLock lock(&mutex_);
    ended.swap(attendance_);
  }

  void Interrupt(const Status& why) override {
    absl::MutexLock lock(&mutex_);
    if (!interrupted_.ok()) return;
    interrupted_ = why;
    if (joining_ != nullptr) joining_->TryCancel();
    if (attendance_) attendance_->Interrupt(why);
  }

  StatusOr<v1::AgreeResponse> Agree(const v1::AgreeRequest& request, Duration timeout) override {
    v1::AgreeResponse response;
    RW_RETURN_IF_ERROR(Make("agree", timeout, [&](auto* stub, grpc::ClientContext* context) {
      const grpc::Status status = stub->Agree(context, request, &response);
      if (status.ok()) known_.Agreed(request, response);
      return status;
    }));
    return response;
  }

  StatusOr<v1::Commit> Vote(const v1::VoteRequest& request, Duration timeout) override {
    v1::Commit commit;
    RW_RETURN_IF_ERROR(Make("vote", timeout, [&](auto* stub, grpc::ClientContext* context) {
      const grpc::Status status = stub->Vote(context, request, &commit);
      if (status.ok()) known_.Committed(commit);
      return status;
    }));
    return commit;
  }

  Status Leave(const v1::LeaveRequest& request, Duration timeout) override {
    const auto leave = [&](v1::Coordinator::Stub* stub, grpc::ClientContext* context) {
      v1::LeaveResponse response;
      return stub->Leave(context, request, &response);
    };
    if (attendance_) return Annotate(FromGrpc(attendance_->Leave(timeout, leave)), What("leave"));
    return MakeAlone("leave", timeout, leave);
  }

 private:
  std::string What(const std::string& call) const {
    return call + " at the coordinator " + address_;
  }

  void Connect(const OwnConnection& connection) {
    line_ = std::make_unique<CoordinatorLine>(address_, access_, connection);
  }

  // Over the connection that this member attends by.
  Status Make(const std::string& what, Duration timeout, const EpochAttendance::Call& call) {
    return attendance_ ? attendance_->Make(what, timeout, call) : MakeAlone(what, timeout, call);
  }
  Status MakeAlone(const std::string& what, Duration timeout, const EpochAttendance::Call& call) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(timeout));
    return Annotate(FromGrpc(call(line_->stub.get(), &context)), What(what));
  }

  // A process that has a part of the job's state goes on trying when the coordinator dies
  // meanwhile. Another one may have waited for long, and looks for it as long as members do.
  StatusOr<v1::JoinResponse> JoinWithin(const v1::JoinRequest& request, Duration timeout) {
    TimePoint end = Now() + timeout;
    OwnConnection connection{.silence = timeout};
    if (request.has_held()) connection.reconnection = kEagerReconnection;
    Duration patience = timeout;
    bool elastic = request.has_held();
    for (;;) {
      Connect(connection);
      RW_RETURN_IF_ERROR(AwaitConnection(request.rank(), end, patience));
      elastic = elastic || AskStatus().elastic();
      // It answers a rank that waits for others when the timeout is over, and waits itself while it
      // checks a checkpoint, however large. Silence for `timeout` ends the call: of its host by the
      // connection, of the coordinator in a process that lives by Await.
      grpc::ClientContext context;
      v1::JoinResponse response;
      context.set_deadline(DeadlineIn(Seconds(kLongestJoinSeconds)));
      RW_RETURN_IF_ERROR(Joins(&context));
      const grpc::Status status = Await(&v1::Coordinator::Stub::async_interface::Join, &context,
                                        request, &response, timeout);
      const Status interrupted = Joins(nullptr);
      if (status.ok()) return response;  // who is a member attends, or leaves
      RW_RETURN_IF_ERROR(interrupted);
      if (AsksAgain(status) && Now() < end) {
        absl::SleepFor(absl::Seconds(kAgainSeconds));
        continue;
      }
      if (!request.has_held()) {
        patience = CoordinatorGrace(grace_seconds_, elastic);
        end = Now() + patience;
      }
      if (Now() >= end || !Broke(status)) return Annotate(FromGrpc(status), What("join"));
      if (request.has_held()) continue;
      connection.reconnection = kEagerReconnection;
      Log(LogLevel::kWarning, "coordinator_lost",
          absl::StrFormat("rank %d waits to join, and the coordinator at %s is lost: looking for "
                          "it for %g s",
                          request.rank(), address_, ToSeconds(patience)));
    }
  }

  // With this context, which an interrupt cancels; or why it does not.
  Status Joins(grpc::ClientContext* context) {
    absl::MutexLock lock(&mutex_);
    joining_ = interrupted_.ok() ? context : nullptr;
    return interrupted_;
  }

  Status interrupted() {
    absl::MutexLock lock(&mutex_);
    return interrupted_;
  }

  // Whether a call ended because its connection did.
  bool Broke(const grpc::Status& status) {
    return MayBeTheConnection(FromGrpc(status).code()) && line_->Broke();
  }

  // The server may start after its workers.
  Status AwaitConnection(uint32_t rank, TimePoint end, Duration timeout) {
    double patience = kFirstWordSeconds;
    for (;;) {
      if (Connects(std::min(end, Now() + Seconds(patience)))) return OkStatus();
      RW_RETURN_IF_ERROR(interrupted());
      if (Now() >= end) {
        return TimedOut(absl::StrFormat(
            "rank %d found no coordinator in %.0f s at %s: is `ringwood server` up there?", rank,
            ToSeconds(timeout), address_));
      }
      RW_RETURN_IF_ERROR(WhyRefused(address_, access_));
      SayProgress(rank);
      patience *= 3;
    }
  }

  // Until then, or an interrupt.
  bool Connects(TimePoint until) {
    do {
      const TimePoint look = std::min(until, Now() + Seconds(kInterruptSeconds));
      if (line_->channel->WaitForConnected(DeadlineIn(look - Now()))) return true;
    } while (Now() < until && interrupted().ok());
    return false;
  }

  // Waits for the answer, and says after a while, then ever more seldom, what for. One rank speaks
  // for all that wait at the same coordinator, and each gives it up that answers no question for
  // `silence`.
  template <typename Response, typename Request>
  grpc::Status Await(void (v1::Coordinator::StubInterface::async_interface::*method)(
                         grpc::ClientContext*, const Request*, Response*,
                         std::function<void(grpc::Status)>),
                     grpc::ClientContext* context, const Request& request, Response* response,
                     Duration silence) {
    const Duration longest = std::max(silence, Seconds(kLeastSilenceSeconds));
    Duration patience = std::min(silence, Seconds(kFirstWordSeconds));
    bool silent = false;
    TimePoint since;  // it is silent
    grpc::Status status;
    absl::Notification answered;
    (line_->stub->async()->*method)(context, &request, response, [&](grpc::Status answer) {
      status = std::move(answer);
      answered.Notify();
    });
    while (!answered.WaitForNotificationWithTimeout(absl::FromChrono(patience))) {
      const TimePoint asked = Now();
      if (SayProgress(request.rank())) {
        silent = false;
        patience = std::min(3 * patience, longest);
        continue;
      }
      patience = std::min(patience, longest / 8);
      if (!std::exchange(silent, true)) since = asked;
      if (Now() - since < longest) continue;
      context->TryCancel();
      answered.WaitForNotification();
      return {
          grpc::StatusCode::DEADLINE_EXCEEDED,
          absl::StrFormat("rank %d waits to join, and the coordinator has answered nothing for "
                          "%.0f s, though its connection stands: see its log and its disk, end it "
                          "if it hangs",
                          request.rank(), ToSeconds(longest))};
    }
    return status;
  }

  // Empty where it does not answer.
  v1::StatusResponse AskStatus(grpc::Status* status = nullptr) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(Seconds(kStatusSeconds)));
    v1::StatusResponse response;
    const grpc::Status asked = line_->stub->Status(&context, v1::StatusRequest(), &response);
    if (status != nullptr) *status = asked;
    return response;
  }

  // False: there was no answer.
  bool SayProgress(uint32_t rank) {
    grpc::Status status;
    const v1::StatusResponse response = AskStatus(&status);
    if (!status.ok()) {
      Log(LogLevel::kWarning, absl::StrFormat("no coordinator answers at %s yet: %s", address_,
                                              status.error_message()));
    } else if (!response.waiting_for().empty() && response.first_waiting() == rank) {
      Log(LogLevel::kWarning, response.waiting_for());
    }
    return status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED;
  }

  const std::string address_;
  const Access access_;
  const double grace_seconds_;
  // To join, and for what is called while no epoch is attended.
  std::unique_ptr<CoordinatorLine> line_;
  KnownEpoch known_;
  absl::Mutex mutex_;
  Status interrupted_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* joining_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Set on the trainer's thread, with the lock for the thread that interrupts. Last: it reads the
  // others.
  std::unique_ptr<EpochAttendance> attendance_;
};

}  // namespace

std::unique_ptr<Control> MakeGrpcControl(const std::string& address, const Access& access,
                                         double grace_seconds) {
  return std::make_unique<GrpcControl>(address, access, grace_seconds);
}

}  // namespace ringwood

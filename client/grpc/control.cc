#include "client/grpc/control.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "base/log.h"
#include "base/loop.h"
#include "client/grpc/calls.h"
#include "ringwood/v1/control.grpc.pb.h"

namespace ringwood {
namespace {

constexpr double kFirstWordSeconds = 3;  // of waiting for the others to join, until a line says so
constexpr double kStatusSeconds = 1;     // the question whom one waits for
constexpr double kLongestJoinSeconds = 86'400;  // far above the check of any checkpoint

// The heartbeat stream. gRPC's threads read notices, the beat loop writes; it deletes itself never:
// the control owns it and waits for its end.
class Stream : public grpc::ClientBidiReactor<v1::Beat, v1::Notice> {
 public:
  Stream(v1::Coordinator::Stub* stub, std::shared_ptr<grpc::Channel> channel, std::string address,
         EpochFailed failed)
      : channel_(std::move(channel)), address_(std::move(address)), failed_(std::move(failed)) {
    stub->async()->Attend(&context_, this);
    AddHold();  // Beat may come from outside until the stream ends
    StartRead(&notice_);
    StartCall();
  }

  ~Stream() override {
    ExpectEnd();
    context_.TryCancel();
    gone_.WaitForNotification();  // a cancelled call always ends, without the network
  }

  // From here on the stream's end is no failure.
  void ExpectEnd() {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }

  // Skipped while the last one is still on its way.
  void Beat(const v1::Beat& beat) {
    absl::MutexLock lock(&mutex_);
    if (ended_ || writing_) return;
    beat_ = beat;
    writing_ = true;
    StartWrite(&beat_);
  }

  // Waits until the coordinator has a heartbeat of this stream: OK, or why it ended before.
  Status AwaitConfirmation(Duration timeout) {
    absl::MutexLock lock(&mutex_);
    const auto known = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return confirmed_ || !failure_.ok();
    };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&known), absl::FromChrono(timeout))) {
      return TimedOut(
          absl::StrFormat("the coordinator at %s did not confirm the first heartbeat in %.0f s",
                          address_, ToSeconds(timeout)));
    }
    return failure_;
  }

  void OnReadInitialMetadataDone(bool ok) override {
    if (!ok) return;  // the stream's end says why
    absl::MutexLock lock(&mutex_);
    confirmed_ = true;
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      {
        absl::MutexLock lock(&mutex_);
        ended_ = true;
      }
      RemoveHold();
      return;
    }
    if (notice_.has_failure()) Fail(StatusOf(notice_.failure()), notice_.failure().recovers());
    StartRead(&notice_);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
  }

  void OnDone(const grpc::Status& status) override {
    // A connection that still stands means that the coordinator ended the stream and says why: this
    // rank came too late for the notice.
    const std::string why = status.ok() ? "no reason given" : status.error_message();
    if (!status.ok() && channel_->GetState(false) == GRPC_CHANNEL_READY) {
      Fail(Status(static_cast<StatusCode>(status.error_code()),
                  "the coordinator at " + address_ + " ended the epoch: " + why),
           true);
    } else {
      Fail(Unavailable("the coordinator at " + address_ + " is lost: " + why), true);
    }
    gone_.Notify();
  }

 private:
  static Status StatusOf(const v1::Failure& failure) {
    const auto code =
        failure.code() == 0 ? StatusCode::kUnavailable : static_cast<StatusCode>(failure.code());
    return Status(code, absl::StrFormat("%s failed in epoch %d at step %d: %s",
                                        failure.who().empty() ? "the job" : failure.who(),
                                        failure.epoch(), failure.step(), failure.reason()));
  }

  // Once, and not while the stream is being taken down.
  void Fail(const Status& failure, bool recovers) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_ || !failure_.ok()) return;
      failure_ = failure;
    }
    failed_(failure, recovers);
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::string address_;
  const EpochFailed failed_;
  grpc::ClientContext context_;  // no deadline: a stream lives as long as the membership
  v1::Notice notice_;            // touched by one read at a time
  absl::Notification gone_;
  absl::Mutex mutex_;
  v1::Beat beat_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool confirmed_ ABSL_GUARDED_BY(mutex_) = false;
  Status failure_ ABSL_GUARDED_BY(mutex_);
};

class GrpcControl : public Control {
 public:
  GrpcControl(const std::string& address, const std::string& token)
      : address_(address),
        token_(token),
        channel_(MakeChannel(address, token, std::nullopt)),
        stub_(v1::Coordinator::NewStub(channel_)) {}

  ~GrpcControl() override {
    loop_.reset();  // no beat from here on
    stream_.reset();
    calls_.Cancel(Aborted("the session is closed"));
    joining_.Cancel(Aborted("the session is closed"));
  }

  StatusOr<v1::JoinResponse> Join(const v1::JoinRequest& request, Duration timeout) override {
    channel_ = MakeChannel(address_, token_, timeout);
    stub_ = v1::Coordinator::NewStub(channel_);
    RW_RETURN_IF_ERROR(Connect(request.rank(), timeout));
    // It answers a rank that waits for others when the timeout is over, and waits itself while it
    // checks a checkpoint, however large; one that falls silent for `timeout` breaks the call.
    grpc::ClientContext context;
    v1::JoinResponse response;
    const Calls::Scope scope(&joining_, &context, Seconds(kLongestJoinSeconds));
    const grpc::Status status = Await(&v1::Coordinator::Stub::async_interface::Join, &context,
                                      request, &response, kFirstWordSeconds);
    RW_RETURN_IF_ERROR(joining_.Translate(status, What("join")));
    return response;
  }

  Status Attend(const Attendance& attendance, Duration timeout, EpochFailed failed) override {
    // How long silence may last is known from here on only.
    channel_ = MakeChannel(address_, token_, attendance.failure_timeout);
    stub_ = v1::Coordinator::NewStub(channel_);
    stream_ = std::make_unique<Stream>(
        stub_.get(), channel_, address_,
        [this, failed = std::move(failed)](const Status& failure, bool recovers) {
          failed(failure, recovers);
          calls_.Cancel(failure);
        });
    loop_ = std::make_unique<Loop>("rw-beat");
    if (!loop_->Post([this, attendance, loop = loop_.get()] { Beat(attendance, loop); })) {
      return Internal("heartbeat queue full");
    }
    return stream_->AwaitConfirmation(timeout);
  }

  void EndAttendance() override {
    loop_.reset();  // no heartbeat from here on
    stream_.reset();
    calls_.Renew();
    begun_ = false;
  }

  void Report(uint64_t step) override { step_ = step; }
  void Advance() override { ++progress_; }
  void Begun() override { begun_ = true; }

  StatusOr<v1::AgreeResponse> Agree(const v1::AgreeRequest& request, Duration timeout) override {
    return Call<v1::AgreeResponse>(&v1::Coordinator::Stub::Agree, request, timeout, "agree");
  }

  StatusOr<v1::Commit> Vote(const v1::VoteRequest& request, Duration timeout) override {
    return Call<v1::Commit>(&v1::Coordinator::Stub::Vote, request, timeout, "vote");
  }

  Status Leave(const v1::LeaveRequest& request, Duration timeout) override {
    if (stream_) stream_->ExpectEnd();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<std::chrono::microseconds>(timeout));
    v1::LeaveResponse response;
    const grpc::Status status = stub_->Leave(&context, request, &response);
    if (status.ok()) return OkStatus();
    return Status(static_cast<StatusCode>(status.error_code()),
                  What("leave") + ": " + status.error_message());
  }

 private:
  std::string What(const std::string& call) const {
    return call + " at the coordinator " + address_;
  }

  // The server may start after its workers.
  Status Connect(uint32_t rank, Duration timeout) {
    const TimePoint end = Now() + timeout;
    double patience = kFirstWordSeconds;
    for (;;) {
      const double left = std::min(patience, std::max(0.0, ToSeconds(end - Now())));
      const auto until =
          std::chrono::system_clock::now() + std::chrono::microseconds(int64_t(left * 1e6));
      if (channel_->WaitForConnected(until)) return OkStatus();
      if (Now() >= end) {
        return TimedOut(absl::StrFormat(
            "rank %d found no coordinator in %.0f s at %s: is `ringwood server` up there?", rank,
            ToSeconds(timeout), address_));
      }
      SayProgress(rank);
      patience *= 3;
    }
  }

  // Waits for the answer, and says after `patience` seconds, then ever more seldom, what for. One
  // rank speaks for all that wait at the same coordinator.
  template <typename Response, typename Request>
  grpc::Status Await(void (v1::Coordinator::StubInterface::async_interface::*method)(
                         grpc::ClientContext*, const Request*, Response*,
                         std::function<void(grpc::Status)>),
                     grpc::ClientContext* context, const Request& request, Response* response,
                     double patience) {
    grpc::Status status;
    absl::Notification answered;
    (stub_->async()->*method)(context, &request, response, [&](grpc::Status answer) {
      status = std::move(answer);
      answered.Notify();
    });
    while (!answered.WaitForNotificationWithTimeout(absl::Seconds(patience))) {
      SayProgress(request.rank());
      patience *= 3;
    }
    return status;
  }

  void SayProgress(uint32_t rank) {
    grpc::ClientContext context;
    const Calls::Scope scope(&joining_, &context, Seconds(kStatusSeconds));
    v1::StatusResponse response;
    const grpc::Status status = stub_->Status(&context, v1::StatusRequest(), &response);
    if (!status.ok()) {
      Log(LogLevel::kWarning, absl::StrFormat("no coordinator answers at %s yet: %s", address_,
                                              status.error_message()));
    } else if (!response.waiting_for().empty() && response.first_waiting() == rank) {
      Log(LogLevel::kWarning, response.waiting_for());
    }
  }

  template <typename Response, typename Request>
  StatusOr<Response> Call(grpc::Status (v1::Coordinator::Stub::*method)(grpc::ClientContext*,
                                                                        const Request&, Response*),
                          const Request& request, Duration timeout, const char* name) {
    grpc::ClientContext context;
    const Calls::Scope scope(&calls_, &context, timeout);
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    RW_RETURN_IF_ERROR(calls_.Translate(status, What(name)));
    return response;
  }

  // On `loop`, which is loop_: that is null already while its end waits for a beat.
  void Beat(const Attendance& attendance, Loop* loop) {
    v1::Beat beat;
    beat.set_epoch(attendance.epoch);
    beat.set_node(attendance.node);
    beat.set_incarnation(attendance.incarnation);
    beat.set_step(step_);
    beat.set_progress(progress_);
    beat.set_begun(begun_);
    stream_->Beat(beat);
    loop->After(attendance.every, [this, attendance, loop] { Beat(attendance, loop); });
  }

  const std::string address_;
  const std::string token_;
  std::shared_ptr<grpc::Channel> channel_;  // another one from Attend on
  std::unique_ptr<v1::Coordinator::Stub> stub_;
  Calls calls_;    // of the epoch: its failure ends them
  Calls joining_;  // on the way into one
  std::atomic<uint64_t> step_{0};
  std::atomic<uint64_t> progress_{0};
  std::atomic<bool> begun_{false};
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace

std::unique_ptr<Control> MakeGrpcControl(const std::string& address, const std::string& token) {
  return std::make_unique<GrpcControl>(address, token);
}

}  // namespace ringwood

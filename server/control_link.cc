#include "server/control_link.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "ringwood/v1/control.grpc.pb.h"

namespace ringwood {
namespace {

// gRPC promises a callback for everything that was cancelled; one that stays away this long is a
// bug.
constexpr double kCancelSeconds = 30;
// The coordinator takes more frequent pings of an idle connection for an attack.
constexpr int kLeastPingMilliseconds = 1000;

Status FromGrpc(const grpc::Status& status) {
  return Status(static_cast<StatusCode>(status.error_code()), status.error_message().c_str());
}

// Half of the silence until a ping, half of it for the answer.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, Duration silence) {
  const int half = std::max(kLeastPingMilliseconds, static_cast<int>(500 * ToSeconds(silence)));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, half);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, half);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

template <typename Request, typename Response>
struct Call {
  grpc::ClientContext context;
  Request request;
  Response response;
};

}  // namespace

// What callbacks share with the link: it lives until the last of them has run.
class ControlLink::Wire : public std::enable_shared_from_this<Wire> {
 public:
  Wire(const std::string& address, Duration silence)
      : stub_(v1::Coordinator::NewStub(MakeChannel(address, silence))) {}

  void Join(const v1::JoinRequest& request, Duration deadline,
            std::function<void(StatusOr<v1::JoinResponse>)> done) {
    auto call = std::make_shared<Call<v1::JoinRequest, v1::JoinResponse>>();
    call->request = request;
    Begin(&call->context, deadline);
    stub_->async()->Join(&call->context, &call->request, &call->response,
                         [self = shared_from_this(), call, done](grpc::Status status) {
                           status.ok() ? done(call->response) : done(FromGrpc(status));
                           self->End(&call->context);
                         });
  }

  void Leave(const v1::LeaveRequest& request, Duration deadline) {
    auto call = std::make_shared<Call<v1::LeaveRequest, v1::LeaveResponse>>();
    call->request = request;
    Begin(&call->context, deadline);
    stub_->async()->Leave(
        &call->context, &call->request, &call->response,
        [self = shared_from_this(), call](grpc::Status) { self->End(&call->context); });
  }

  void Attend(std::function<void(const v1::Notice&)> notice, std::function<void(Status)> over);
  void Beat(const v1::Beat& beat);
  void EndAttendance();

  void CancelAll() {
    EndAttendance();
    absl::MutexLock lock(&mutex_);
    for (grpc::ClientContext* context : running_) context->TryCancel();
    const bool quiet = mutex_.AwaitWithTimeout(
        absl::Condition(
            +[](std::set<grpc::ClientContext*>* running) { return running->empty(); }, &running_),
        absl::Seconds(kCancelSeconds));
    RW_CHECK(quiet);
  }

 private:
  class Stream;

  void Begin(grpc::ClientContext* context, Duration deadline) {
    context->set_wait_for_ready(true);
    if (deadline != Duration::max()) {
      context->set_deadline(
          std::chrono::system_clock::now() +
          std::chrono::duration_cast<std::chrono::system_clock::duration>(deadline));
    }
    absl::MutexLock lock(&mutex_);
    running_.insert(context);
  }
  void End(grpc::ClientContext* context) {
    absl::MutexLock lock(&mutex_);
    running_.erase(context);
  }

  const std::unique_ptr<v1::Coordinator::Stub> stub_;
  absl::Mutex mutex_;
  std::set<grpc::ClientContext*> running_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
};

// The client's end of Attend. A hold keeps gRPC from ending it between our writes.
class ControlLink::Wire::Stream : public grpc::ClientBidiReactor<v1::Beat, v1::Notice> {
 public:
  Stream(std::shared_ptr<Wire> wire, std::function<void(const v1::Notice&)> notice,
         std::function<void(Status)> over)
      : wire_(std::move(wire)), notice_(std::move(notice)), over_(std::move(over)) {}

  void Open(std::shared_ptr<Stream> self) {
    self_ = std::move(self);
    wire_->Begin(&context_, Duration::max());
    wire_->stub_->async()->Attend(&context_, this);
    AddHold();
    StartRead(&incoming_);
    StartCall();
  }
  void Beat(const v1::Beat& beat) {
    absl::MutexLock lock(&mutex_);
    if (writing_ || ended_) return;
    writing_ = true;
    outgoing_ = beat;
    StartWrite(&outgoing_);
  }
  void Stop() {
    absl::MutexLock lock(&mutex_);
    Release();
    context_.TryCancel();
  }

 private:
  void OnReadDone(bool ok) override {
    if (ok) {
      notice_(incoming_);
      return StartRead(&incoming_);
    }
    absl::MutexLock lock(&mutex_);
    Release();
  }
  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) Release();
  }
  void OnDone(const grpc::Status& status) override {
    std::shared_ptr<Stream> last = std::move(self_);
    over_(status.ok() ? Unavailable("the coordinator closed the stream") : FromGrpc(status));
    wire_->End(&context_);
  }
  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!std::exchange(ended_, true)) RemoveHold();
  }

  const std::shared_ptr<Wire> wire_;
  const std::function<void(const v1::Notice&)> notice_;
  const std::function<void(Status)> over_;
  std::shared_ptr<Stream> self_;  // until gRPC is done
  grpc::ClientContext context_;
  v1::Notice incoming_;
  absl::Mutex mutex_;
  v1::Beat outgoing_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

void ControlLink::Wire::Attend(std::function<void(const v1::Notice&)> notice,
                               std::function<void(Status)> over) {
  auto stream = std::make_shared<Stream>(shared_from_this(), std::move(notice), std::move(over));
  {
    absl::MutexLock lock(&mutex_);
    stream_ = stream;
  }
  stream->Open(stream);
}

void ControlLink::Wire::Beat(const v1::Beat& beat) {
  std::shared_ptr<Stream> stream;
  {
    absl::MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream != nullptr) stream->Beat(beat);
}

void ControlLink::Wire::EndAttendance() {
  std::shared_ptr<Stream> stream;
  {
    absl::MutexLock lock(&mutex_);
    stream = std::move(stream_);
    stream_ = nullptr;
  }
  if (stream != nullptr) stream->Stop();
}

ControlLink::ControlLink(const std::string& address, Duration silence)
    : wire_(std::make_shared<Wire>(address, silence)) {}
ControlLink::~ControlLink() { wire_->CancelAll(); }
void ControlLink::Join(const v1::JoinRequest& request, Duration deadline,
                       std::function<void(StatusOr<v1::JoinResponse>)> done) {
  wire_->Join(request, deadline, std::move(done));
}
void ControlLink::Attend(std::function<void(const v1::Notice&)> notice,
                         std::function<void(Status)> over) {
  wire_->Attend(std::move(notice), std::move(over));
}
void ControlLink::Beat(const v1::Beat& beat) { wire_->Beat(beat); }
void ControlLink::EndAttendance() { wire_->EndAttendance(); }
void ControlLink::Leave(const v1::LeaveRequest& request, Duration deadline) {
  wire_->Leave(request, deadline);
}

}  // namespace ringwood

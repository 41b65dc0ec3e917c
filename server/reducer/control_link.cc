#include "server/reducer/control_link.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_callback.h>

#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "proto/call.h"
#include "proto/own_connection.h"
#include "proto/token.h"
#include "ringwood/v1/control.grpc.pb.h"

namespace ringwood {
namespace {

// gRPC promises a callback for everything that was cancelled; one that stays away this long is a
// bug.
constexpr double kCancelSeconds = 30;

// The calls in flight: all that a callback shares with the link. Who drops the channel last waits
// for gRPC's threads, so that must not be one of them: a call counts until its context, which holds
// the channel too, is gone.
class Running {
 public:
  void Begin(grpc::ClientContext* context, Duration deadline) {
    context->set_wait_for_ready(true);
    if (deadline != Duration::max()) context->set_deadline(DeadlineIn(deadline));
    absl::MutexLock lock(&mutex_);
    contexts_.insert(context);
  }
  // It has answered, and can no longer be cancelled.
  void End(grpc::ClientContext* context) {
    absl::MutexLock lock(&mutex_);
    contexts_.erase(context);
  }
  void Count(int change) {
    absl::MutexLock lock(&mutex_);
    count_ += change;
  }

  // Returns when all calls are gone.
  void CancelAll() {
    absl::MutexLock lock(&mutex_);
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
    const bool quiet =
        mutex_.AwaitWithTimeout(absl::Condition(
                                    +[](int* count) { return *count == 0; }, &count_),
                                absl::Seconds(kCancelSeconds));
    RW_CHECK(quiet);
  }

 private:
  absl::Mutex mutex_;
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A member in front of a context, so that it goes after it.
class Counted {
 public:
  explicit Counted(std::shared_ptr<Running> running) : running_(std::move(running)) {
    running_->Count(1);
  }
  ~Counted() { running_->Count(-1); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  Running* operator->() const { return running_.get(); }

 private:
  const std::shared_ptr<Running> running_;
};

template <typename Request, typename Response>
struct Call {
  explicit Call(std::shared_ptr<Running> all) : running(std::move(all)) {}
  const Counted running;
  grpc::ClientContext context;
  Request request;
  Response response;
};

}  // namespace

class ControlLink::Connection {
 public:
  Connection(const std::string& address, const Access& access, Duration silence)
      : channel_(OpenChannel(
            address,
            OwnConnection{.silence = silence, .reconnection = kEagerReconnection}.Arguments(),
            access)),
        stub_(v1::Coordinator::NewStub(channel_)) {}

  // Then the channel goes, on this thread, and waits for gRPC's threads to be out of the callbacks.
  ~Connection() {
    EndAttendance();
    running_->CancelAll();
  }

  void Join(const v1::JoinRequest& request, Duration deadline,
            std::function<void(StatusOr<v1::JoinResponse>)> done) {
    auto call = std::make_shared<Call<v1::JoinRequest, v1::JoinResponse>>(running_);
    call->request = request;
    running_->Begin(&call->context, deadline);
    stub_->async()->Join(&call->context, &call->request, &call->response,
                         [call, done](grpc::Status status) {
                           status.ok() ? done(call->response) : done(FromGrpc(status));
                           call->running->End(&call->context);
                         });
  }

  void Reattach(const v1::ReattachRequest& request, std::function<void(const Status&)> done) {
    auto call = std::make_shared<Call<v1::ReattachRequest, v1::ReattachResponse>>(running_);
    call->request = request;
    running_->Begin(&call->context, Duration::max());
    stub_->async()->Reattach(&call->context, &call->request, &call->response,
                             [call, done](grpc::Status status) {
                               done(FromGrpc(status));
                               call->running->End(&call->context);
                             });
  }

  void Leave(const v1::LeaveRequest& request, Duration deadline) {
    auto call = std::make_shared<Call<v1::LeaveRequest, v1::LeaveResponse>>(running_);
    call->request = request;
    running_->Begin(&call->context, deadline);
    stub_->async()->Leave(&call->context, &call->request, &call->response,
                          [call](grpc::Status) { call->running->End(&call->context); });
  }

  void Attend(StreamCallbacks callbacks);
  void Beat(const v1::Beat& beat);
  void EndAttendance();
  bool connected() const { return channel_->GetState(false) == GRPC_CHANNEL_READY; }
  bool Broke() const { return ConnectionBroke(channel_.get()); }

 private:
  class Stream;

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
  const std::shared_ptr<Running> running_ = std::make_shared<Running>();
  absl::Mutex mutex_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
};

// The client's end of Attend. A hold keeps gRPC from ending it between our writes.
class ControlLink::Connection::Stream : public grpc::ClientBidiReactor<v1::Beat, v1::Notice> {
 public:
  Stream(std::shared_ptr<Running> running, StreamCallbacks callbacks)
      : running_(std::move(running)), callbacks_(std::move(callbacks)) {}

  void Open(v1::Coordinator::Stub* stub, std::shared_ptr<Stream> self) {
    self_ = std::move(self);
    running_->Begin(&context_, Duration::max());
    stub->async()->Attend(&context_, this);
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
  void OnReadInitialMetadataDone(bool ok) override {
    if (ok) callbacks_.confirmed();
  }
  void OnReadDone(bool ok) override {
    if (ok) {
      callbacks_.noticed(incoming_);
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
    callbacks_.over(status.ok() ? Unavailable("the coordinator closed the stream")
                                : FromGrpc(status));
    running_->End(&context_);
  }
  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!std::exchange(ended_, true)) RemoveHold();
  }

  const Counted running_;
  const StreamCallbacks callbacks_;
  std::shared_ptr<Stream> self_;  // until gRPC is done
  grpc::ClientContext context_;
  v1::Notice incoming_;
  absl::Mutex mutex_;
  v1::Beat outgoing_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

void ControlLink::Connection::Attend(StreamCallbacks callbacks) {
  auto stream = std::make_shared<Stream>(running_, std::move(callbacks));
  {
    absl::MutexLock lock(&mutex_);
    stream_ = stream;
  }
  stream->Open(stub_.get(), stream);
}

void ControlLink::Connection::Beat(const v1::Beat& beat) {
  std::shared_ptr<Stream> stream;
  {
    absl::MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream != nullptr) stream->Beat(beat);
}

void ControlLink::Connection::EndAttendance() {
  std::shared_ptr<Stream> stream;
  {
    absl::MutexLock lock(&mutex_);
    stream = std::move(stream_);
    stream_ = nullptr;
  }
  if (stream != nullptr) stream->Stop();
}

ControlLink::ControlLink(const std::string& address, const Access& access, Duration silence)
    : connection_(std::make_unique<Connection>(address, access, silence)) {}
ControlLink::~ControlLink() = default;
void ControlLink::Join(const v1::JoinRequest& request, Duration deadline,
                       std::function<void(StatusOr<v1::JoinResponse>)> done) {
  connection_->Join(request, deadline, std::move(done));
}
void ControlLink::Reattach(const v1::ReattachRequest& request,
                           std::function<void(const Status&)> done) {
  connection_->Reattach(request, std::move(done));
}
void ControlLink::Attend(StreamCallbacks callbacks) { connection_->Attend(std::move(callbacks)); }
void ControlLink::Beat(const v1::Beat& beat) { connection_->Beat(beat); }
bool ControlLink::connected() const { return connection_->connected(); }
bool ControlLink::Broke() const { return connection_->Broke(); }
void ControlLink::Leave(const v1::LeaveRequest& request, Duration deadline) {
  connection_->Leave(request, deadline);
}

}  // namespace ringwood

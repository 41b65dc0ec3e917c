// One Attend stream: receives heartbeats, sends notices. On gRPC's threads it only posts; the loop
// decides.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "ringwood/v1/control.grpc.pb.h"

namespace ringwood {

class MemberStream : public grpc::ServerBidiReactor<v1::Beat, v1::Notice>,
                     public std::enable_shared_from_this<MemberStream> {
 public:
  // Most notices that wait; a member gets a handful in its life.
  static constexpr size_t kMaxNotices = 16;

  struct Callbacks {
    std::function<void(const v1::Beat&)> beat;  // one at a time: Next asks for the next
    std::function<void()> broken;               // once
  };
  explicit MemberStream(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  void Open();     // keeps itself alive until gRPC is done with it
  void Next();     // the last heartbeat was handled: read the next
  void Confirm();  // its member attends by it: the client is told. Once
  void Send(const v1::Notice& notice);
  void Close(const Status& status);  // after what is being sent; idempotent

 private:
  void OnReadDone(bool ok) override;
  void OnSendInitialMetadataDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;
  void Break();
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Callbacks callbacks_;
  std::shared_ptr<MemberStream> self_;
  v1::Beat beat_;  // being read; touched by gRPC between StartRead and OnReadDone
  absl::Mutex mutex_;
  std::deque<v1::Notice> notices_ ABSL_GUARDED_BY(mutex_);  // the front one is being sent
  bool confirmed_ ABSL_GUARDED_BY(mutex_) = false;  // initial metadata are sent, or being sent
  bool confirming_ ABSL_GUARDED_BY(mutex_) = false;
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood

// The client's end of an Attend stream: heartbeats up, notices down, over one connection.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "ringwood/v1/control.grpc.pb.h"

namespace ringwood {

class HeartbeatStream : public grpc::ClientBidiReactor<v1::Beat, v1::Notice> {
 public:
  // They run on gRPC's threads.
  struct Callbacks {
    std::function<void()> confirmed;  // at most once: the coordinator has a heartbeat
    std::function<void(const v1::Notice&)> noticed;
    std::function<void(const grpc::Status&)> ended;  // once, the last
  };

  HeartbeatStream(v1::Coordinator::Stub* stub, Callbacks callbacks);
  // Cancels. No callback runs afterwards; not from one, nor under a lock that one takes.
  ~HeartbeatStream() override;

  void Beat(const v1::Beat& beat);  // skipped while the last one is still on its way

 private:
  void OnReadInitialMetadataDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const Callbacks callbacks_;
  grpc::ClientContext context_;  // no deadline: a stream lives as long as the membership
  v1::Notice notice_;            // touched by one read at a time
  absl::Notification gone_;
  absl::Mutex mutex_;
  v1::Beat beat_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ringwood

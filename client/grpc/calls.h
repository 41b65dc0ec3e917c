// Cancels gRPC calls together, with one reason.
#pragma once

#include <grpcpp/grpcpp.h>

#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/status.h"

namespace ringwood {

// The calls in flight; Cancel ends them and all later ones with one reason. Any thread.
class Calls {
 public:
  // Registers a context for as long as it lives. Sets its deadline.
  class Scope {
   public:
    Scope(Calls* calls, grpc::ClientContext* context, Duration timeout);
    ~Scope();

   private:
    Calls* const calls_;
    grpc::ClientContext* const context_;
  };

  // Ends the calls in flight, and no later ones.
  void CancelRunning();

  // Does nothing if `reason` is OK.
  void Cancel(const Status& reason);

  Status reason();  // of Cancel; OK: there was none

  // The status of a call: the reason of Cancel if there is one, else "WHAT at ADDRESS: message".
  Status Translate(const grpc::Status& status, const std::string& what);

 private:
  absl::Mutex mutex_;
  std::set<grpc::ClientContext*> active_ ABSL_GUARDED_BY(mutex_);
  Status reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood

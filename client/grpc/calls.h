// Calls that can all be cancelled with one reason, and the client's channels.
#pragma once

#include <grpcpp/grpcpp.h>

#include <optional>
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

  // Does nothing if `reason` is OK.
  void Cancel(const Status& reason);

  // The status of a call: the reason of Cancel if there is one, else "WHAT at ADDRESS: message".
  Status Translate(const grpc::Status& status, const std::string& what);

 private:
  absl::Mutex mutex_;
  std::set<grpc::ClientContext*> active_ ABSL_GUARDED_BY(mutex_);
  Status reason_ ABSL_GUARDED_BY(mutex_);
};

// Plaintext, no proxy from the environment; every call carries `token`. With `silence` the server
// is pinged, so that one that is stopped or cut off for so long (2 s at least) is noticed.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const std::string& token,
                                           std::optional<Duration> silence);

// The same for a server that may be started again: tries to connect several times a second.
std::shared_ptr<grpc::Channel> MakeEagerChannel(const std::string& address,
                                                const std::string& token,
                                                std::optional<Duration> silence);

}  // namespace ringwood

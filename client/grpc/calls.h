// What every gRPC call of the client has: a deadline, a way to end it early, and one translation of
// errors.
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

// The calls under way; Cancel ends them and all later ones with one reason. Any thread.
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

  // `reason` OK is no reason: nothing happens.
  void Cancel(const Status& reason);
  Status reason();  // OK until cancelled

  // A call's answer: the reason of Cancel where one was given, else "WHAT at ADDRESS: message".
  Status Translate(const grpc::Status& status, const std::string& what);

 private:
  absl::Mutex mutex_;
  std::set<grpc::ClientContext*> active_ ABSL_GUARDED_BY(mutex_);
  Status reason_ ABSL_GUARDED_BY(mutex_);
};

// Plaintext, no proxy from the environment; every call carries `token`. With `silence` the server
// is asked for signs of life, so that one that is stopped or cut off for so long (2 s at least) is
// found.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const std::string& token,
                                           std::optional<Duration> silence);

}  // namespace ringwood

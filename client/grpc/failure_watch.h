// What the main store says of a checkpoint while a stripe of it is on its way to a further store,
// which may stand still, or be gone without a sign: if the checkpoint fails, so does what brings
// the stripe.
#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "client/checkpoint/store_client.h"
#include "client/grpc/calls.h"
#include "ringwood/v1/store.grpc.pb.h"

namespace ringwood {

class FailureWatch {
 public:
  // `calls` can cancel it; both outlive this. Where the main store cannot be asked nothing happens.
  FailureWatch(v1::Store::Stub* main, Calls* calls, const CheckpointName& name, Duration timeout);
  ~FailureWatch();

  // To register the calls of the stripe with: they are cancelled when the checkpoint fails.
  Calls* stripe() { return &stripe_; }

 private:
  Calls stripe_;
  grpc::ClientContext context_;
  const Calls::Scope scope_;
  v1::AwaitRequest request_;
  v1::AwaitResponse response_;
  absl::Notification ended_;
};

}  // namespace ringwood

#include "client/grpc/failure_watch.h"

#include "proto/await_reason.h"

namespace ringwood {

FailureWatch::FailureWatch(v1::Store::Stub* main, Calls* calls, const CheckpointName& name,
                           Duration timeout)
    : scope_(calls, &context_, timeout) {
  request_.set_epoch(name.epoch);
  request_.set_step(name.step);
  request_.set_timeout_seconds(ToSeconds(timeout));
  main->async()->Await(&context_, &request_, &response_, [this](const grpc::Status& status) {
    const bool over = status.ok() && response_.reason() != kStripesMissing;
    if (over && !response_.complete()) stripe_.Cancel(Unavailable(response_.reason()));
    ended_.Notify();
  });
}

FailureWatch::~FailureWatch() {
  context_.TryCancel();
  // A cancelled call without data ends without the network; and any does with its connection, which
  // is given up after a silence of the store, or at its deadline.
  ended_.WaitForNotification();
}

}  // namespace ringwood

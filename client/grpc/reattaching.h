// A Reattach call in flight, over a line of its own. It waits until the coordinator is there.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "absl/synchronization/notification.h"
#include "base/status.h"
#include "client/grpc/coordinator_line.h"

namespace ringwood {

class Reattaching {
 public:
  // `answered` runs once, on one of gRPC's threads, also when the call breaks or is cancelled.
  Reattaching(std::shared_ptr<CoordinatorLine> line, v1::ReattachRequest request,
              std::function<void()> answered);
  // Cancels. No callback runs afterwards; not from it.
  ~Reattaching();

  const std::shared_ptr<CoordinatorLine>& line() const { return line_; }
  Status answer();  // once `answered` has been called

 private:
  const std::shared_ptr<CoordinatorLine> line_;
  const v1::ReattachRequest request_;
  grpc::ClientContext context_;
  v1::ReattachResponse response_;
  Status answer_;
  absl::Notification ended_;
};

}  // namespace ringwood

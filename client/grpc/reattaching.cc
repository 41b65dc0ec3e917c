#include "client/grpc/reattaching.h"

#include <utility>

#include "proto/call.h"

namespace ringwood {

Reattaching::Reattaching(std::shared_ptr<CoordinatorLine> line, v1::ReattachRequest request,
                         std::function<void()> answered)
    : line_(std::move(line)), request_(std::move(request)) {
  context_.set_wait_for_ready(true);
  line_->stub->async()->Reattach(&context_, &request_, &response_,
                                 [this, answered](const grpc::Status& status) {
                                   answer_ = FromGrpc(status);
                                   answered();
                                   ended_.Notify();
                                 });
}

Reattaching::~Reattaching() {
  context_.TryCancel();
  ended_.WaitForNotification();  // a cancelled call always ends, without the network
}

Status Reattaching::answer() {
  ended_.WaitForNotification();
  return answer_;
}

}  // namespace ringwood

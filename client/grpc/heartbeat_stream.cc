#include "client/grpc/heartbeat_stream.h"

#include <utility>

namespace ringwood {

HeartbeatStream::HeartbeatStream(v1::Coordinator::Stub* stub, Callbacks callbacks)
    : callbacks_(std::move(callbacks)) {
  stub->async()->Attend(&context_, this);
  AddHold();  // Beat may come from outside until the stream ends
  StartRead(&notice_);
  StartCall();
}

HeartbeatStream::~HeartbeatStream() {
  context_.TryCancel();
  gone_.WaitForNotification();  // a cancelled call always ends, without the network
}

void HeartbeatStream::Beat(const v1::Beat& beat) {
  absl::MutexLock lock(&mutex_);
  if (ended_ || writing_) return;
  beat_ = beat;
  writing_ = true;
  StartWrite(&beat_);
}

void HeartbeatStream::OnReadInitialMetadataDone(bool ok) {
  if (ok) callbacks_.confirmed();  // else the stream's end says why
}

void HeartbeatStream::OnReadDone(bool ok) {
  if (ok) {
    callbacks_.noticed(notice_);
    return StartRead(&notice_);
  }
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }
  RemoveHold();
}

void HeartbeatStream::OnWriteDone(bool) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
}

void HeartbeatStream::OnDone(const grpc::Status& status) {
  callbacks_.ended(status);
  gone_.Notify();
}

}  // namespace ringwood

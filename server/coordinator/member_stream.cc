#include "server/coordinator/member_stream.h"

#include <utility>

#include "server/calls/held_calls.h"

namespace ringwood {

void MemberStream::Open() {
  self_ = shared_from_this();
  StartRead(&beat_);
}

void MemberStream::Next() {
  absl::MutexLock lock(&mutex_);
  if (!finished_) StartRead(&beat_);
}

void MemberStream::OnReadDone(bool ok) {
  if (ok) return callbacks_.beat(beat_);
  Break();
  Close(OkStatus());
}

void MemberStream::Break() {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(broken_, true)) return;
  }
  callbacks_.broken();
}

// By initial metadata, which the first notice carries otherwise.
void MemberStream::Confirm() {
  absl::MutexLock lock(&mutex_);
  if (confirmed_ || finished_ || closing_) return;  // a notice or the end says it
  confirmed_ = confirming_ = true;
  StartSendInitialMetadata();
}

void MemberStream::OnSendInitialMetadataDone(bool) {
  absl::MutexLock lock(&mutex_);
  confirming_ = false;
  Advance();
}

void MemberStream::Send(const v1::Notice& notice) {
  absl::MutexLock lock(&mutex_);
  if (closing_ || notices_.size() >= kMaxNotices) return;
  notices_.push_back(notice);
  Advance();
}

void MemberStream::Close(const Status& status) {
  absl::MutexLock lock(&mutex_);
  if (closing_) return;
  closing_ = true;
  status_ = status;
  Advance();
}

void MemberStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  sending_ = false;
  notices_.pop_front();
  if (!ok) notices_.clear();
  Advance();
}

// Finish comes after the last write: gRPC takes one write at a time and nothing after Finish.
void MemberStream::Advance() {
  if (confirming_ || sending_ || finished_) return;
  if (!notices_.empty()) {
    confirmed_ = sending_ = true;
    StartWrite(&notices_.front());
  } else if (closing_) {
    finished_ = true;
    Finish(ToGrpc(status_));
  }
}

void MemberStream::OnDone() {
  Break();  // closed by us between two reads: no read is left to say so
  std::shared_ptr<MemberStream> last = std::move(self_);  // may be the last reference: ends here
}

}  // namespace ringwood

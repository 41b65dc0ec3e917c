#include "server/attendance.h"

#include <utility>

#include "server/held_calls.h"

namespace ringwood {

void Attendance::Open() {
  self_ = shared_from_this();
  StartRead(&beat_);
}

void Attendance::Next() {
  absl::MutexLock lock(&mutex_);
  if (!finished_) StartRead(&beat_);
}

void Attendance::OnReadDone(bool ok) {
  if (ok) return callbacks_.beat(beat_);
  Break();
  Close(OkStatus());
}

void Attendance::Break() {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(broken_, true)) return;
  }
  callbacks_.broken();
}

void Attendance::Send(const v1::Notice& notice) {
  absl::MutexLock lock(&mutex_);
  if (closing_ || notices_.size() >= kMaxNotices) return;
  notices_.push_back(notice);
  Advance();
}

void Attendance::Close(const Status& status) {
  absl::MutexLock lock(&mutex_);
  if (closing_) return;
  closing_ = true;
  status_ = status;
  Advance();
}

void Attendance::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  sending_ = false;
  notices_.pop_front();
  if (!ok) notices_.clear();
  Advance();
}

// Finish comes after the last write: gRPC takes one write at a time and nothing after Finish.
void Attendance::Advance() {
  if (sending_ || finished_) return;
  if (!notices_.empty()) {
    sending_ = true;
    StartWrite(&notices_.front());
  } else if (closing_) {
    finished_ = true;
    Finish(ToGrpc(status_));
  }
}

void Attendance::OnDone() {
  Break();  // closed by us between two reads: no read is left to say so
  std::shared_ptr<Attendance> last = std::move(self_);  // may be the last reference: ends here
}

}  // namespace ringwood

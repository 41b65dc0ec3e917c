#include "client/grpc/calls.h"

#include "proto/call.h"

namespace ringwood {

Calls::Scope::Scope(Calls* calls, grpc::ClientContext* context, Duration timeout)
    : calls_(calls), context_(context) {
  context->set_deadline(DeadlineIn(timeout));
  absl::MutexLock lock(&calls_->mutex_);
  calls_->active_.insert(context);
  if (!calls_->reason_.ok()) context->TryCancel();
}

Calls::Scope::~Scope() {
  absl::MutexLock lock(&calls_->mutex_);
  calls_->active_.erase(context_);
}

void Calls::Cancel(const Status& reason) {
  absl::MutexLock lock(&mutex_);
  if (!reason_.ok() || reason.ok()) return;
  reason_ = reason;
  for (grpc::ClientContext* context : active_) context->TryCancel();
}

void Calls::CancelRunning() {
  absl::MutexLock lock(&mutex_);
  for (grpc::ClientContext* context : active_) context->TryCancel();
}

Status Calls::reason() {
  absl::MutexLock lock(&mutex_);
  return reason_;
}

Status Calls::Translate(const grpc::Status& status, const std::string& what) {
  if (status.ok()) return OkStatus();
  absl::MutexLock lock(&mutex_);
  if (!reason_.ok()) return reason_;
  return Annotate(FromGrpc(status), what);
}

}  // namespace ringwood

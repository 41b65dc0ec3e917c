#include "transport/ucx/receiver.h"

#include <cstring>

#include "base/log.h"
#include "transport/ucx/rendezvous_payload.h"

namespace ringwood {

Status UcxReceiver::Start() {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                     UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  param.arg = this;
  for (const unsigned id : {kMessageId, kAnnouncementId}) {
    param.id = id;
    param.cb = id == kMessageId ? &UcxReceiver::OnMessage : &UcxReceiver::OnAnnouncement;
    const ucs_status_t status = ucp_worker_set_am_recv_handler(parts_.worker->handle(), &param);
    if (status != UCS_OK) return FromUcx(status, "set UCX's message handler");
  }
  return OkStatus();
}

ucs_status_t UcxReceiver::OnMessage(void* receiver, const void* header, size_t header_length,
                                    void* data, size_t length, const ucp_am_recv_param_t* param) {
  auto* const self = static_cast<UcxReceiver*>(receiver);
  const StatusOr<Frame> frame = ParseFrame({static_cast<const std::byte*>(header), header_length});
  if (!frame.ok() || frame->bytes != length) {
    if (self->inbox_ != nullptr) self->inbox_->CountCorrupt();
    self->parts_.refusals.Say(
        "a message was dropped: " + (frame.ok() ? "its length is wrong" : Message(frame.status())),
        Now());
    return UCS_OK;
  }
  if (self->callbacks_.note(*frame, {static_cast<const std::byte*>(data), length})) return UCS_OK;
  if (self->closed_) return UCS_OK;
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  return self->Take(*frame, data, length, rendezvous);
}

ucs_status_t UcxReceiver::Take(const Frame& frame, void* data, size_t length, bool rendezvous) {
  if (inbox_ == nullptr && queued_.size() >= kMaxBeforeJoin) {
    Log(LogLevel::kWarning, "a message was dropped: too many before the epoch was joined");
    return UCS_OK;
  }
  if (rendezvous) {
    queued_.emplace_back(frame, std::make_unique<RendezvousPayload>(&parts_.worker, data));
    return UCS_INPROGRESS;  // the descriptor stays ours
  }
  const std::span<const std::byte> payload(static_cast<const std::byte*>(data), length);
  if (inbox_ == nullptr) {
    queued_.emplace_back(frame, CopyPayload(payload));
  } else {
    if (length >= PollPacer::kLongBytes && IsStreaming()) pacer_.Arrived(Now());
    inbox_->Arrive(frame, payload);
  }
  return UCS_OK;
}

ucs_status_t UcxReceiver::OnAnnouncement(void* receiver, const void* header, size_t header_length,
                                         void* data, size_t length, const ucp_am_recv_param_t*) {
  auto* const self = static_cast<UcxReceiver*>(receiver);
  const StatusOr<Frame> frame = ParseFrame({static_cast<const std::byte*>(header), header_length});
  if (self->closed_ || self->inbox_ == nullptr) return UCS_OK;  // not joined yet, or closed
  UcxLink* const link =
      frame.ok() ? self->parts_.wiring.Find(static_cast<int>(frame->sender)) : nullptr;
  if (link == nullptr || !link->readable || length != sizeof(Announcement)) {
    self->inbox_->CountCorrupt();
    self->parts_.refusals.Say("an announcement was dropped: it is not from a process that we read",
                              Now());
    return UCS_OK;
  }
  self->callbacks_.heard(link->peer);
  Announcement announcement;
  std::memcpy(&announcement, data, sizeof announcement);
  self->TakeAnnouncement(*frame, *link, announcement);
  return UCS_OK;
}

void UcxReceiver::TakeAnnouncement(const Frame& frame, UcxLink& link,
                                   const Announcement& announcement) {
  const auto settled = [this, &link, ticket = announcement.ticket] {
    if (closed_ || link.endpoint == nullptr) return;
    parts_.sender.SendNote(link, Note::kReceipt, 0, ticket);
  };
  queued_.emplace_back(frame,
                       std::make_unique<NeighbourPayload>(link.address.pid, announcement, settled));
}

void UcxReceiver::DeliverQueued() {
  while (inbox_ != nullptr && !queued_.empty()) {
    auto [frame, incoming] = std::move(queued_.front());
    queued_.pop_front();
    inbox_->Arrive(frame, std::move(incoming));
  }
}

void UcxReceiver::Close() {
  closed_ = true;
  queued_.clear();
}

bool UcxReceiver::IsStreaming() const {
  return inbox_ != nullptr &&
         inbox_->AwaitsOnlyLong(PollPacer::kFewestAwaited, PollPacer::kLongBytes);
}

Duration UcxReceiver::Nap() {
  if (IsStreaming() && !inbox_->HasAnswers()) return pacer_.Nap();
  pacer_.Interrupt();
  return Duration::zero();
}

}  // namespace ringwood

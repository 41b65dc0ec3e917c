#include "transport/ucx/sender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace ringwood {

void UcxSender::Send(UcxLink& link, const Frame& frame, std::span<const std::byte> payload,
                     Transport::SendDone done) {
  auto outgoing =
      std::make_unique<Outgoing>(Outgoing{this, link.peer, frame, payload, std::move(done)});
  if (link.endpoint == nullptr) {
    Keep(std::move(outgoing));
  } else if (link.reads_us && payload.size() >= kLeastAnnounced) {
    Announce(link, std::move(outgoing));
  } else {
    Transmit(link, std::move(outgoing));
  }
}

void UcxSender::Keep(std::unique_ptr<Outgoing> outgoing) {
  Queue& waiting = waiting_[outgoing->peer];
  if (waiting.size() < kMaxWaiting) return waiting.push_back(std::move(outgoing));
  const Status full = Exhausted(absl::StrFormat(
      "send %s: %d messages wait for %s to connect already", ToString(NameOf(outgoing->frame)),
      kMaxWaiting, inbox_->Label(outgoing->peer)));
  inbox_->Answer([done = std::move(outgoing->done), full] { done(full); });
}

void UcxSender::Connected(UcxLink& link) {
  auto waiting = waiting_.extract(link.peer);
  if (waiting.empty()) return;
  for (auto& outgoing : waiting.mapped()) Transmit(link, std::move(outgoing));
}

void UcxSender::SendNote(UcxLink& link, Note note, uint32_t slot, uint64_t count) {
  MessageName name;
  name.lane = static_cast<Lane>(note);
  name.slot = slot;
  Transmit(link, std::make_unique<Outgoing>(
                     Outgoing{this, link.peer, inbox_->MakeFrame(name, {0, 0, count}, {})}));
}

void UcxSender::SendFarewell(UcxLink& link, const Status& reason) {
  MessageName name;
  name.lane = static_cast<Lane>(Note::kFarewell);
  auto note = std::make_unique<Outgoing>(Outgoing{this, link.peer});
  note->text = Farewell(reason);
  note->payload = std::as_bytes(std::span(note->text));
  note->frame = inbox_->MakeFrame(name, {static_cast<uint8_t>(reason.code()), 0, 0}, note->payload);
  Transmit(link, std::move(note));
}

void UcxSender::Announce(UcxLink& link, std::unique_ptr<Outgoing> outgoing) {
  const uint64_t ticket = next_ticket_++;
  auto note = std::make_unique<Outgoing>(Outgoing{this, link.peer, outgoing->frame});
  note->id = kAnnouncementId;
  note->announcement = {reinterpret_cast<uint64_t>(outgoing->payload.data()), ticket};
  note->payload = std::as_bytes(std::span(&note->announcement, 1));
  announced_.emplace(ticket, std::move(outgoing));
  Transmit(link, std::move(note));
}

void UcxSender::Transmit(UcxLink& link, std::unique_ptr<Outgoing> outgoing) {
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = &UcxSender::OnSent;
  param.user_data = outgoing.get();
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(link.endpoint, outgoing->id, &outgoing->frame, sizeof(Frame),
                      outgoing->payload.data(), outgoing->payload.size(), &param);
  if (UCS_PTR_IS_PTR(request)) {
    outgoing_.insert(outgoing.release());
  } else {
    Answer(*outgoing, UCS_PTR_STATUS(request));
  }
}

void UcxSender::OnSent(void* request, ucs_status_t status, void* outgoing) {
  const std::unique_ptr<Outgoing> done(static_cast<Outgoing*>(outgoing));
  done->sender->outgoing_.erase(done.get());
  ucp_request_free(request);
  done->sender->Answer(*done, status);
}

void UcxSender::Answer(Outgoing& outgoing, ucs_status_t status) {
  if (outgoing.done == nullptr) return;
  Status result = inbox_->reason(outgoing.peer);  // the first reason is the one that explains
  if (status == UCS_OK) {
    result = OkStatus();
  } else if (result.ok()) {
    result = Unavailable(absl::StrFormat("send %s to %s: %s", ToString(NameOf(outgoing.frame)),
                                         inbox_->Label(outgoing.peer), ucs_status_string(status)));
  }
  inbox_->Answer([done = std::exchange(outgoing.done, nullptr), result] { done(result); });
}

void UcxSender::OnReceipt(const Frame& frame) {
  const auto found = announced_.find(frame.count);
  if (found == announced_.end() || found->second->peer != static_cast<int>(frame.sender)) return;
  Answer(*found->second, UCS_OK);
  announced_.erase(found);
}

void UcxSender::Cancel(int peer) {
  if (auto waiting = waiting_.extract(peer); !waiting.empty()) {
    for (const auto& outgoing : waiting.mapped()) Answer(*outgoing, UCS_ERR_CANCELED);
  }
  std::erase_if(announced_, [&](const auto& entry) {
    if (entry.second->peer != peer) return false;
    Answer(*entry.second, UCS_ERR_CANCELED);
    return true;
  });
}

void UcxSender::CancelAll() {
  for (const auto& [peer, queue] : std::exchange(waiting_, {})) {
    for (const auto& outgoing : queue) Answer(*outgoing, UCS_ERR_CANCELED);
  }
  for (const auto& [ticket, outgoing] : std::exchange(announced_, {})) {
    Answer(*outgoing, UCS_ERR_CANCELED);
  }
  for (Outgoing* outgoing : outgoing_) Answer(*outgoing, UCS_ERR_CANCELED);
}

void UcxSender::Forget() {
  for (Outgoing* outgoing : std::exchange(outgoing_, {})) delete outgoing;
}

bool UcxSender::HasLeft(Note note) const {
  return std::none_of(outgoing_.begin(), outgoing_.end(), [note](const Outgoing* outgoing) {
    return outgoing->frame.lane == static_cast<uint8_t>(note);
  });
}

std::set<int> UcxSender::AwaitedToConnect() const {
  std::set<int> peers;
  for (const auto& [peer, queue] : waiting_) peers.insert(peers.end(), peer);
  return peers;
}

}  // namespace ringwood

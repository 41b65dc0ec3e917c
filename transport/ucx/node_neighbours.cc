// UcxNode's half that speaks with processes of the same host, see neighbour.h.
//
//     reader ── hello ──► sender            once: "I can read your memory"
//     reader ◄── announcement ── sender     in place of a long payload
//     reader ── receipt ──► sender          the payload has been read: its memory is free
#include <cstring>

#include "base/log.h"
#include "transport/ucx/neighbour.h"
#include "transport/ucx/node.h"

namespace ringwood {

void UcxNode::FindNeighbours(const std::vector<Peer>& peers) {
  std::string host;
  for (const Peer& peer : peers) {
    if (peer.node == self_) host = peer.host;
  }
  for (const Peer& peer : peers) {
    if (peer.node == self_ || host.empty() || peer.host != host) continue;
    Link& link = links_.at(peer.node);
    link.readable = HasCookie(link.address.pid, link.address.cookie, link.address.client);
    if (link.readable) continue;
    Log(LogLevel::kDebug, "the memory of " + peer.label + " cannot be read, TCP carries all: is " +
                              "CAP_SYS_PTRACE or kernel.yama.ptrace_scope=0 missing?");
  }
}

void UcxNode::Greet(Link& link) {
  if (link.endpoint != nullptr) SendNote(link, kHelloLane, link.readable ? 1 : 0, 0);
}

void UcxNode::Announce(Link& link, std::unique_ptr<Outgoing> outgoing) {
  const uint64_t ticket = next_ticket_++;
  auto note = std::make_unique<Outgoing>(
      Outgoing{this, outgoing->peer, outgoing->frame, {}, nullptr, kAnnouncementId, {}});
  note->announcement = {reinterpret_cast<uint64_t>(outgoing->payload.data()), ticket};
  note->payload = std::as_bytes(std::span(&note->announcement, 1));
  announced_.emplace(ticket, std::move(outgoing));
  Transmit(link, std::move(note));
}

void UcxNode::OnReceipt(const Frame& frame) {
  const auto found = announced_.find(frame.count);
  if (found == announced_.end() || found->second->peer != static_cast<int>(frame.sender)) return;
  Sent(std::move(found->second), UCS_OK);
  announced_.erase(found);
}

void UcxNode::DropAnnounced(int peer) {
  for (auto it = announced_.begin(); it != announced_.end();) {
    if (peer != kEverybody && it->second->peer != peer) {
      ++it;
      continue;
    }
    Sent(std::move(it->second), UCS_ERR_CANCELED);
    it = announced_.erase(it);
  }
}

ucs_status_t UcxNode::OnAnnouncement(void* node, const void* header, size_t header_length,
                                     void* data, size_t length, const ucp_am_recv_param_t*) {
  auto* const self = static_cast<UcxNode*>(node);
  const StatusOr<Frame> frame = ParseFrame({static_cast<const std::byte*>(header), header_length});
  if (self->closed_ || self->inbox_ == nullptr) return UCS_OK;  // nobody was greeted, or it is over
  const auto found =
      frame.ok() ? self->links_.find(static_cast<int>(frame->sender)) : self->links_.end();
  if (found == self->links_.end() || !found->second.readable || length != sizeof(Announcement)) {
    self->inbox_->CountCorrupt();
    self->refusals_.Say("an announcement was dropped: it is not from a process that we read",
                        Now());
    return UCS_OK;
  }
  if (self->watch_) self->watch_->Heard(found->first, Now());
  Announcement announcement;
  std::memcpy(&announcement, data, sizeof announcement);
  Link* const link = &found->second;
  self->queued_.emplace_back(*frame,
                             std::make_unique<NeighbourPayload>(
                                 link->address.pid, announcement, [self, link, announcement] {
                                   if (self->closed_ || link->endpoint == nullptr) return;
                                   self->SendNote(*link, kReceiptLane, 0, announcement.ticket);
                                 }));
  return UCS_OK;
}

}  // namespace ringwood

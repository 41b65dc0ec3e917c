// Outgoing messages: kept until the peer has connected, then while UCX reads them; announced
// payloads until the peer has read them. Every send is answered once, through the inbox. On the
// loop's thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "transport/inbox.h"
#include "transport/ucx/link.h"
#include "transport/ucx/neighbour.h"

namespace ringwood {

class UcxSender {
 public:
  // Most messages kept for a peer that has not connected yet. Callers have a few chunks of a few
  // lanes in flight, never thousands, and the peer would keep no more of them (its inbox).
  static constexpr size_t kMaxWaiting = Inbox::kMaxEarly;

  void Join(Inbox* inbox) { inbox_ = inbox; }

  // Announces a long payload to a peer that reads our memory; keeps messages for a peer that has
  // not connected yet until Connected.
  void Send(UcxLink& link, const Frame& frame, std::span<const std::byte> payload,
            Transport::SendDone done);
  void Connected(UcxLink& link);
  // To a link with an endpoint.
  void SendNote(UcxLink& link, Note note, uint32_t slot, uint64_t count = 0);
  void SendFarewell(UcxLink& link, const Status& reason);

  // The peer has read an announced payload.
  void OnReceipt(const Frame& frame);

  // The peer is gone: answers what waits for it. UCX completes by itself what it already has.
  void Cancel(int peer);
  // Answers everything, also messages that UCX has not completed. UCX may still point to those, so
  // they stay until Forget, when the worker is gone.
  void CancelAll();
  void Forget();

  bool idle() const { return outgoing_.empty() && announced_.empty() && waiting_.empty(); }
  bool HasLeft(Note note) const;           // no such note is in UCX's hands
  std::set<int> AwaitedToConnect() const;  // peers that messages wait for

 private:
  struct Outgoing {  // one message; UCX reads frame and payload until it completes
    UcxSender* sender = nullptr;
    int peer = 0;
    Frame frame = {};
    std::span<const std::byte> payload = {};
    Transport::SendDone done = nullptr;  // null: a note, or answered already
    unsigned id = kMessageId;
    Announcement announcement = {};  // the payload, where it is one
    std::string text = {};           // the payload, where it is one
  };
  using Queue = std::deque<std::unique_ptr<Outgoing>>;

  static void OnSent(void* request, ucs_status_t status, void* outgoing);

  void Keep(std::unique_ptr<Outgoing> outgoing);  // until its peer has connected
  void Transmit(UcxLink& link, std::unique_ptr<Outgoing> outgoing);
  void Announce(UcxLink& link, std::unique_ptr<Outgoing> outgoing);
  void Answer(Outgoing& outgoing, ucs_status_t status);

  Inbox* inbox_ = nullptr;
  std::map<int, Queue> waiting_;                             // by peer, until it has connected
  std::set<Outgoing*> outgoing_;                             // owned; not yet completed by UCX
  std::map<uint64_t, std::unique_ptr<Outgoing>> announced_;  // by ticket, until the receipt
  uint64_t next_ticket_ = 0;
};

}  // namespace ringwood

// Matches arriving messages with receives, in either order; every transport has one.
//
//     Receive ──► posted_ ─┐                    ┌─► copied or fetched into the receive buffer,
//                          ├─ same (peer, name) ┤   length, type, codec, count, checksum checked
//     arrival ──► early_ ──┘                    └─► done
//
// No callback runs inside a call: answers wait in a queue that the transport drains between two
// rounds of progress (RunAnswers), so none runs inside the network library. One thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "transport/fabric.h"

namespace ringwood {

// A payload that has arrived, or was announced and waits on the sender's side. Destroyed without
// Fetch: dropped.
class IncomingPayload {
 public:
  virtual ~IncomingPayload() = default;
  virtual uint64_t HeldBytes() const = 0;  // memory it occupies here until it is fetched
  // The payload is still in the sender's memory, which the sender may reuse once it has left the
  // epoch.
  virtual bool IsSenders() const { return false; }
  // Once. Moves the payload into `into` (exactly its length); `done` runs at once or later. The
  // object may be destroyed when `done` runs, not before.
  virtual void Fetch(std::span<std::byte> into, std::function<void(Status)> done) = 0;
};

// An incoming payload that owns a copy of `payload`.
std::unique_ptr<IncomingPayload> CopyPayload(std::span<const std::byte> payload);

// Whether peers are told why a node closes: yes for wrong messages and for a silent peer. Of other
// ends (an orderly one, a death, the coordinator's decision) they learn the same way as this node.
bool TellsPeers(const Status& reason);
// The reason as it is sent to peers, short and printable, and as the status that they read. The
// text of a peer is made printable again.
std::string Farewell(const Status& reason);
Status ReadFarewell(uint8_t code, std::span<const std::byte> text, const std::string& from);
// Whether a peer said it, which tells the coordinator by itself.
bool IsTold(const Status& status);

class Inbox {
 public:
  // Most announcements kept of one peer, whatever their size: it has a few chunks of a few lanes in
  // flight, never thousands.
  static constexpr size_t kMaxEarly = 1 << 16;

  Inbox(const EpochName& name, const std::vector<Peer>& peers, const FabricLimits& limits);

  void Post(int peer, const MessageName& name, const Content& content, const ReceiveBuffer& buffer,
            Transport::ReceiveDone done);

  // Transport::Withdraw; early messages of those rounds are dropped with them.
  void Withdraw(Lane lane, uint64_t round);

  // A message whose payload is valid during the call. If its length differs from the frame's, the
  // sender fails.
  void Arrive(const Frame& frame, std::span<const std::byte> payload);
  // A message whose payload can be fetched later.
  void Arrive(const Frame& frame, std::unique_ptr<IncomingPayload> incoming);

  // `peer` is gone: its pending receives and all later ones are answered with `reason`, except for
  // messages that had already arrived, and are not in its memory.
  void Fail(int peer, const Status& reason);
  // The epoch has ended: waiting and later receives are answered with `reason`, early messages are
  // dropped. Receives that are being fetched are answered with it when that stops, or by Abandon.
  void Close(const Status& reason);
  // Fetching has stopped: receives that are still being fetched are answered. Their payloads live
  // as long as the inbox, because the network library may still use them.
  void Abandon();

  // Queues an answer behind those already waiting.
  void Answer(std::function<void()> answer) { answers_.push_back(std::move(answer)); }
  bool HasAnswers() const { return !answers_.empty(); }
  bool RunAnswers();  // runs those queued at the call; true if any ran

  // The frame that stands before `payload` in a message from this node.
  Frame MakeFrame(const MessageName& name, const Content& content, const Payload& payload) const;

  bool IsPeer(int node) const { return labels_.count(node) != 0 && node != name_.self; }
  std::string Label(int node) const;
  Status reason(int peer) const;  // why `peer`, or the whole epoch, cannot be reached; OK if it can
  // At least `count` messages are awaited, all of a known length of at least `bytes`.
  bool AwaitsOnlyLong(size_t count, uint64_t bytes) const;
  std::set<int> Awaited() const;  // peers from which a message is awaited or being fetched
  bool HasPending() const { return !posted_.empty() || !fetching_.empty(); }
  void CountSent(uint64_t bytes) { counters_.sent_bytes += bytes; }
  void CountCorrupt() { ++counters_.corrupt_frames; }
  const TransportCounters& counters() const { return counters_; }

 private:
  using Key = std::pair<int, MessageName>;
  struct Posted {
    Content content;
    ReceiveBuffer buffer;
    Transport::ReceiveDone done;
  };
  struct Early {
    Frame frame;
    std::unique_ptr<IncomingPayload> incoming;
  };
  struct Stash {  // one peer's part of early_
    uint64_t bytes = 0;
    size_t messages = 0;
    bool over = false;  // it ran ahead too far, and has failed: nothing more of it is kept
  };
  struct Fetching {
    Frame frame;
    Posted posted;
    std::unique_ptr<IncomingPayload> incoming;
  };

  void Unstash(int peer, const Early& early);
  bool IsCurrent(const Frame& frame);
  Status Compare(const Frame& frame, const Posted& posted) const;
  void StartFetch(const Frame& frame, Posted posted, std::unique_ptr<IncomingPayload> incoming);
  // `senders`: the payload was read from the sender's memory.
  Status Take(const Frame& frame, const Posted& posted, std::span<const std::byte> payload,
              bool senders = false);
  void Finish(const Frame& frame, Posted posted, const Status& status);
  void Refuse(Posted posted, const Status& status, const Frame& frame);

  const EpochName name_;
  const FabricLimits limits_;
  std::map<int, std::string> labels_;
  std::map<Key, Posted> posted_;
  std::map<Key, Early> early_;
  std::map<uint64_t, Fetching> fetching_;
  uint64_t next_fetch_ = 0;
  std::map<int, Stash> stashes_;
  std::map<int, Status> gone_;
  Status closed_;
  std::deque<std::function<void()>> answers_;
  TransportCounters counters_;
};

}  // namespace ringwood

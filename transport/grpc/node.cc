#include "transport/grpc/node.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/net/endpoint.h"
#include "base/random.h"
#include "transport/descriptors.h"
#include "transport/grpc/piece.h"

namespace ringwood {

Status GrpcNode::Start(const std::string& ip) {
  RW_ASSIGN_OR_RETURN(
      listener_,
      OpenGrpcListener(ip, options_, [loop = loop_, weak = weak_from_this()](uint64_t number) {
        loop->PostReserved([weak, number] {
          if (const auto self = weak.lock()) self->Incoming(number);
        });
      }));
  number_ = Unpredictable() | 1;  // never 0
  address_ = absl::StrFormat("grpc %s %016x", ToString({ip, listener_->port()}), number_);
  return OkStatus();
}

Status GrpcNode::Connect(const EpochName& name, const std::vector<Peer>& peers,
                         const FabricLimits& limits) {
  if (closed_) return Refused("the fabric is closed");
  name_ = name;
  inbox_ = std::make_unique<Inbox>(name, peers, limits);
  // Two of a pair, where both call at the same time.
  const auto room = ReserveConnections({2 * peers.size(), limits.needed_peers, kDescriptorsEach});
  if (!room.ok()) return Annotate(room.status(), inbox_->Label(name.self));
  most_ = *room;
  for (const Peer& peer : peers) {
    if (peer.node == name.self) continue;
    Way& way = ways_[peer.node];
    char endpoint[64] = {};
    if (std::sscanf(peer.address.c_str(), "grpc %63s %16" SCNx64, endpoint, &way.number) != 2) {
      return Invalid(peer.label + ": this is no address of a gRPC data plane: \"" +
                     peer.address.substr(0, 60) + "\"; do all processes use the same transport?");
    }
    way.peer = peer;
    way.endpoint = endpoint;
  }
  StartWatch(peers, limits);
  for (const auto& [id, stranger] : std::map<uint64_t, Stranger>(strangers_)) {
    if (!stranger.hello.empty()) Greeted(id, stranger.hello);
  }
  return OkStatus();
}

Status GrpcNode::CanConnect(int peer) const {
  return links_.size() < most_ ? OkStatus() : NoRoomFor(inbox_->Label(peer), links_.size());
}

Status GrpcNode::Call(int peer, Way* way) {
  if (const Status full = CanConnect(peer); !full.ok()) {
    FailPeer(peer, full);
    return full;
  }
  const Hello hello{{name_.job, name_.epoch, name_.self}, peer, number_, way->number};
  GrpcStream* const stream = listener_->Call(way->endpoint, way->peer);
  const uint64_t id = next_id_++;
  Begin(stream, id);
  NewLink(peer, way, id, stream)->SayHello(MakePiece(PieceKind::kHello, SignHello(hello, Key())));
  return OkStatus();
}

// What is sent to a peer stays on the link that was there first, so that it arrives in order. Where
// both nodes call at the same time each keeps to its own call, and there are two: nothing has to be
// agreed on.
GrpcLink* GrpcNode::NewLink(int peer, Way* way, uint64_t id, GrpcStream* stream) {
  GrpcLink* const link = &links_.try_emplace(id, peer, inbox_.get(), stream).first->second;
  if (way->link == nullptr) way->link = link;
  return link;
}

// A stream has at most one event of each kind under way, so the reserved places suffice. An event
// that is lost would leave its link waiting for ever.
void GrpcNode::Begin(GrpcStream* stream, uint64_t id) {
  const auto post = [loop = loop_, weak = weak_from_this()](auto act) {
    loop->PostReserved([weak, act = std::move(act)] {
      const auto self = weak.lock();
      if (self != nullptr && !self->closed_) act(*self);
    });
  };
  StreamEvents events;
  events.arrived = [post, id](std::vector<std::byte> piece) {
    post([id, piece = std::move(piece)](GrpcNode& node) { node.Arrived(id, piece); });
  };
  events.written = [post, id](bool ok) {
    post([id, ok](GrpcNode& node) { node.Written(id, ok); });
  };
  events.gone = [post, id](std::string why) {
    post([id, why = std::move(why)](GrpcNode& node) { node.Gone(id, why); });
  };
  stream->Start(std::move(events));
  stream->Read();
}

void GrpcNode::Incoming(uint64_t number) {
  if (closed_) return;
  GrpcStream* const stream = listener_->Claim(number);
  if (stream == nullptr) return;
  const uint64_t id = next_id_++;
  strangers_[id].stream = stream;
  Begin(stream, id);
  loop_->After(Seconds(kHelloSeconds), [weak = weak_from_this(), id] {
    const auto self = weak.lock();
    const bool silent =
        self != nullptr && self->strangers_.count(id) != 0 && self->strangers_.at(id).hello.empty();
    if (silent) self->Greeted(id, {});
  });
  if (strangers_.size() > GrpcListener::kMaxUnclaimed) {
    strangers_.erase(id);
    stream->Release();
  }
}

void GrpcNode::Arrived(uint64_t id, const std::vector<std::byte>& piece) {
  if (strangers_.count(id) != 0) {
    const bool hello = piece.size() == 1 + kHelloBytes && IsPiece(piece, PieceKind::kHello);
    if (!hello) return Greeted(id, {});
    return Greeted(id, std::vector<std::byte>(piece.begin() + 1, piece.end()));
  }
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  const int peer = found->second.peer();
  const Status status = found->second.Arrived(piece);
  Heard(peer);
  if (!status.ok()) {
    const bool farewell = IsPiece(piece, PieceKind::kFarewell);
    if (!farewell) inbox_->CountCorrupt();
    FailPeer(peer, farewell ? status : Annotate(status, inbox_->Label(peer)));
  }
  Schedule();
}

void GrpcNode::Written(uint64_t id, bool ok) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  found->second.Written(ok);
  if (found->second.ended()) return Gone(id, *found->second.over());
  Schedule();
}

// Before Connect the hello is kept and nothing more is read. An empty `hello`: none came.
void GrpcNode::Greeted(uint64_t id, std::vector<std::byte> hello) {
  if (inbox_ == nullptr && !hello.empty()) {
    strangers_[id].hello = std::move(hello);
    return;
  }
  GrpcStream* const stream = strangers_[id].stream;
  strangers_.erase(id);
  const int peer = ClaimedNode(hello);
  const auto found = ways_.find(peer);
  if (found != ways_.end() && stream->Caller()) {
    const Peer& claimed = found->second.peer;
    const Status other = IsMeant(*stream->Caller(), claimed.role, claimed.slot);
    if (!other.ok()) {
      refusals_.Say("a data connection was refused: " + Message(other), Now());
      return stream->Release();
    }
  }
  if (found != ways_.end() && !found->second.came && inbox_->reason(peer).ok() &&
      IsHello(hello, {{name_.job, name_.epoch, peer}, name_.self, found->second.number, number_},
              Key())) {
    found->second.came = true;
    if (const Status full = CanConnect(peer); !full.ok()) {
      stream->Release();
      FailPeer(peer, full);
      return Schedule();
    }
    NewLink(peer, &found->second, id, stream)->Welcome();
    return Heard(peer);
  }
  refusals_.Say(hello.empty()
                    ? "a connection that did not say who it is was ended"
                    : "the connection of a node that is not awaited, or has another key, was "
                      "refused",
                Now());
  stream->Release();
}

void GrpcNode::Send(int peer, const MessageName& name, const Content& content,
                    const Payload& payload, Transport::SendDone done) {
  RW_CHECK(inbox_ != nullptr);
  Status lost = inbox_->reason(peer);
  if (lost.ok() && !inbox_->IsPeer(peer)) {
    lost = Invalid(absl::StrFormat("node %d is no peer of this epoch", peer));
  }
  Way* const way = lost.ok() ? &ways_.at(peer) : nullptr;
  if (way != nullptr && way->link == nullptr) lost = Call(peer, way);
  if (lost.ok()) lost = way->link->CanSend();
  if (!lost.ok()) {
    lost = Annotate(lost, "send " + ToString(name) + " to " + inbox_->Label(peer));
    inbox_->Answer([done = std::move(done), lost] { done(lost); });
    return Schedule();
  }
  inbox_->CountSent(sizeof(Frame) + payload.bytes.size());
  way->link->Send(inbox_->MakeFrame(name, content, payload), payload.bytes, std::move(done));
}

void GrpcNode::Receive(int peer, const MessageName& name, const Content& content,
                       const ReceiveBuffer& buffer, Transport::ReceiveDone done) {
  inbox_->Post(peer, name, content, buffer, std::move(done));
  Schedule();
}

void GrpcNode::Withdraw(Lane lane, uint64_t round) {
  inbox_->Withdraw(lane, round);
  Schedule();
}

// A peer that closes or dies ends all its links. What it sent on one of them, or the outcome of our
// write there, may be reported after the end of another, which therefore waits a moment.
void GrpcNode::Gone(uint64_t id, const std::string& why) {
  if (const auto found = strangers_.find(id); found != strangers_.end()) {
    found->second.stream->Release();
    strangers_.erase(found);
    return;
  }
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  found->second.Over(why);
  const int peer = found->second.peer();
  const bool more = std::any_of(links_.begin(), links_.end(), [peer](const auto& entry) {
    return entry.second.peer() == peer && !entry.second.ended();
  });
  if (!more) return Lose(id, why);
  loop_->After(Seconds(kOtherLinkSeconds), [weak = weak_from_this(), id, why] {
    const auto self = weak.lock();
    if (self != nullptr && !self->closed_) self->Lose(id, why);
  });
}

void GrpcNode::Lose(uint64_t id, const std::string& why) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  const int peer = found->second.peer();
  const Status reason = Unavailable(inbox_->Label(peer) + ": " + why);
  // A peer that had answered could be reached: only one that never did is accused.
  FailPeer(peer, HasHeard(peer) ? reason : Accusing(reason, {peer}));
  Schedule();
}

bool GrpcNode::HasHeard(int peer) const {
  return std::any_of(links_.begin(), links_.end(), [peer](const auto& entry) {
    return entry.second.peer() == peer && entry.second.heard();
  });
}

void GrpcNode::FailPeer(int peer, const Status& reason) {
  inbox_->Fail(peer, reason);
  if (watch_) watch_->Forget(peer);
  ways_.at(peer).link = nullptr;
  for (auto& [id, link] : links_) {
    if (link.peer() == peer) link.Fail(reason);
  }
  std::erase_if(links_, [&](const auto& entry) { return entry.second.peer() == peer; });
}

void GrpcNode::Close(const Status& reason) {
  if (closed_) return;
  closed_ = true;
  for (const auto& [id, stranger] : std::exchange(strangers_, {})) stranger.stream->Release();
  const Status why = reason.ok() ? Aborted("the epoch was closed") : reason;
  if (inbox_ != nullptr) inbox_->Close(why);
  std::vector<std::byte> farewell;
  if (TellsPeers(reason)) {
    const std::string text = static_cast<char>(reason.code()) + Farewell(reason);
    farewell = MakePiece(PieceKind::kFarewell, std::as_bytes(std::span(text)));
  }
  for (auto& [id, link] : links_) link.Close(why, farewell);
  if (inbox_ != nullptr) inbox_->Abandon();
  while (inbox_ != nullptr && inbox_->RunAnswers()) {
  }
  if (listener_ != nullptr) listener_->Close(kCloseSeconds);
}

void GrpcNode::StartWatch(const std::vector<Peer>& peers, const FabricLimits& limits) {
  if (limits.silence_seconds <= 0) return;
  watch_.emplace(WatchLimits{Seconds(limits.silence_seconds), Seconds(limits.start_seconds)},
                 name_.self, peers, Now());
  LookOn();
}

void GrpcNode::LookOn() {
  loop_->After(watch_->interval(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->closed_) return;
    self->Look();
    self->LookOn();
  });
}

void GrpcNode::Look() {
  std::set<int> awaited = inbox_->Awaited();
  for (const auto& [id, link] : links_) {
    if (!link.heard() && link.waiting()) awaited.insert(link.peer());  // its connection
  }
  const Watch::Decision decision = watch_->Look(Now(), awaited);
  for (const int peer : decision.ask) Ask(peer);
  for (const Watch::Failed& failed : decision.failed) {
    const auto label = [this](int node) { return inbox_->Label(node); };
    FailPeer(failed.peer, watch_->Reason(failed, label));
  }
  Schedule();
}

// While our own call is unanswered, a call by the peer does not show that we can reach it.
void GrpcNode::Heard(int peer) {
  if (watch_ && ways_.at(peer).link->heard()) watch_->Heard(peer, Now());
}

// An answered hello is a sign of life too.
void GrpcNode::Ask(int peer) {
  if (!inbox_->reason(peer).ok()) return;
  Way& way = ways_.at(peer);
  if (way.link != nullptr) return way.link->Ask();
  (void)Call(peer, &way);
}

void GrpcNode::Schedule() {
  if (scheduled_ || inbox_ == nullptr || !inbox_->HasAnswers()) return;
  scheduled_ = loop_->PostReserved([self = shared_from_this()] {
    self->scheduled_ = false;
    self->inbox_->RunAnswers();
    self->Schedule();
  });
}

TransportCounters GrpcNode::Counters() const {
  if (inbox_ == nullptr) return {};
  TransportCounters counters = inbox_->counters();
  counters.connections = std::count_if(links_.begin(), links_.end(),
                                       [](const auto& entry) { return !entry.second.over(); });
  return counters;
}

}  // namespace ringwood

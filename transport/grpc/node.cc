#include "transport/grpc/node.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "transport/descriptors.h"

namespace ringwood {
namespace {

enum Kind : uint8_t {
  kHello = 1,
  kStart = 2,
  kMore = 3,
  kTaken = 4,
  kAsk = 5,
  kLife = 6,
  kFarewell = 7
};

constexpr size_t kDataBytes = kPieceBytes - sizeof(Frame) - 1;  // of a message in one piece

// One byte of kind, then the number.
std::vector<std::byte> Numbered(Kind kind, uint64_t number) {
  std::vector<std::byte> piece(1 + sizeof number);
  piece[0] = static_cast<std::byte>(kind);
  std::memcpy(piece.data() + 1, &number, sizeof number);
  return piece;
}

// One byte of kind, then the bytes.
std::vector<std::byte> Carrying(Kind kind, std::span<const std::byte> bytes) {
  std::vector<std::byte> piece(1 + bytes.size());
  piece[0] = static_cast<std::byte>(kind);
  std::copy(bytes.begin(), bytes.end(), piece.begin() + 1);
  return piece;
}

StatusOr<uint64_t> NumberIn(std::span<const std::byte> body) {
  uint64_t number = 0;
  if (body.size() != sizeof number) return Corrupt("a piece has the wrong length");
  std::memcpy(&number, body.data(), sizeof number);
  return number;
}

}  // namespace

Status GrpcNode::Start(const std::string& ip) {
  RW_ASSIGN_OR_RETURN(
      listener_,
      OpenGrpcListener(ip, options_, [loop = loop_, weak = weak_from_this()](uint64_t number) {
        loop->Post([weak, number] {
          if (const auto self = weak.lock()) self->Incoming(number);
        });
      }));
  client_ = Unpredictable() | 1;  // never 0
  address_ = absl::StrFormat("grpc %s:%d %016x", ip, listener_->port(), client_);
  return OkStatus();
}

Status GrpcNode::Connect(const EpochName& name, const std::vector<Peer>& peers,
                         const FabricLimits& limits) {
  if (closed_) return Refused("the fabric is closed");
  RW_RETURN_IF_ERROR(ReserveDescriptors(peers.size(), kDescriptorsOfAPeer));
  name_ = name;
  inbox_ = std::make_unique<Inbox>(name, peers, limits);
  for (const Peer& peer : peers) {
    if (peer.node == name.self) continue;
    Link& link = links_[peer.node];
    char endpoint[64] = {};
    if (std::sscanf(peer.address.c_str(), "grpc %63s %16" SCNx64, endpoint, &link.client) != 2) {
      return Invalid(peer.label + ": this is no address of a gRPC data plane: \"" +
                     peer.address.substr(0, 60) + "\"; do all processes use the same transport?");
    }
    link.endpoint = endpoint;
  }
  for (auto& [node, link] : links_) {
    if (node < name.self) continue;  // it calls us
    link.hello_due = true;
    link.stream = listener_->Call(link.endpoint);
    link.stream_id = next_id_++;
    Begin(link.stream, link.stream_id);
    Pump(link);
  }
  for (const auto& [id, stranger] : std::map<uint64_t, Stranger>(strangers_)) {
    if (!stranger.hello.empty()) Greeted(id, stranger.hello);
  }
  StartWatch(limits);
  return OkStatus();
}

void GrpcNode::Begin(GrpcStream* stream, uint64_t id) {
  const auto post = [loop = loop_, weak = weak_from_this()](auto act) {
    loop->Post([weak, act = std::move(act)] {
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

int GrpcNode::PeerOf(uint64_t id) const {
  for (const auto& [node, link] : links_) {
    if (link.stream != nullptr && link.stream_id == id) return node;
  }
  return -1;
}

void GrpcNode::Arrived(uint64_t id, const std::vector<std::byte>& piece) {
  if (strangers_.count(id) != 0) {
    const bool hello =
        piece.size() == 1 + kHelloBytes && piece[0] == static_cast<std::byte>(kHello);
    if (!hello) return Greeted(id, {});
    return Greeted(id, std::vector<std::byte>(piece.begin() + 1, piece.end()));
  }
  const int peer = PeerOf(id);
  if (peer < 0) return;
  Link& link = links_.at(peer);
  link.heard = true;
  if (watch_) watch_->Heard(peer, Now());
  const Status status = Take(peer, link, piece);
  if (status.ok()) {
    link.stream->Read();
    Pump(link);
  } else {
    const bool farewell = !piece.empty() && piece[0] == static_cast<std::byte>(kFarewell);
    if (!farewell) inbox_->CountCorrupt();
    FailLink(peer, link, farewell ? status : Annotate(status, inbox_->Label(peer)));
  }
  Schedule();
}

void GrpcNode::Written(uint64_t id, bool ok) {
  const int peer = PeerOf(id);
  if (peer < 0) return;
  Link& link = links_.at(peer);
  if (!ok) return;  // the stream is about to be gone
  link.writing = false;
  AnswerLeaving(link);
  Pump(link);
  Schedule();
}

void GrpcNode::AnswerLeaving(Link& link) {
  for (Outgoing& message : std::exchange(link.leaving, {})) {
    inbox_->Answer([done = std::move(message.done)] { done(OkStatus()); });
  }
}

Hello GrpcNode::HelloOf(int caller, int called) const {
  const auto number = [this](int node) {
    return node == name_.self ? client_ : links_.at(node).client;
  };
  return {{name_.job, name_.epoch, caller}, called, number(caller), number(called)};
}

// Before Connect the hello is kept and nothing more is read. An empty one is none.
void GrpcNode::Greeted(uint64_t id, std::vector<std::byte> hello) {
  if (inbox_ == nullptr && !hello.empty()) {
    strangers_[id].hello = std::move(hello);
    return;
  }
  GrpcStream* const stream = strangers_[id].stream;
  strangers_.erase(id);
  const auto found = links_.find(ClaimedNode(hello));
  if (found != links_.end() && found->first < name_.self && found->second.stream_id == 0 &&
      IsHello(hello, HelloOf(found->first, name_.self), options_.token)) {
    Link& link = found->second;
    link.stream = stream;
    link.stream_id = id;
    link.heard = true;
    link.life_due = true;
    if (watch_) watch_->Heard(found->first, Now());
    stream->Read();
    return Pump(link);
  }
  refusals_.Say(hello.empty()
                    ? "a connection that did not say who it is was ended"
                    : "the connection of a node that is not awaited, or has another token, was "
                      "refused",
                Now());
  stream->Release();
}

Status GrpcNode::Take(int peer, Link& link, std::span<const std::byte> piece) {
  if (piece.empty()) return Corrupt("an empty piece arrived");
  const std::span<const std::byte> body = piece.subspan(1);
  switch (static_cast<Kind>(piece[0])) {
    case kStart:
      RW_RETURN_IF_ERROR(TakeStart(peer, link, body));
      link.taken += body.size();
      break;
    case kMore:
      if (link.assembly == nullptr || body.empty() || !link.assembly->Add(body)) {
        return Corrupt("a piece arrived that belongs to no message");
      }
      link.taken += body.size();
      break;
    case kTaken: {
      RW_ASSIGN_OR_RETURN(const uint64_t taken, NumberIn(body));
      if (taken < link.taken_by_peer || taken > link.sent) return Corrupt("it took what was not");
      link.taken_by_peer = taken;
      break;
    }
    case kAsk:
      link.life_due = true;
      return OkStatus();
    case kLife:
      return OkStatus();
    case kFarewell:
      if (body.empty()) return Corrupt("a farewell without a reason arrived");
      return ReadFarewell(std::to_integer<uint8_t>(body[0]), body.subspan(1), inbox_->Label(peer));
    default:
      return Corrupt("a piece of an unknown kind arrived");
  }
  if (link.assembly != nullptr && link.assembly->complete()) link.assembly.reset();
  return OkStatus();
}

Status GrpcNode::TakeStart(int peer, Link& link, std::span<const std::byte> body) {
  if (body.size() < sizeof(Frame)) return Corrupt("a message without a whole frame arrived");
  RW_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(body.first(sizeof(Frame))));
  const std::span<const std::byte> data = body.subspan(sizeof(Frame));
  if (link.assembly != nullptr || data.size() > frame.bytes) {
    return Corrupt("a message began inside another, or is longer than its frame announced");
  }
  if (frame.sender != static_cast<uint32_t>(peer)) {
    return Corrupt(absl::StrFormat("it sends in the name of node %d", frame.sender));
  }
  if (data.size() == frame.bytes) {
    inbox_->Arrive(frame, data);
    return OkStatus();
  }
  if (data.size() < kDataBytes) return Corrupt("a message's first piece is not a full one");
  link.assembly = std::make_shared<Assembly>(frame.bytes);
  inbox_->Arrive(frame, MakeAssemblyPayload(link.assembly, frame.bytes));
  link.assembly->Add(data);
  return OkStatus();
}

void GrpcNode::Send(int peer, const MessageName& name, const Content& content,
                    const Payload& payload, Transport::SendDone done) {
  RW_CHECK(inbox_ != nullptr);
  Status lost = inbox_->reason(peer);
  if (lost.ok() && !inbox_->IsPeer(peer)) {
    lost = Invalid(absl::StrFormat("node %d is no peer of this epoch", peer));
  }
  if (lost.ok() && links_.at(peer).queue.size() >= kMaxQueued) {
    lost = Exhausted(absl::StrFormat("%d messages wait already", kMaxQueued));
  }
  if (!lost.ok()) {
    lost = Annotate(lost, "send " + ToString(name) + " to " + inbox_->Label(peer));
    inbox_->Answer([done = std::move(done), lost] { done(lost); });
    return Schedule();
  }
  inbox_->CountSent(sizeof(Frame) + payload.bytes.size());
  Link& link = links_.at(peer);
  link.queue.push_back({inbox_->MakeFrame(name, content, payload), payload.bytes, std::move(done)});
  Pump(link);
}

// One piece at a time: who we are, then what we have taken, then a message.
void GrpcNode::Pump(Link& link) {
  if (link.stream == nullptr || link.writing) return;
  const bool ended = link.assembly == nullptr && link.taken != link.taken_said;
  if (link.hello_due) {
    link.hello_due = false;
    link.writing = true;
    const auto peer = std::find_if(links_.begin(), links_.end(),
                                   [&](const auto& entry) { return &entry.second == &link; });
    link.stream->Write(
        Carrying(kHello, SignHello(HelloOf(name_.self, peer->first), options_.token)), {});
  } else if (link.life_due) {
    link.life_due = false;
    link.writing = true;
    link.stream->Write(Numbered(kLife, 0), {});
  } else if (link.ask_due) {
    link.ask_due = false;
    link.writing = true;
    link.stream->Write(Numbered(kAsk, 0), {});
  } else if (ended || link.taken - link.taken_said >= kTakenBytes) {
    link.taken_said = link.taken;
    link.writing = true;
    link.stream->Write(Numbered(kTaken, link.taken), {});
  } else if (!link.queue.empty() && link.sent - link.taken_by_peer < kWindowBytes) {
    WriteMessage(link);
  }
}

void GrpcNode::WriteMessage(Link& link) {
  Outgoing& message = link.queue.front();
  const std::span<const std::byte> data = message.payload.subspan(
      link.offset, std::min<size_t>(kDataBytes, message.payload.size() - link.offset));
  std::byte head[1 + sizeof(Frame)] = {static_cast<std::byte>(link.begun ? kMore : kStart)};
  if (!link.begun) std::memcpy(head + 1, &message.frame, sizeof(Frame));
  const size_t head_bytes = link.begun ? 1 : sizeof head;
  link.writing = true;
  link.begun = true;
  link.offset += data.size();
  link.sent += head_bytes - 1 + data.size();
  link.stream->Write({head, head_bytes}, data);
  if (link.offset < message.payload.size()) return;
  link.leaving.push_back(std::move(message));
  link.queue.pop_front();
  link.offset = 0;
  link.begun = false;
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

void GrpcNode::Gone(uint64_t id, const std::string& why) {
  if (const auto found = strangers_.find(id); found != strangers_.end()) {
    found->second.stream->Release();
    strangers_.erase(found);
    return;
  }
  const int peer = PeerOf(id);
  if (peer < 0) return;
  FailLink(peer, links_.at(peer), Unavailable(inbox_->Label(peer) + ": " + why));
  Schedule();
}

void GrpcNode::FailLink(int peer, Link& link, const Status& reason) {
  inbox_->Fail(peer, reason);
  if (watch_) watch_->Forget(peer);
  if (link.stream != nullptr) std::exchange(link.stream, nullptr)->Release();
  for (auto* sends : {&link.leaving, &link.queue}) {
    for (Outgoing& message : *sends) {
      const Status lost = Annotate(reason, "send " + ToString(NameOf(message.frame)));
      inbox_->Answer([done = std::move(message.done), lost] { done(lost); });
    }
    sends->clear();
  }
  if (link.assembly != nullptr) std::exchange(link.assembly, nullptr)->Fail(reason);
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
    farewell = Carrying(kFarewell, std::as_bytes(std::span(text)));
  }
  for (auto& [node, link] : links_) {
    AnswerLeaving(link);  // the stream ends after it
    if (link.stream != nullptr && link.heard && !farewell.empty()) {
      std::exchange(link.stream, nullptr)->Release(farewell);
    }
    FailLink(node, link, why);
  }
  if (inbox_ != nullptr) inbox_->Abandon();
  while (inbox_ != nullptr && inbox_->RunAnswers()) {
  }
  if (listener_ != nullptr) listener_->Close(kCloseSeconds);
}

void GrpcNode::StartWatch(const FabricLimits& limits) {
  if (limits.silence_seconds <= 0) return;
  std::vector<int> peers;
  for (const auto& [node, link] : links_) peers.push_back(node);
  watch_.emplace(WatchLimits{Seconds(limits.silence_seconds), Seconds(limits.start_seconds)}, peers,
                 Now());
  for (const auto& [node, link] : links_) {
    if (link.heard) watch_->Heard(node, Now());  // its hello came before Connect
  }
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
  for (const auto& [node, link] : links_) {
    if (!link.heard && !link.queue.empty()) awaited.insert(node);  // its connection
  }
  const Watch::Decision decision = watch_->Look(Now(), awaited);
  for (const int peer : decision.ask) {
    Link& link = links_.at(peer);
    link.ask_due = link.stream != nullptr;
    Pump(link);
  }
  for (const Watch::Failed& failed : decision.failed) {
    FailLink(failed.peer, links_.at(failed.peer),
             watch_->Reason(
                 failed, [this](int node) { return inbox_->Label(node); }, name_.self));
  }
  Schedule();
}

void GrpcNode::Schedule() {
  if (scheduled_ || inbox_ == nullptr || !inbox_->HasAnswers()) return;
  scheduled_ = loop_->Post([self = shared_from_this()] {
    self->scheduled_ = false;
    self->inbox_->RunAnswers();
    self->Schedule();
  });
}

TransportCounters GrpcNode::Counters() const {
  return inbox_ != nullptr ? inbox_->counters() : TransportCounters{};
}

}  // namespace ringwood

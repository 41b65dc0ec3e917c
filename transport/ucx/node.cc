#include "transport/ucx/node.h"

#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "transport/descriptors.h"

namespace ringwood {
namespace {

// Farewells leave at once unless messages are queued before them; on a dead link they never do.
constexpr double kFarewellSeconds = 0.1;

}  // namespace

UcxNode::UcxNode(Loop* loop, std::unique_ptr<UcxWorker> worker)
    : loop_(loop),
      worker_(std::move(worker)),
      wiring_(worker_.get(), &refusals_, WiringCallbacks()),
      receiver_({worker_, wiring_, sender_, refusals_}, ReceiverCallbacks()) {}

UcxNode::~UcxNode() {
  Close(Aborted("the node was destroyed"));
  Dispose();
}

UcxWiring::Callbacks UcxNode::WiringCallbacks() {
  const auto connected = [this](UcxLink& link) {
    sender_.SendNote(link, Note::kHello, link.readable ? 1 : 0);
    sender_.Connected(link);
  };
  return {connected, [this](UcxLink& link, const Status& reason) { Lost(link, reason); }};
}

UcxReceiver::Callbacks UcxNode::ReceiverCallbacks() {
  const auto note = [this](const Frame& frame, std::span<const std::byte> payload) {
    return TakeNote(frame, payload);
  };
  return {note, [this](int peer) {
            if (watch_) watch_->Heard(peer, Now());
          }};
}

Status UcxNode::Start(const std::string& ip, const PortRange& ports) {
  RW_RETURN_IF_ERROR(receiver_.Start());
  RW_RETURN_IF_ERROR(wiring_.Listen(ip, ports));
  loop_->Attach(this);
  attached_ = true;
  return OkStatus();
}

Status UcxNode::Connect(const EpochName& name, const std::vector<Peer>& peers,
                        const FabricLimits& limits) {
  if (closed_) return Refused("the fabric is closed");
  self_ = name.self;
  inbox_ = std::make_unique<Inbox>(name, peers, limits);
  const auto room = ReserveConnections({peers.size(), peers.size(), kDescriptorsEach});
  if (!room.ok()) return Annotate(room.status(), inbox_->Label(self_));
  sender_.Join(inbox_.get());
  receiver_.Join(inbox_.get());
  RW_RETURN_IF_ERROR(wiring_.Join(self_, peers, inbox_.get()));
  StartWatch(peers, limits);
  wiring_.ConnectToHigher();
  wiring_.AcceptRequests();
  receiver_.DeliverQueued();
  return OkStatus();
}

void UcxNode::Send(int peer, const MessageName& name, const Content& content,
                   const Payload& payload, Transport::SendDone done) {
  RW_CHECK(inbox_ != nullptr);
  Status lost = inbox_->reason(peer);
  if (lost.ok() && !inbox_->IsPeer(peer)) {
    lost = Invalid(absl::StrFormat("node %d is no peer of this epoch", peer));
  }
  if (!lost.ok()) {
    lost = Annotate(lost, "send " + ToString(name) + " to " + inbox_->Label(peer));
    inbox_->Answer([done = std::move(done), lost] { done(lost); });
    RunAnswersSoon();
    return;
  }
  inbox_->CountSent(sizeof(Frame) + payload.bytes.size());
  sender_.Send(*wiring_.Find(peer), inbox_->MakeFrame(name, content, payload), payload.bytes,
               std::move(done));
}

void UcxNode::Receive(int peer, const MessageName& name, const Content& content,
                      const ReceiveBuffer& buffer, Transport::ReceiveDone done) {
  RW_CHECK(inbox_ != nullptr);
  inbox_->Post(peer, name, content, buffer, std::move(done));
  RunAnswersSoon();
}

void UcxNode::Withdraw(Lane lane, uint64_t round) {
  inbox_->Withdraw(lane, round);
  RunAnswersSoon();
}

bool UcxNode::Progress() {
  // A bounded number of rounds, so that one busy worker cannot starve the loop's tasks.
  constexpr int kRounds = 64;
  const std::shared_ptr<UcxNode> self = shared_from_this();  // an answer may drop the last owner
  bool any = false;
  for (int i = 0; i < kRounds && worker_->Progress(); ++i) any = true;
  wiring_.AcceptRequests();
  receiver_.DeliverQueued();
  wiring_.CloseBroken();
  if (inbox_ != nullptr) any |= inbox_->RunAnswers();
  return any;
}

bool UcxNode::Arm() {
  if (inbox_ != nullptr && inbox_->HasAnswers()) return false;
  return worker_->Arm();
}

void UcxNode::RunAnswersSoon() {
  if (!closed_ || scheduled_ || !inbox_->HasAnswers()) return;
  scheduled_ = loop_->PostReserved([self = shared_from_this()] {
    self->scheduled_ = false;
    self->inbox_->RunAnswers();
    self->RunAnswersSoon();
  });
}

void UcxNode::Lost(UcxLink& link, const Status& reason) {
  inbox_->Fail(link.peer, reason);
  if (watch_) watch_->Forget(link.peer);
  sender_.Cancel(link.peer);
}

// Also while closing: our goodbye is answered then, and we answer those of others.
bool UcxNode::TakeNote(const Frame& frame, std::span<const std::byte> payload) {
  const auto note = static_cast<Note>(frame.lane);
  if (note == Note::kFarewell) {
    OnFarewell(frame, payload);
    return true;
  }
  UcxLink* const link = wiring_.Find(static_cast<int>(frame.sender));
  if (link != nullptr) link->heard = true;
  if (watch_) watch_->Heard(static_cast<int>(frame.sender), Now());
  switch (note) {
    case Note::kGoodbye:
    case Note::kHello:
    case Note::kReceipt:
    case Note::kAsk:
      if (link != nullptr) OnNote(note, frame, *link);
      return true;
    default:
      return false;
  }
}

void UcxNode::OnNote(Note note, const Frame& frame, UcxLink& link) {
  const bool reachable = link.endpoint != nullptr;
  if (note == Note::kHello) {
    link.reads_us = frame.slot == 1;
  } else if (note == Note::kReceipt) {
    if (!closed_) sender_.OnReceipt(frame);
  } else if (note == Note::kAsk) {
    if (frame.slot == 0 && !closed_ && reachable) sender_.SendNote(link, Note::kAsk, 1);
  } else if (frame.slot == 1) {
    link.parted = true;
  } else if (reachable) {
    sender_.SendNote(link, Note::kGoodbye, 1);
  }
}

void UcxNode::OnFarewell(const Frame& frame, std::span<const std::byte> text) {
  UcxLink* const link = wiring_.Find(static_cast<int>(frame.sender));
  if (closed_ || link == nullptr || !inbox_->reason(link->peer).ok()) return;
  Lost(*link, ReadFarewell(frame.type, text, inbox_->Label(link->peer)));
}

void UcxNode::StartWatch(const std::vector<Peer>& peers, const FabricLimits& limits) {
  if (limits.silence_seconds <= 0) return;
  watch_.emplace(WatchLimits{Seconds(limits.silence_seconds), Seconds(limits.start_seconds)}, self_,
                 peers, Now());
  LookOn();
}

void UcxNode::LookOn() {
  loop_->After(watch_->interval(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->closed_) return;
    self->Look();
    self->LookOn();
  });
}

void UcxNode::Look() {
  std::set<int> awaited = inbox_->Awaited();
  awaited.merge(sender_.AwaitedToConnect());
  const Watch::Decision decision = watch_->Look(Now(), awaited);
  for (const int peer : decision.ask) {
    UcxLink* const link = wiring_.Find(peer);
    if (link->endpoint != nullptr) sender_.SendNote(*link, Note::kAsk, 0);
  }
  for (const Watch::Failed& failed : decision.failed) {
    const auto label = [this](int node) { return inbox_->Label(node); };
    wiring_.Break(*wiring_.Find(failed.peer), watch_->Reason(failed, label));
  }
  wiring_.CloseBroken();
}

void UcxNode::SayFarewell(const Status& reason) {
  if (inbox_ == nullptr || !TellsPeers(reason)) return;
  for (auto& [node, link] : wiring_.links()) {
    if (link.endpoint != nullptr && link.heard) sender_.SendFarewell(link, reason);
  }
  worker_->ProgressUntil([this] { return sender_.HasLeft(Note::kFarewell); },
                         Now() + Seconds(kFarewellSeconds));
}

// The order matters: the inbox closes before anything moves again, so that nothing lands in a
// buffer that its owner takes back; UCX gives back what it holds before the rest is answered; and
// the listener stays while a peer may be in the middle of connecting.
void UcxNode::Close(const Status& reason) {
  if (closed_) return;
  if (attached_) loop_->Detach(this);
  // Somebody still waits for something: the epoch is being torn down and nothing is worth sending.
  // Otherwise this is an orderly end, and a peer may still wait for our last message.
  // A peer that is silent or dead answers no goodbye.
  const bool graceful = inbox_ != nullptr && sender_.idle() && !inbox_->HasPending() &&
                        reason.code() != StatusCode::kDeadlineExceeded &&
                        reason.code() != StatusCode::kUnavailable;
  closed_ = true;
  receiver_.Close();
  wiring_.StopAccepting();
  if (inbox_ != nullptr) inbox_->Close(reason);
  SayFarewell(reason);
  const auto goodbye = [this](UcxLink& link) { sender_.SendNote(link, Note::kGoodbye, 0); };
  wiring_.Close(graceful ? std::function<void(UcxLink&)>(goodbye) : nullptr);
  if (inbox_ != nullptr) {
    sender_.CancelAll();
    inbox_->Abandon();
  }
  const auto self = weak_from_this().lock();
  if (!wiring_.ExpectsConnections()) {
    Dispose();
  } else if (self != nullptr) {
    loop_->After(Seconds(UcxWiring::kLingerSeconds), [self] { self->Dispose(); });
  }
  while (inbox_ != nullptr && inbox_->RunAnswers()) {
  }
}

void UcxNode::Dispose() {
  if (worker_ == nullptr) return;
  wiring_.StopListening();
  worker_.reset();
  sender_.Forget();
}

TransportCounters UcxNode::Counters() const {
  return inbox_ != nullptr ? inbox_->counters() : TransportCounters{};
}

}  // namespace ringwood

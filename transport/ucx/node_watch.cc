// UcxNode's half that asks silent peers for a sign of life (watch.h), and says why it leaves.
#include <utility>

#include "base/log.h"
#include "transport/ucx/node.h"

namespace ringwood {
namespace {

// Farewells leave at once unless a queue stands before them; those of a dead link never do.
constexpr double kFarewellSeconds = 0.1;

}  // namespace

void UcxNode::StartWatch(const FabricLimits& limits) {
  if (limits.silence_seconds <= 0) return;
  std::vector<int> peers;
  for (const auto& [node, link] : links_) peers.push_back(node);
  watch_.emplace(WatchLimits{Seconds(limits.silence_seconds), Seconds(limits.start_seconds)}, peers,
                 Now());
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
  for (const auto& [node, link] : links_) {
    if (!link.waiting.empty()) awaited.insert(node);  // its connection
  }
  const Watch::Decision decision = watch_->Look(Now(), awaited);
  for (const int peer : decision.ask) {
    Link& link = links_.at(peer);
    if (link.endpoint != nullptr) SendNote(link, kAskLane, 0, 0);
  }
  for (const Watch::Failed& failed : decision.failed) {
    Link& link = links_.at(failed.peer);
    link.parted = true;
    FailLink(link, watch_->Reason(
                       failed, [this](int node) { return inbox_->Label(node); }, self_));
    broken_.push_back(&link);
  }
  CloseBroken();
}

void UcxNode::SayFarewell(const Status& reason) {
  if (inbox_ == nullptr || !TellsPeers(reason)) return;
  for (auto& [node, link] : links_) {
    if (link.endpoint == nullptr || !link.heard) continue;
    MessageName name;
    name.lane = static_cast<Lane>(kFarewellLane);
    auto note = std::make_unique<Outgoing>(
        Outgoing{this, node, {}, {}, nullptr, kMessageId, {}, Farewell(reason)});
    note->payload = std::as_bytes(std::span(note->text));
    note->frame =
        inbox_->MakeFrame(name, {static_cast<uint8_t>(reason.code()), 0, 0}, note->payload);
    Transmit(link, std::move(note));
  }
  const auto said = [this] {
    for (const Outgoing* outgoing : outgoing_) {
      if (outgoing->frame.lane == kFarewellLane) return false;
    }
    return true;
  };
  ProgressUntil(said, Now() + Seconds(kFarewellSeconds));
}

void UcxNode::OnFarewell(const Frame& frame, std::span<const std::byte> text) {
  const auto found = links_.find(static_cast<int>(frame.sender));
  if (closed_ || found == links_.end() || !inbox_->reason(found->first).ok()) return;
  FailLink(found->second, ReadFarewell(frame.type, text, inbox_->Label(found->first)));
}

}  // namespace ringwood

#include "transport/inbox.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "absl/strings/str_format.h"
#include "base/buffer.h"
#include "base/digest.h"
#include "base/text.h"
#include "transport/data_type.h"

namespace ringwood {
namespace {

// A payload copied out of the network library's buffer because it was not asked for yet.
class CopiedPayload : public IncomingPayload {
 public:
  explicit CopiedPayload(std::span<const std::byte> payload) : bytes_(payload.size()) {
    if (!payload.empty()) std::memcpy(bytes_.data(), payload.data(), payload.size());
  }
  uint64_t HeldBytes() const override { return bytes_.size(); }
  void Fetch(std::span<std::byte> into, std::function<void(Status)> done) override {
    if (!into.empty()) std::memcpy(into.data(), bytes_.data(), into.size());
    done(OkStatus());
  }

 private:
  Buffer<std::byte> bytes_;
};

constexpr char kTold[] = "ringwood/told";  // a payload
constexpr size_t kFarewellBytes = 1024;
constexpr size_t kMostFarewellBytes = 4 * kFarewellBytes + 64;  // with its escapes, and what is cut

// "17 elements of float32 (68 bytes)", "max of 17 …", "… , of 400 in all"; entries of trees have
// codes in place of types.
std::string Describe(uint8_t lane, uint64_t bytes, const Content& content) {
  if (lane == static_cast<uint8_t>(Lane::kSparse)) {
    return absl::StrFormat("%s entries of value code %d, index code %d (%d bytes)",
                           content.count == 0 ? "any" : std::to_string(content.count), content.type,
                           content.codec, bytes);
  }
  const DataType type{content.type};
  const uint64_t size = SizeOf(type);
  if (size == 0) return absl::StrFormat("%d bytes of type %d", bytes, content.type);
  const uint64_t count = content.count != 0 ? content.count : bytes / size;
  const auto& [whole, op, about] = content.asked;
  return absl::StrFormat(
      "%s%d elements of %s (%d bytes)%s",
      op != ReduceOp::kSum ? absl::StrFormat("%s of ", NameOf(op)) : "", count, NameOf(type), bytes,
      whole != 0 && whole != count ? absl::StrFormat(", of %d in all", whole) : "");
}

}  // namespace

std::unique_ptr<IncomingPayload> CopyPayload(std::span<const std::byte> payload) {
  return std::make_unique<CopiedPayload>(payload);
}

bool TellsPeers(const Status& reason) {
  return reason.code() == StatusCode::kInvalidArgument || reason.code() == StatusCode::kDataLoss ||
         reason.code() == StatusCode::kDeadlineExceeded;
}

std::string Farewell(const Status& reason) { return Printable(Message(reason), kFarewellBytes); }

Status ReadFarewell(uint8_t code, std::span<const std::byte> text, const std::string& from) {
  const std::string_view said(reinterpret_cast<const char*>(text.data()), text.size());
  Status told(static_cast<StatusCode>(code), Printable(said, kMostFarewellBytes));
  if (told.ok() || !TellsPeers(told) || told.message().empty()) {
    return Unavailable(from + " closed its connection");
  }
  told.SetPayload(kTold, absl::Cord());
  return told;
}

bool IsTold(const Status& status) { return status.GetPayload(kTold).has_value(); }

Inbox::Inbox(const EpochName& name, const std::vector<Peer>& peers, const FabricLimits& limits)
    : name_(name), limits_(limits) {
  for (const Peer& peer : peers) labels_[peer.node] = peer.label;
}

std::string Inbox::Label(int node) const {
  const auto found = labels_.find(node);
  return found != labels_.end() ? found->second : absl::StrFormat("node %d (unknown)", node);
}

Status Inbox::reason(int peer) const {
  if (!closed_.ok()) return closed_;
  const auto gone = gone_.find(peer);
  return gone != gone_.end() ? gone->second : OkStatus();
}

Frame Inbox::MakeFrame(const MessageName& name, const Content& content,
                       const Payload& payload) const {
  Frame frame;
  frame.sender = static_cast<uint32_t>(name_.self);
  frame.job = name_.job;
  frame.epoch = name_.epoch;
  frame.round = name.round;
  frame.group = name.group;
  frame.chunk = name.chunk;
  frame.slot = name.slot;
  frame.lane = static_cast<uint8_t>(name.lane);
  frame.type = content.type;
  frame.codec = content.codec;
  frame.count = content.count;
  frame.op = static_cast<uint8_t>(content.asked.op);
  frame.whole = content.asked.whole;
  frame.about = content.asked.about;
  frame.bytes = payload.bytes.size();
  frame.checksum = payload.digest.has_value() ? *payload.digest : Digest(payload.bytes);
  return frame;
}

// Invariant: a message (peer, name) is in at most one of posted_, early_ and fetching_. Post and
// Arrive hand it to StartFetch, or take it at once, as soon as both sides are there. A receive ends
// by Finish or Refuse only, which queue its answer: it is answered once, and never inside a call.
void Inbox::Post(int peer, const MessageName& name, const Content& content,
                 const ReceiveBuffer& buffer, Transport::ReceiveDone done) {
  Posted posted{content, buffer, std::move(done)};
  const Key key{peer, name};
  if (const auto early = early_.find(key); closed_.ok() && early != early_.end()) {
    Early message = std::move(early->second);
    early_.erase(early);
    Unstash(peer, message);
    StartFetch(message.frame, std::move(posted), std::move(message.incoming));
    return;
  }
  if (const Status lost = reason(peer); !lost.ok()) {
    Refuse(std::move(posted), Annotate(lost, "receive " + ToString(name) + " from " + Label(peer)),
           Frame{});
  } else if (!IsPeer(peer)) {
    Refuse(std::move(posted), Invalid(absl::StrFormat("node %d is no peer of this epoch", peer)),
           Frame{});
  } else if (!posted_.try_emplace(key, std::move(posted)).second) {
    Refuse(std::move(posted),
           Internal("the message " + ToString(name) + " of " + Label(peer) + " is awaited twice"),
           Frame{});
  }
}

bool Inbox::AwaitsOnlyLong(size_t count, uint64_t bytes) const {
  return posted_.size() >= count && std::all_of(posted_.begin(), posted_.end(), [&](auto& entry) {
           const Posted& posted = entry.second;
           return posted.content.count != 0 && posted.buffer.into.size() >= bytes;
         });
}

std::set<int> Inbox::Awaited() const {
  std::set<int> peers;
  for (const auto& [key, posted] : posted_) peers.insert(peers.end(), key.first);
  for (const auto& [id, fetching] : fetching_) {
    peers.insert(static_cast<int>(fetching.frame.sender));
  }
  return peers;
}

void Inbox::Withdraw(Lane lane, uint64_t round) {
  const auto over = [&](const Key& key) {
    return key.second.lane == lane && key.second.round < round;
  };
  for (auto it = posted_.begin(); it != posted_.end();) {
    if (!over(it->first)) {
      ++it;
      continue;
    }
    const std::string what = ToString(it->first.second) + " from " + Label(it->first.first);
    Refuse(std::move(it->second),
           Status(StatusCode::kCancelled, ("receive " + what + ": withdrawn").c_str()), Frame{});
    it = posted_.erase(it);
  }
  std::erase_if(early_, [&](const auto& entry) {
    if (!over(entry.first)) return false;
    Unstash(entry.first.first, entry.second);
    return true;
  });
}

void Inbox::Unstash(int peer, const Early& early) {
  Stash& stash = stashes_[peer];
  stash.bytes -= early.incoming->HeldBytes();
  --stash.messages;
}

bool Inbox::IsCurrent(const Frame& frame) {
  if (!closed_.ok()) return false;
  if (frame.job != name_.job || frame.epoch != name_.epoch ||
      !IsPeer(static_cast<int>(frame.sender))) {
    ++counters_.stale_frames;
    return false;
  }
  counters_.received_bytes += sizeof(Frame) + frame.bytes;
  return true;
}

Status Inbox::Compare(const Frame& frame, const Posted& posted) const {
  const bool same = frame.type == posted.content.type && frame.codec == posted.content.codec &&
                    ContentOf(frame).asked == posted.content.asked &&
                    frame.bytes <= posted.buffer.into.size() &&
                    (posted.content.count == 0 || frame.count == posted.content.count);
  if (same) return OkStatus();
  const bool immediate = frame.lane == static_cast<uint8_t>(Lane::kImmediate);
  return Invalid(absl::StrFormat(
      "message %s: %s sent %s, %s awaits at most %s: the ranks %s", ToString(NameOf(frame)),
      Label(static_cast<int>(frame.sender)), Describe(frame.lane, frame.bytes, ContentOf(frame)),
      Label(name_.self), Describe(frame.lane, posted.buffer.into.size(), posted.content),
      immediate ? "called different collectives, or gave them different sizes, types or operations"
                : "registered different tensors or options"));
}

void Inbox::Arrive(const Frame& frame, std::span<const std::byte> payload) {
  const Key key{static_cast<int>(frame.sender), NameOf(frame)};
  const auto found = posted_.find(key);
  if (frame.bytes != payload.size()) {
    if (!IsCurrent(frame)) return;
    ++counters_.corrupt_frames;
    return Fail(key.first,
                Corrupt(absl::StrFormat("%s: the frame of %s announced %d bytes, %d arrived",
                                        Label(key.first), ToString(key.second), frame.bytes,
                                        payload.size())));
  }
  if (found == posted_.end()) return Arrive(frame, CopyPayload(payload));
  if (!IsCurrent(frame)) return;
  Posted posted = std::move(found->second);
  posted_.erase(found);
  Status status = Compare(frame, posted);
  if (status.ok()) status = Take(frame, posted, payload);
  Finish(frame, std::move(posted), status);
}

void Inbox::Arrive(const Frame& frame, std::unique_ptr<IncomingPayload> incoming) {
  if (!IsCurrent(frame)) return;
  const int peer = static_cast<int>(frame.sender);
  const Key key{peer, NameOf(frame)};
  if (const auto found = posted_.find(key); found != posted_.end()) {
    Posted posted = std::move(found->second);
    posted_.erase(found);
    StartFetch(frame, std::move(posted), std::move(incoming));
    return;
  }
  const uint64_t held = incoming->HeldBytes();
  Stash& stash = stashes_[peer];
  if (stash.over) return;
  if (stash.messages >= kMaxEarly || held > limits_.stash_bytes - stash.bytes) {
    stash.over = true;
    Fail(peer, Exhausted(absl::StrFormat("%s runs ahead by more than %d bytes of messages at %s",
                                         Label(peer), limits_.stash_bytes, ToString(key.second))));
    return;
  }
  if (early_.emplace(key, Early{frame, std::move(incoming)}).second) {
    stash.bytes += held;
    ++stash.messages;
  } else {
    Fail(peer,
         Internal("the message " + ToString(key.second) + " of " + Label(peer) + " arrived twice"));
  }
}

void Inbox::StartFetch(const Frame& frame, Posted posted,
                       std::unique_ptr<IncomingPayload> incoming) {
  if (Status status = Compare(frame, posted); !status.ok()) {
    Refuse(std::move(posted), status, frame);
    return;
  }
  const uint64_t id = next_fetch_++;
  const std::span<std::byte> into = posted.buffer.into.first(frame.bytes);
  IncomingPayload* const fetched = incoming.get();
  fetching_.emplace(id, Fetching{frame, std::move(posted), std::move(incoming)});
  fetched->Fetch(into, [this, id](Status status) {
    const auto found = fetching_.find(id);
    if (found->second.posted.done == nullptr) return;  // answered by Abandon
    // The payload's code is still on the stack: it is destroyed with the queue's next turn.
    auto done = std::make_shared<Fetching>(std::move(found->second));
    fetching_.erase(found);
    if (!closed_.ok()) {
      status = closed_;
    } else if (!status.ok()) {
      status = Annotate(status, "receive " + ToString(NameOf(done->frame)) + " from " +
                                    Label(static_cast<int>(done->frame.sender)));
    } else {
      status = Take(done->frame, done->posted, done->posted.buffer.into.first(done->frame.bytes),
                    done->incoming->IsSenders());
    }
    Answer([done] { done->incoming.reset(); });
    Finish(done->frame, std::move(done->posted), status);
  });
}

// The payload is in the network library's memory, or in the receive buffer.
Status Inbox::Take(const Frame& frame, const Posted& posted, std::span<const std::byte> payload,
                   bool senders) {
  const bool same = Digest(payload) == frame.checksum;
  if (!same && senders) {
    return Unavailable(absl::StrFormat(
        "%s changed %s before it was read: it has left the epoch, or its trainer wrote into a "
        "tensor that was being exchanged",
        Label(static_cast<int>(frame.sender)), ToString(NameOf(frame))));
  }
  if (!same) {
    ++counters_.corrupt_frames;
    return Corrupt("the checksum of " + ToString(NameOf(frame)) + " from " +
                   Label(static_cast<int>(frame.sender)) + " does not match its payload");
  }
  if (posted.buffer.take != nullptr) {
    posted.buffer.take(payload);
  } else if (!payload.empty() && payload.data() != posted.buffer.into.data()) {
    std::memcpy(posted.buffer.into.data(), payload.data(), payload.size());
  }
  return OkStatus();
}

void Inbox::Finish(const Frame& frame, Posted posted, const Status& status) {
  if (!status.ok()) return Refuse(std::move(posted), status, frame);
  const std::span<std::byte> received = posted.buffer.into.first(frame.bytes);
  Answer([done = std::move(posted.done), received, frame] { done(received, frame); });
}

void Inbox::Refuse(Posted posted, const Status& status, const Frame& frame) {
  Answer([done = std::move(posted.done), status, frame] { done(status, frame); });
}

void Inbox::Fail(int peer, const Status& reason) {
  gone_.emplace(peer, reason);
  std::erase_if(early_, [&](const auto& entry) {
    if (entry.first.first != peer || !entry.second.incoming->IsSenders()) return false;
    Unstash(peer, entry.second);
    return true;
  });
  for (auto it = posted_.begin(); it != posted_.end();) {
    if (it->first.first != peer) {
      ++it;
      continue;
    }
    Refuse(std::move(it->second), Annotate(reason, "receive " + ToString(it->first.second)),
           Frame{});
    it = posted_.erase(it);
  }
}

void Inbox::Close(const Status& reason) {
  if (!closed_.ok()) return;
  closed_ = reason.ok() ? Aborted("the epoch was closed") : reason;
  for (auto& [key, posted] : posted_) {
    Refuse(std::move(posted),
           Annotate(closed_, "receive " + ToString(key.second) + " from " + Label(key.first)),
           Frame{});
  }
  posted_.clear();
  early_.clear();
  stashes_.clear();
}

void Inbox::Abandon() {
  for (auto& [id, fetch] : fetching_) {
    if (fetch.posted.done != nullptr) Refuse(std::move(fetch.posted), closed_, fetch.frame);
    fetch.posted.done = nullptr;
  }
}

bool Inbox::RunAnswers() {
  const size_t count = answers_.size();
  for (size_t i = 0; i < count && !answers_.empty(); ++i) {
    std::function<void()> answer = std::move(answers_.front());
    answers_.pop_front();
    answer();
  }
  return count != 0;
}

}  // namespace ringwood

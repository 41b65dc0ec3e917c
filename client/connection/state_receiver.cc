#include "client/connection/state_receiver.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/out_of_memory.h"
#include "ringwood/v1/store.pb.h"

namespace ringwood {
namespace {

// Requests under way at each holder: enough to fill a link of 10 Gbit/s over 2 ms.
constexpr uint64_t kStateWindow = 4;

}  // namespace

std::shared_ptr<StateReceiver> StateReceiver::Start(EpochLink* link) {
  const auto receiver = std::make_shared<StateReceiver>();
  for (int rank = 0; rank < link->place().world; ++rank) {
    if (!link->Holds(rank)) continue;
    Holder& holder = receiver->holders_.emplace_back();
    holder.rank = rank;
    holder.label = absl::StrFormat("rank %d", link->SlotOf(rank));
    holder.manifest = Buffer<std::byte>(kMaxStateManifestBytes);
  }
  const bool posted = link->connection()->net()->Post(
      [receiver, link] { receiver->AskForManifests(link->transport()); });
  if (!posted) receiver->Done(Internal("network queue full"));
  return receiver;
}

void StateReceiver::AskForManifests(Transport* transport) {
  for (Holder& holder : holders_) {
    transport->Receive(holder.rank, NameOf(StateMessage::kManifest), {}, holder.manifest.span(),
                       [self = shared_from_this(), transport, &holder](
                           StatusOr<std::span<std::byte>> manifest, const Frame&) {
                         if (!manifest.ok()) return self->Done(manifest.status());
                         holder.manifest_bytes = manifest->size();
                         if (++self->manifests_ < self->holders_.size()) return;
                         const Status taken =
                             CatchOutOfMemory([&] { return self->TakeManifests(); });
                         if (!taken.ok() || self->pieces_ == 0) return self->Done(taken);
                         for (size_t stripe = 0; stripe < self->holders_.size(); ++stripe) {
                           for (uint64_t i = 0; i < kStateWindow; ++i)
                             self->Ask(transport, stripe, i);
                         }
                       });
  }
}

// All holders have the same items: what one sends fits to what the others send.
Status StateReceiver::TakeManifests() {
  const auto text = [](const Holder& holder) {
    return holder.manifest.span().first(holder.manifest_bytes);
  };
  for (const Holder& holder : holders_) {
    if (std::ranges::equal(text(holder), text(holders_[0]))) continue;
    return Invalid(absl::StrFormat(
        "the state items of %s and %s are not alike in names, sizes and order: register the same "
        "on every rank",
        holders_[0].label, holder.label));
  }
  v1::CheckpointManifest manifest;
  const auto bytes = text(holders_[0]);
  if (!manifest.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Corrupt("the list of state items of " + holders_[0].label + " cannot be read");
  }
  uint64_t total = 0;
  for (const v1::StoredItem& item : manifest.items()) {
    if (item.bytes() > kMaxStateBytes - total) {
      return Invalid("the state of " + holders_[0].label + " is larger than any memory");
    }
    total += item.bytes();
  }
  state_ = Buffer<std::byte>(total);
  uint64_t at = 0;
  for (const v1::StoredItem& item : manifest.items()) {
    items_.push_back({item.name(), state_.span().subspan(at, item.bytes())});
    at += item.bytes();
  }
  pieces_ = StatePieces(total);
  return OkStatus();
}

// Of piece i of a stripe. Room is made for it before it is asked for.
void StateReceiver::Ask(Transport* transport, size_t stripe, uint64_t i) {
  const uint64_t piece = stripe + i * holders_.size();
  if (piece >= pieces_) return;
  const uint64_t at = piece * kStatePieceBytes;
  const auto room =
      state_.span().subspan(at, std::min<uint64_t>(kStatePieceBytes, state_.size() - at));
  const int holder = holders_[stripe].rank;
  transport->Receive(holder, NameOf(StateMessage::kPiece, i), {}, room,
                     [self = shared_from_this(), transport, stripe, i, bytes = room.size()](
                         StatusOr<std::span<std::byte>> got, const Frame&) {
                       if (!got.ok()) return self->Done(got.status());
                       if (got->size() != bytes)
                         return self->Done(Corrupt("a short piece of state"));
                       if (++self->arrived_ == self->pieces_) return self->Done(OkStatus());
                       self->Ask(transport, stripe, i + kStateWindow);
                     });
  transport->Send(holder, NameOf(StateMessage::kRequest, i), {}, std::span(&request_, 1),
                  [self = shared_from_this()](const Status&) {});
}

void StateReceiver::Done(const Status& status) {
  absl::MutexLock lock(&mutex_);
  if (done_) return;
  done_ = true;
  status_ = status;
}

Status StateReceiver::Wait(Duration limit) {
  absl::MutexLock lock(&mutex_);
  if (!mutex_.AwaitWithTimeout(absl::Condition(&done_), absl::FromChrono(limit))) {
    return TimedOut(
        absl::StrFormat("the state of the job did not come in %.0f s", ToSeconds(limit)));
  }
  return status_;
}

}  // namespace ringwood

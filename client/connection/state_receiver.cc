#include "client/connection/state_receiver.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/digest.h"
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
  }
  const bool posted = link->connection()->net()->Post(
      [receiver, link] { receiver->AskForHeads(link->transport()); });
  if (!posted) receiver->Done(Internal("network queue full"));
  return receiver;
}

void StateReceiver::AskForHeads(Transport* transport) {
  for (Holder& holder : holders_) {
    transport->Receive(
        holder.rank, NameOf(StateMessage::kHead), {},
        std::as_writable_bytes(std::span(&holder.head, 1)),
        [self = shared_from_this(), transport](StatusOr<std::span<std::byte>> head, const Frame&) {
          if (!head.ok()) return self->Done(head.status());
          if (head->size() != sizeof(StateHead))
            return self->Done(Corrupt("a short head of state"));
          if (++self->heads_ < self->holders_.size()) return;
          const Status taken = CatchOutOfMemory([&] { return self->TakeHeads(); });
          if (!taken.ok() || self->pieces_ == 0) return self->Done(taken);
          for (size_t stripe = 0; stripe < self->holders_.size(); ++stripe) {
            for (uint64_t i = 0; i < kStateWindow; ++i) self->Ask(transport, stripe, i);
          }
        });
  }
}

// All holders must have the same list, or the pieces of one would not fit those of another.
Status StateReceiver::TakeHeads() {
  for (const Holder& holder : holders_) {
    if (holder.head == holders_[0].head) continue;
    return Invalid(absl::StrFormat(
        "the state items of %s and %s are not alike in names, sizes and order: register the same "
        "on every rank",
        holders_[0].label, holder.label));
  }
  const StateHead& head = holders_[0].head;
  if (head.list_bytes > kMaxStateListBytes) {
    return Exhausted(absl::StrFormat(
        "the names and sizes of the state items of %s take %d bytes of at most %d: register fewer "
        "and larger items",
        holders_[0].label, head.list_bytes, kMaxStateListBytes));
  }
  if (head.state_bytes > kMaxStateBytes) {
    return Invalid("the state of " + holders_[0].label + " is larger than any memory");
  }
  row_ = Buffer<std::byte>(RowBytes(head));
  pieces_ = StatePieces(row_.size());
  return OkStatus();
}

// When all is there.
Status StateReceiver::TakeList() {
  const StateHead& head = holders_[0].head;
  const auto bytes = row_.span().first(head.list_bytes);
  v1::ItemList list;
  if (Digest(bytes) != head.digest ||
      !list.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Corrupt("the list of state items of " + holders_[0].label + " cannot be read");
  }
  auto rest = row_.span().subspan(ItemsBegin(head));
  for (const v1::ListedItem& item : list.items()) {
    if (item.bytes() > rest.size()) return Corrupt("state items are longer than the state");
    items_.push_back({item.name(), rest.first(item.bytes())});
    rest = rest.subspan(item.bytes());
  }
  return OkStatus();
}

// Of piece i of a stripe. Room is made for it before it is asked for.
void StateReceiver::Ask(Transport* transport, size_t stripe, uint64_t i) {
  const uint64_t piece = stripe + i * holders_.size();
  if (piece >= pieces_) return;
  const uint64_t at = piece * kStatePieceBytes;
  const auto room = row_.span().subspan(at, std::min<uint64_t>(kStatePieceBytes, row_.size() - at));
  const int holder = holders_[stripe].rank;
  transport->Receive(holder, NameOf(StateMessage::kPiece, i), {}, room,
                     [self = shared_from_this(), transport, stripe, i, bytes = room.size()](
                         StatusOr<std::span<std::byte>> got, const Frame&) {
                       if (!got.ok()) return self->Done(got.status());
                       if (got->size() != bytes)
                         return self->Done(Corrupt("a short piece of state"));
                       if (++self->arrived_ == self->pieces_) {
                         return self->Done(CatchOutOfMemory([&] { return self->TakeList(); }));
                       }
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

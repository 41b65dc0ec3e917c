#include "client/connection/state_donor.h"

#include <algorithm>
#include <string>

#include "base/digest.h"
#include "base/out_of_memory.h"
#include "ringwood/v1/store.pb.h"

namespace ringwood {

Status StateDonor::Serve(EpochLink* link, const std::vector<StateItem>& items) {
  const auto donor = std::make_shared<StateDonor>();
  const Place& place = link->place();
  donor->stripes_ = 0;
  for (int rank = 0; rank < place.world; ++rank) {
    if (rank == place.rank) donor->stripe_ = donor->stripes_;
    if (link->Holds(rank)) {
      ++donor->stripes_;
    } else {
      donor->receivers_.push_back(rank);
    }
  }
  RW_RETURN_IF_ERROR(CatchOutOfMemory([&] {
    donor->Fill(items);
    return OkStatus();
  }));
  const bool posted =
      link->connection()->net()->Post([donor, link] { donor->Start(link->transport()); });
  return posted ? OkStatus() : Internal("network queue full");
}

void StateDonor::Fill(const std::vector<StateItem>& items) {
  v1::ItemList listed;
  for (const StateItem& item : items) {
    v1::ListedItem* const one = listed.add_items();
    one->set_name(item.name);
    one->set_bytes(item.data.size());
    head_.state_bytes += item.data.size();
  }
  const std::string list = listed.SerializeAsString();
  head_.list_bytes = list.size();
  head_.digest = Digest(std::as_bytes(std::span(list)));
  row_ = Buffer<std::byte>(RowBytes(head_));
  std::ranges::copy(std::as_bytes(std::span(list)), row_.span().begin());
  auto at = row_.span().begin() + static_cast<ptrdiff_t>(ItemsBegin(head_));
  for (const StateItem& item : items) at = std::ranges::copy(item.data, at).out;
}

// Who waits for an answer keeps the donor alive; the transport answers all when it closes.
void StateDonor::Start(Transport* transport) {
  const uint64_t pieces = StatePieces(row_.size());
  for (const int receiver : receivers_) {
    transport->Send(receiver, NameOf(StateMessage::kHead), {}, std::as_bytes(std::span(&head_, 1)),
                    [self = shared_from_this()](const Status&) {});
    for (uint64_t i = 0; stripe_ + i * stripes_ < pieces; ++i) {
      AnswerRequest(transport, receiver, i);
    }
  }
}

void StateDonor::AnswerRequest(Transport* transport, int receiver, uint64_t i) {
  transport->Receive(receiver, NameOf(StateMessage::kRequest, i), {}, std::span(&request_, 1),
                     [self = shared_from_this(), transport, receiver, i](
                         StatusOr<std::span<std::byte>> asked, const Frame&) {
                       if (!asked.ok()) return;  // the epoch ends
                       transport->Send(receiver, NameOf(StateMessage::kPiece, i), {},
                                       self->Piece(i), [self](const Status&) {});
                     });
}

std::span<const std::byte> StateDonor::Piece(uint64_t i) const {
  const uint64_t at = (stripe_ + i * stripes_) * kStatePieceBytes;
  return row_.span().subspan(at, std::min<uint64_t>(kStatePieceBytes, row_.size() - at));
}

}  // namespace ringwood

#include "client/departures.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

namespace ringwood {
namespace {

// The lowest rank that stays; some do.
int HeirOf(const std::vector<int>& leaving) {
  int heir = 0;
  while (std::find(leaving.begin(), leaving.end(), heir) != leaving.end()) ++heir;
  return heir;
}

}  // namespace

Status Departures::Together(const std::vector<int>& ranks, uint64_t round, EpochLink* link) {
  const int self = link->place().rank;
  if (std::find(ranks.begin(), ranks.end(), self) != ranks.end()) LeaveBefore(round);
  std::vector<Leaver> leavers;
  for (const int rank : ranks) leavers.push_back({rank, round});
  Status sent = Send(leavers, HeirOf(ranks), link);
  if (sent.ok()) sent = Left(ranks, link);
  if (!sent.ok()) link->Fail(link->Named(sent));
  return sent;
}

Status Departures::Late(EpochLink* link) {
  const auto world = static_cast<size_t>(link->place().world);
  // By rank: before which round it was to leave, and of which departure some heir has everything.
  std::vector<int64_t> said(2 * world);
  said[link->place().rank] = static_cast<int64_t>(leaves_before_);
  for (size_t rank = 0; rank < world; ++rank) {
    const auto found = inherited_.find(link->SlotOf(static_cast<int>(rank)));
    if (found != inherited_.end()) said[world + rank] = static_cast<int64_t>(found->second);
  }
  RW_RETURN_IF_ERROR(link->collectives()->AllReduce(std::as_writable_bytes(std::span(said)),
                                                    DataType::kInt64, ReduceOp::kMax));
  std::vector<int> ranks;
  std::vector<Leaver> leavers;  // without an heir
  for (size_t rank = 0; rank < world; ++rank) {
    if (said[rank] == 0) continue;
    ranks.push_back(static_cast<int>(rank));
    if (said[rank] == said[world + rank]) continue;
    leavers.push_back({static_cast<int>(rank), static_cast<uint64_t>(said[rank])});
  }
  if (ranks.size() == world) leaves_before_ = 0;
  if (ranks.empty() || ranks.size() == world) return OkStatus();
  if (!leavers.empty()) RW_RETURN_IF_ERROR(Send(leavers, HeirOf(ranks), link));
  return Left(std::move(ranks), link);
}

// Each tensor to all, and the heir keeps it.
Status Departures::Send(const std::vector<Leaver>& leavers, int heir, EpochLink* link) {
  const int self = link->place().rank;
  RW_ASSIGN_OR_RETURN(const std::vector<uint8_t> some, OwedBySome(link));
  std::map<size_t, std::vector<float>> owed = owed_;
  for (const Leaver& leaver : leavers) {
    for (size_t id = 0; id < table_.size(); ++id) {
      if (some[id] == 0) continue;
      std::vector<float> sent(table_[static_cast<int>(id)].spec.elements);
      if (self == leaver.rank) RW_RETURN_IF_ERROR(states_->ReadResidual(id, sent));
      RW_RETURN_IF_ERROR(
          link->collectives()->Broadcast(std::as_writable_bytes(std::span(sent)), leaver.rank));
      if (self != heir) continue;
      std::vector<float>& mine = owed[id];
      mine.resize(sent.size());
      std::transform(sent.begin(), sent.end(), mine.begin(), mine.begin(), std::plus<>());
    }
  }
  if (self != heir) return OkStatus();
  owed_ = std::move(owed);
  for (const Leaver& leaver : leavers) inherited_[link->SlotOf(leaver.rank)] = leaver.before;
  return OkStatus();
}

// By id: whether some rank may owe something of the tensor. An heir may do so alone, until a commit
// has sent what it took over.
StatusOr<std::vector<uint8_t>> Departures::OwedBySome(EpochLink* link) const {
  std::vector<uint8_t> owed(table_.size());
  for (size_t id = 0; id < owed.size(); ++id) owed[id] = states_->Owes(id) ? 1 : 0;
  RW_RETURN_IF_ERROR(link->collectives()->AllReduce(std::as_writable_bytes(std::span(owed)),
                                                    DataType::kUInt8, ReduceOp::kMax));
  return owed;
}

// No rank leaves before the heir has everything, and none ends its connections, on which others may
// hear that, before all have heard it: the second meeting may fail, as some have come through it.
Status Departures::Left(std::vector<int> ranks, EpochLink* link) {
  RW_RETURN_IF_ERROR(link->collectives()->Meet());
  left_ = std::move(ranks);
  gone_ = std::find(left_.begin(), left_.end(), link->place().rank) != left_.end();
  (void)link->collectives()->Meet();
  return OkStatus();
}

void Departures::EpochOver() {
  left_.clear();
  for (const auto& [id, owed] : std::exchange(owed_, {})) states_->Add(id, owed);
}

}  // namespace ringwood

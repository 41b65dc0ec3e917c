#include "client/inheritance.h"

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

// By id: whether some rank may owe something of the tensor. An heir may do so alone, until a commit
// has sent what it took over.
StatusOr<std::vector<uint8_t>> OwedBySome(size_t tensors, const TensorStates& states,
                                          Collectives* collectives) {
  std::vector<uint8_t> owed(tensors);
  for (size_t id = 0; id < tensors; ++id) owed[id] = states.Owes(id) ? 1 : 0;
  RW_RETURN_IF_ERROR(collectives->AllReduce(std::as_writable_bytes(std::span(owed)),
                                            DataType::kUInt8, ReduceOp::kMax));
  return owed;
}

}  // namespace

Status Inheritance::Exchange(const std::vector<int>& leaving, const TensorTable& table,
                             const TensorStates& states, EpochLink* link) {
  const int rank = link->place().rank;
  const int heir = HeirOf(leaving);
  RW_ASSIGN_OR_RETURN(const std::vector<uint8_t> some,
                      OwedBySome(table.size(), states, link->collectives()));
  for (const int leaver : leaving) {
    for (size_t id = 0; id < table.size(); ++id) {
      if (some[id] == 0) continue;
      std::vector<float> owed(table[static_cast<int>(id)].spec.elements);
      if (rank == leaver) RW_RETURN_IF_ERROR(states.ReadResidual(id, owed));
      RW_RETURN_IF_ERROR(
          link->collectives()->Broadcast(std::as_writable_bytes(std::span(owed)), leaver));
      if (rank != heir) continue;
      std::vector<float>& mine = owed_[id];
      mine.resize(owed.size());
      std::transform(owed.begin(), owed.end(), mine.begin(), mine.begin(), std::plus<>());
    }
  }
  return OkStatus();
}

void Inheritance::GiveTo(TensorStates* states) {
  for (const auto& [id, owed] : std::exchange(owed_, {})) states->Add(id, owed);
}

}  // namespace ringwood

#include "client/inheritance.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

namespace ringwood {
namespace {

// The lowest rank that stays; some do.
int HeirOf(const v1::Commit& commit) {
  const auto& leaving = commit.leaving();
  uint32_t heir = 0;
  while (std::find(leaving.begin(), leaving.end(), heir) != leaving.end()) ++heir;
  return static_cast<int>(heir);
}

}  // namespace

Status Inheritance::Exchange(const v1::Commit& commit, const TensorTable& table,
                             const TensorStates& states, EpochLink* link) {
  const int rank = link->place().rank;
  const int heir = HeirOf(commit);
  for (const uint32_t node : commit.leaving()) {
    const int leaver = static_cast<int>(node);
    for (size_t id = 0; id < table.size(); ++id) {
      if (!states.Owes(id)) continue;
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

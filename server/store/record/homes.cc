#include "server/store/record/homes.h"

#include <algorithm>
#include <functional>
#include <set>

namespace ringwood {
namespace {

// Where its chunks lie.
std::set<CheckpointId> PlacesOf(const Kept& kept) {
  std::set<CheckpointId> places(kept.homes.begin(), kept.homes.end());
  places.insert(kept.id);
  return places;
}

}  // namespace

std::optional<CheckpointId> BaseOf(uint64_t job, const std::vector<Kept>& complete) {
  std::map<CheckpointId, const Kept*, std::greater<CheckpointId>> good;  // newest first
  for (const Kept& kept : complete) {
    if (!kept.bad) good[kept.id] = &kept;
  }
  const auto newest =
      std::ranges::find_if(good, [&](const auto& each) { return each.second->job == job; });
  std::set<CheckpointId> avoided;
  if (newest != good.end() && newest->second->unread) return std::nullopt;
  if (newest != good.end()) avoided = PlacesOf(*newest->second);
  for (const auto& [id, kept] : good) {
    const std::set<CheckpointId> places = PlacesOf(*kept);
    if (std::ranges::none_of(places, [&](const auto& at) { return avoided.contains(at); })) {
      return kept->unread ? std::nullopt : std::optional(id);
    }
  }
  return std::nullopt;
}

std::vector<CheckpointId> Unneeded(const std::vector<CheckpointId>& present,
                                   const std::vector<Kept>& used) {
  std::set<CheckpointId> needed;
  for (const Kept& kept : used) needed.merge(PlacesOf(kept));
  std::vector<CheckpointId> unneeded;
  for (const CheckpointId& id : present) {
    if (!needed.contains(id)) unneeded.push_back(id);
  }
  return unneeded;
}

}  // namespace ringwood

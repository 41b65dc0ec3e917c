#include "server/store/record/retention.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace ringwood {
namespace {

bool IsGood(const Kept& kept) { return !kept.bad && !kept.unread; }

// `newest_first`: of two of one step the newer epoch's counts, which went on.
std::set<CheckpointId> Milestones(const std::vector<Kept>& newest_first, uint64_t every) {
  std::map<std::pair<uint64_t, uint64_t>, CheckpointId> first;  // by job and multiple
  for (const Kept& kept : newest_first) {
    if (every == 0 || !IsGood(kept) || kept.id.step < every) continue;
    const auto [at, is_new] = first.try_emplace({kept.job, kept.id.step / every}, kept.id);
    if (!is_new && kept.id.step < at->second.step) at->second = kept.id;
  }
  std::set<CheckpointId> milestones;
  for (const auto& [place, id] : first) milestones.insert(id);
  return milestones;
}

}  // namespace

std::vector<CheckpointId> Superfluous(std::vector<Kept> complete, const Retention& retention) {
  std::sort(complete.begin(), complete.end(),
            [](const Kept& a, const Kept& b) { return a.id > b.id; });
  const std::set<CheckpointId> milestones = Milestones(complete, retention.every);
  const size_t newest = std::max(retention.newest, kKeptCheckpoints);
  std::vector<CheckpointId> superfluous;
  std::map<uint64_t, size_t> good, unread;  // by job, so far
  for (const Kept& kept : complete) {
    size_t& newer = good[kept.job];
    const bool one_too_many = kept.unread && unread[kept.job]++ >= kMaxUnread;
    const bool stays =
        (newer < newest && !one_too_many) || kept.pinned || milestones.contains(kept.id);
    if (!stays) superfluous.push_back(kept.id);
    if (IsGood(kept)) ++newer;
  }
  return superfluous;
}

}  // namespace ringwood

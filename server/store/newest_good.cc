// Which checkpoint a job continues from.
#include <algorithm>
#include <set>

#include "base/digest.h"
#include "base/log.h"
#include "server/store/checkpoint_store.h"

namespace ringwood {

// Furthest first; of two that lead to the same state the newer one is nearer to it.
void CheckpointStore::SortByReach(const Reach& reach, std::vector<CheckpointId>* ids) const {
  std::map<CheckpointId, CheckpointId> reached;
  for (const CheckpointId& id : *ids) {
    const auto manifest = reader().Head(id);
    reached[id] = manifest.ok() ? reach(manifest->job(), id) : id;
  }
  std::stable_sort(ids->begin(), ids->end(), [&](const CheckpointId& a, const CheckpointId& b) {
    return reached[a] > reached[b];
  });
}

// Reads it, once; the result is remembered. A disk that answers with an error today may answer
// tomorrow; damage stays.
Status CheckpointStore::Check(const v1::CheckpointManifest& head,
                              const ReadProgress& progress) const {
  const CheckpointId id{head.epoch(), head.step()};
  if (const auto verdict = verdicts_.Of(id)) return *verdict;
  const auto manifest = reader().WithItems(head);
  Status good = manifest.ok() ? ReadBackIfMarked(id) : manifest.status();
  if (good.ok()) good = reader().Verify(*manifest, progress);
  if (good.ok() || good.code() == StatusCode::kDataLoss) verdicts_.Remember(id, good);
  return good;
}

Status CheckpointStore::CheckPart(const CheckpointId& id, uint64_t digest,
                                  const ReadProgress& progress) const {
  const absl::ReaderMutexLock lock(database_.reading());
  const auto found = reader().HeadDigest(id);
  if (found.status().code() == StatusCode::kNotFound) {
    return Corrupt("the store has no part of " + Text(id) + " any more");
  }
  RW_RETURN_IF_ERROR(found.status());
  if (*found != digest) return Corrupt("the part of " + Text(id) + " is another one");
  RW_ASSIGN_OR_RETURN(const auto head, reader().Head(id));
  return Check(head, progress);
}

StatusOr<std::optional<CheckpointBase>> CheckpointStore::NewestGood(uint64_t job,
                                                                    const ReadProgress& progress,
                                                                    const Reach& reach,
                                                                    const AskParts& ask) const {
  absl::ReaderMutexLock lock(database_.reading());
  RW_ASSIGN_OR_RETURN(auto ids, reader().Complete());
  if (reach) SortByReach(reach, &ids);
  Status stopped;
  const auto counted = [&](const CheckpointId& id, uint64_t done, uint64_t all) {
    if (progress) stopped = progress(id, done, all);
    return stopped;
  };
  for (const CheckpointId& id : ids) {
    const auto head = reader().Head(id);
    if (head.ok() && job != 0 && head->job() != job) continue;
    // What it has of this store is known by a verdict; its parts may be gone since then.
    PartsVerdict parts;
    if (head.ok() && !head->parts().empty() && !verdicts_.Bad(id)) {
      if (!ask) return Refused(Text(id) + " has parts in stores that nobody asks here");
      RW_ASSIGN_OR_RETURN(parts, ask(*head));
    }
    Status good = head.ok() ? Check(*head, counted) : head.status();
    RW_RETURN_IF_ERROR(stopped);
    if (good.ok() && parts) {
      good = parts([&] { return counted(id, head->bytes(), head->bytes()); });
      RW_RETURN_IF_ERROR(stopped);
      if (!good.ok() && good.code() != StatusCode::kDataLoss) return good;
    }
    if (good.ok()) {
      return CheckpointBase{head->job(), id.epoch, id.step, head->world()};
    }
    if (good.code() == StatusCode::kDataLoss) verdicts_.Remember(id, good);
    Log(LogLevel::kError,
        "CHECKPOINT DAMAGED, using the one before " + Text(id) + ": " + Message(good));
  }
  return std::nullopt;
}

StatusOr<std::vector<CheckpointId>> CheckpointStore::Newest(uint64_t job, size_t count) const {
  RW_ASSIGN_OR_RETURN(const auto complete, Complete());
  std::vector<CheckpointId> newest;
  for (const Kept& kept : complete) {
    if (newest.size() == count) break;
    if (kept.job == job && !kept.bad && !kept.unread) newest.push_back(kept.id);
  }
  return newest;
}

StatusOr<std::vector<CheckpointBase>> CheckpointStore::NewestOfEachJob() const {
  RW_ASSIGN_OR_RETURN(const auto ids, reader().Complete());
  std::set<uint64_t> jobs;
  std::vector<CheckpointBase> newest;
  for (const CheckpointId& id : ids) {
    const auto manifest = reader().Head(id);
    if (!manifest.ok() || !jobs.insert(manifest->job()).second) continue;
    newest.push_back({manifest->job(), id.epoch, id.step, manifest->world()});
  }
  return newest;
}

}  // namespace ringwood

#include "server/store/view/prune.h"

#include <algorithm>
#include <map>
#include <utility>

#include "server/store/ballast.h"
#include "server/store/checkpoint_store.h"
#include "server/store/pins.h"
#include "server/store/store_directory.h"
#include "server/store/view/parts_view.h"

namespace ringwood {
namespace {

// Newest first, as ListCheckpoints has them.
using Summaries = std::vector<CheckpointSummary>;

CheckpointId IdOf(const CheckpointSummary& summary) { return {summary.epoch, summary.step}; }

// Damage is written into `problem`. A disk that cannot be read now is an error and no damage.
Status VerifyNewest(const CheckpointReader& reader, const PartsView& parts, size_t good,
                    const ReadProgress& progress, Summaries* list) {
  std::map<uint64_t, size_t> found;  // by job
  for (CheckpointSummary& summary : *list) {
    if (!summary.complete || found[summary.job] >= good) continue;
    const auto manifest = reader.Manifest(IdOf(summary));
    const Status verified =
        manifest.ok() ? parts.Verify(reader, *manifest, progress) : manifest.status();
    if (!verified.ok() && verified.code() != StatusCode::kDataLoss) return verified;
    if (verified.ok()) ++found[summary.job];
    summary.damaged = !verified.ok();
    summary.problem = Message(verified);
  }
  return OkStatus();
}

std::vector<CheckpointId> Choose(const Summaries& list,
                                 const std::map<CheckpointId, std::string>& pins,
                                 const Retention& retention) {
  std::vector<Kept> complete;
  for (const CheckpointSummary& summary : list) {
    if (!summary.complete && !summary.damaged) continue;
    const CheckpointId id = IdOf(summary);
    complete.push_back({id, summary.job, summary.damaged, pins.contains(id)});
  }
  return Superfluous(std::move(complete), retention);
}

}  // namespace

StatusOr<PruneResult> PruneStore(const std::string& store_dir, const Retention& retention,
                                 bool dry_run, const ReadProgress& progress,
                                 const std::vector<std::string>& further) {
  const std::string directory = store_dir + "/checkpoints";
  RW_RETURN_IF_ERROR(CheckStore(store_dir));
  std::unique_ptr<CheckpointStore> store;
  if (!dry_run) {  // first: nobody else changes the store from here on
    FreeBallastIfFull(store_dir);
    RW_ASSIGN_OR_RETURN(store, CheckpointStore::Open(directory));
    store->Keep(retention);
  }
  RW_ASSIGN_OR_RETURN(const StoreView view, StoreView::Open(store_dir));
  RW_ASSIGN_OR_RETURN(Summaries list, Summarize(view.reader()));
  const size_t good = std::max(retention.newest, kKeptCheckpoints);
  std::vector<std::string> all = {store_dir};
  all.insert(all.end(), further.begin(), further.end());
  RW_ASSIGN_OR_RETURN(const PartsView parts, PartsView::Open(all));
  RW_RETURN_IF_ERROR(VerifyNewest(view.reader(), parts, good, progress, &list));
  PruneResult result;
  for (const CheckpointSummary& summary : list) {
    if (!summary.damaged) continue;
    result.damaged.push_back(summary);
    if (!dry_run) store->Distrust(IdOf(summary), Corrupt(summary.problem));
  }
  std::vector<CheckpointId> removed;
  if (dry_run) {
    RW_ASSIGN_OR_RETURN(const auto pins, ReadPins(directory));
    removed = Choose(list, pins, retention);
  } else {
    RW_ASSIGN_OR_RETURN(const auto unread, store->Unread());
    for (const CheckpointId& id : unread) (void)store->ReadBack(id);  // which remembers the result
    RW_ASSIGN_OR_RETURN(removed, store->Prune());
    KeepBallast(store_dir);
  }
  for (const CheckpointSummary& summary : list) {
    const bool gone = std::find(removed.begin(), removed.end(), IdOf(summary)) != removed.end();
    if (gone) result.removed.push_back(summary);
  }
  return result;
}

}  // namespace ringwood

#include "server/store/view/store_view.h"

#include <algorithm>
#include <functional>
#include <set>

#include "absl/strings/str_format.h"
#include "server/store/database.h"
#include "server/store/pins.h"
#include "server/store/record/manifest.h"
#include "server/store/store_directory.h"
#include "server/store/view/parts_view.h"

namespace ringwood {
namespace {

// A running server may replace files while the read-only view opens; then the next try sees the new
// ones.
constexpr int kTries = 5;

}  // namespace

StatusOr<StoreView> StoreView::Open(const std::string& store_dir) {
  RW_RETURN_IF_ERROR(CheckStore(store_dir));
  const std::string directory = store_dir + "/checkpoints";
  if (!HasDatabase(directory) && !PartsFolders(store_dir).empty()) {
    return Refused("the store " + store_dir +
                   " has only parts of checkpoints: name the --store of the server that "
                   "coordinated the job first, and this one as a further --store");
  }
  RW_ASSIGN_OR_RETURN(auto db, OpenToRead(directory, "the store " + store_dir));
  return StoreView(std::move(db), "the store " + store_dir);
}

StatusOr<std::unique_ptr<rocksdb::DB>> OpenToRead(const std::string& directory,
                                                  const std::string& name) {
  rocksdb::Options options = SafeOptions();
  options.create_if_missing = false;
  options.info_log_level = rocksdb::InfoLogLevel::HEADER_LEVEL;
  rocksdb::Status opened;
  for (int i = 0; i < kTries; ++i) {
    rocksdb::DB* db = nullptr;
    opened = rocksdb::DB::OpenForReadOnly(options, directory, &db);
    if (opened.ok()) return std::unique_ptr<rocksdb::DB>(db);
  }
  return FromRocks(opened, name);
}

StatusOr<std::vector<CheckpointSummary>> Summarize(const CheckpointReader& reader) {
  RW_ASSIGN_OR_RETURN(const auto complete, reader.Complete());
  RW_ASSIGN_OR_RETURN(const auto unread, reader.Unread());
  const auto present = reader.WithChunks();  // damaged chunks may hide incomplete ones, no others
  if (!present.ok() && present.status().code() != StatusCode::kDataLoss) return present.status();
  std::set<CheckpointId, std::greater<CheckpointId>> ids(complete.begin(), complete.end());
  if (present.ok()) ids.insert(present->begin(), present->end());
  std::vector<CheckpointSummary> summaries;
  std::set<CheckpointId> homes;
  for (const CheckpointId& id : ids) {  // a home is older than those that have chunks from it
    CheckpointSummary summary;
    summary.step = id.step;
    summary.epoch = id.epoch;
    if (std::find(complete.begin(), complete.end(), id) == complete.end()) {
      if (homes.contains(id)) continue;
      summary.problem = "incomplete: never finished, or being written";
    } else if (const auto manifest = reader.Head(id); !manifest.ok()) {
      summary.damaged = true;
      summary.problem = Message(manifest.status());
    } else {
      summary.complete = true;
      summary.unread = std::find(unread.begin(), unread.end(), id) != unread.end();
      summary.job = manifest->job();
      summary.bytes = manifest->bytes();
      summary.stored_bytes = StoredBytes(*manifest);
      for (const CheckpointId& home : HomesOf(*manifest)) homes.insert(home);
      summary.stores = 1 + manifest->parts_size();
      summary.world = static_cast<int>(manifest->world());
      summary.unix_seconds = manifest->unix_seconds();
    }
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

StatusOr<std::vector<CheckpointSummary>> ListCheckpoints(const std::string& store_dir) {
  RW_ASSIGN_OR_RETURN(const StoreView view, StoreView::Open(store_dir));
  RW_ASSIGN_OR_RETURN(auto summaries, Summarize(view.reader()));
  RW_ASSIGN_OR_RETURN(const auto pins, ReadPins(store_dir + "/checkpoints"));
  for (CheckpointSummary& summary : summaries) {
    const auto pin = pins.find({summary.epoch, summary.step});
    summary.pinned = pin != pins.end();
    if (summary.pinned) summary.label = pin->second;
  }
  return summaries;
}

StatusOr<v1::CheckpointManifest> ShowCheckpoint(const std::string& store_dir,
                                                const WantedCheckpoint& wanted) {
  RW_ASSIGN_OR_RETURN(const StoreView view, StoreView::Open(store_dir));
  return view.reader().Find(wanted);
}

Status VerifyCheckpoint(const std::string& store_dir, const WantedCheckpoint& wanted,
                        const ReadProgress& progress, const std::vector<std::string>& further) {
  std::vector<std::string> all = {store_dir};
  all.insert(all.end(), further.begin(), further.end());
  RW_ASSIGN_OR_RETURN(const PartsView parts, PartsView::Open(all));
  RW_ASSIGN_OR_RETURN(const StoreView view, StoreView::Open(store_dir));
  RW_ASSIGN_OR_RETURN(const auto manifest, view.reader().Find(wanted));
  return ExplainRead(store_dir, {manifest.epoch(), manifest.step()},
                     parts.Verify(view.reader(), manifest, progress));
}

Status ExplainRead(const std::string& store_dir, const CheckpointId& id, const Status& failed) {
  if (failed.ok()) return failed;
  const StatusOr<StoreView> now = StoreView::Open(store_dir);
  if (!now.ok() || now->reader().Resolve(id).status().code() != StatusCode::kNotFound)
    return failed;
  return Aborted(absl::StrFormat(
      "the checkpoint of step %d (epoch %d) was removed while it was read, for newer ones: take "
      "the newest, or pin one before it is read (ringwood checkpoint pin)",
      id.step, id.epoch));
}

}  // namespace ringwood

#include "server/store/service/stripe_collector.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/units.h"
#include "proto/store_places.h"
#include "server/store/record/manifest_rows.h"
#include "server/store/service/sender.h"

namespace ringwood {
namespace {

constexpr size_t kMaxNamed = 80;  // characters of a list of ranks

// While a large stripe is synced its checkpoint is not silent.
class Busy {
 public:
  explicit Busy(StripeCollector::Life* life) : life_(life) { ++life_->busy; }
  ~Busy() {
    life_->heard = Now();
    --life_->busy;
  }

 private:
  StripeCollector::Life* const life_;
};

std::string WhichPart(const v1::CheckpointManifest& manifest) {
  if (manifest.part() == 0) return "";
  return absl::StrFormat("part %d of %d of the ", manifest.part(), manifest.stores());
}

std::string Unchanged(const v1::CheckpointManifest& manifest) {
  if (manifest.homes().empty()) return "";
  return absl::StrFormat(", %s of it changed",
                         FormatBytes(static_cast<double>(StoredBytes(manifest))));
}

}  // namespace

StripeCollector::StripeCollector(CheckpointStore* store, std::function<int64_t()> unix_seconds,
                                 StoreQuota* quota, ReadBack read_back)
    : store_(store),
      unix_seconds_(std::move(unix_seconds)),
      quota_(quota),
      read_back_(std::move(read_back)) {}

void StripeCollector::Fence() {
  record_.set_epoch(0);
  while (!open_.empty()) Fail(open_.begin()->first, Aborted("the epoch ended under it"));
}

void StripeCollector::SetEpoch(const v1::EpochRecord& record, const Share& share) {
  Fence();
  record_ = record;
  share_ = share;
}

Status StripeCollector::Invite(const CheckpointId& id) {
  if (const auto outcome = outcomes_.find(id); outcome != outcomes_.end()) {
    return outcome->second.ok() ? OkStatus() : outcome->second;
  }
  if (open_.contains(id)) return OkStatus();
  RW_RETURN_IF_ERROR(CheckRoom());
  if (quota_ != nullptr) quota_->Measure();
  open_[id].life->heard = Now();
  return OkStatus();
}

bool StripeCollector::IsTooEarly(const v1::SaveChunk& first) const {
  const CheckpointId id{first.epoch(), first.step()};
  return share_.store > 0 && id.epoch >= record_.epoch() && !open_.contains(id) &&
         !outcomes_.contains(id);
}

std::set<CheckpointId> StripeCollector::UnderWay() const {
  std::set<CheckpointId> under_way;
  for (const auto& [id, open] : open_) under_way.insert(id);
  return under_way;
}

Status StripeCollector::CheckRoom() const {
  if (open_.size() < kMaxOpen) return OkStatus();
  return Exhausted(
      absl::StrFormat("%d checkpoints are being written: wait for one to end", open_.size()));
}

Status StripeCollector::CheckStripe(const v1::SaveChunk& chunk) const {
  RW_RETURN_IF_ERROR(CheckSender(record_, chunk.epoch(), chunk.rank(), chunk.incarnation()));
  if (chunk.world() != record_.world()) {
    return Invalid(absl::StrFormat("rank %d of %d saves in a world of %d", chunk.rank(),
                                   chunk.world(), record_.world()));
  }
  const uint32_t store = StoreOfRank(chunk.rank(), share_.stores - 1);
  if (store == share_.store) return OkStatus();
  return Invalid(absl::StrFormat("the stripe of rank %d belongs to store %d of %d, this is %d",
                                 chunk.rank(), store, share_.stores, share_.store));
}

StatusOr<std::unique_ptr<StripeCollector::Incoming>> StripeCollector::Begin(
    const v1::SaveChunk& first) {
  RW_RETURN_IF_ERROR(CheckStripe(first));
  const CheckpointId id{first.epoch(), first.step()};
  if (auto outcome = outcomes_.find(id); outcome != outcomes_.end()) {
    return outcome->second.ok()
               ? AlreadyExists(absl::StrFormat("the checkpoint of step %d is complete", id.step))
               : Annotate(outcome->second, absl::StrFormat("the checkpoint of step %d", id.step));
  }
  FailMissed(id, first.rank());
  const bool begins = !open_.contains(id);
  if (begins) RW_RETURN_IF_ERROR(CheckRoom());
  if (quota_ != nullptr && begins) quota_->Measure();
  if (std::exchange(open_[id].begun[first.rank()], true)) {
    return AlreadyExists(
        absl::StrFormat("rank %d saves step %d already", first.rank(), first.step()));
  }
  open_[id].life->heard = Now();
  std::unique_ptr<Incoming> incoming(new Incoming(this, id, first.rank(), open_[id].life));
  StatusOr<std::unique_ptr<StripeWriter>> writer =
      store_->NewStripe(id, first.rank(), record_.job());
  if (!writer.ok()) {
    Fail(id, writer.status());
    return writer.status();
  }
  incoming->writer_ = *std::move(writer);
  if (!open_[id].opening) open_[id].opening = store_->openings();
  if (begins && share_.stores > 1 && divided_.begins) divided_.begins(id);
  return incoming;
}

// A rank brings its stripes in the order of their steps.
void StripeCollector::FailMissed(const CheckpointId& id, uint32_t rank) {
  std::vector<CheckpointId> missed;
  for (const auto& [older, open] : open_) {
    if (older < id && !open.begun.contains(rank)) missed.push_back(older);
  }
  for (const CheckpointId& older : missed) {
    Fail(older, Unavailable(absl::StrFormat("rank %d brought nothing, and now saves step %d: its "
                                            "own output says why",
                                            rank, id.step)));
  }
}

bool StripeCollector::GiveUp(TimePoint now) {
  std::vector<CheckpointId> silent;
  for (const auto& [id, open] : open_) {
    // The further stores see to the ranks of their parts.
    if (HasOwnStripes(open)) continue;
    if (open.life->busy == 0 && now - open.life->heard.load() > Seconds(kPatienceSeconds))
      silent.push_back(id);
  }
  for (const CheckpointId& id : silent) {
    Fail(id, Unavailable(absl::StrFormat(
                 "nothing came for %.0f s; not there yet: the whole stripe of rank %s (every rank "
                 "saves after the same step)",
                 kPatienceSeconds, Missing(id))));
  }
  return !silent.empty();
}

std::string StripeCollector::Missing(const CheckpointId& id) const {
  const auto open = open_.find(id);
  if (open == open_.end()) return "";
  std::string missing;
  for (uint32_t rank = 0; rank < record_.world(); ++rank) {
    if (open->second.stripes.contains(rank)) continue;
    const uint32_t store = StoreOfRank(rank, share_.stores - 1);
    if (share_.store > 0 ? store != share_.store : open->second.parts.contains(store)) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    if (missing.size() > kMaxNamed) return missing + ", ...";
  }
  return missing;
}

StripeCollector::Incoming::~Incoming() {
  if (writer_ == nullptr) return;
  collector_->Fail(id_, Unavailable(absl::StrFormat("rank %d stopped in the middle", rank_)));
}

Status StripeCollector::Incoming::Add(const v1::SaveChunk& chunk) {
  const Status written = Write(chunk);
  return written.ok() ? written : Fail(written);
}

StatusOr<uint64_t> StripeCollector::Incoming::Finish() { return Keep(Sync()); }

Status StripeCollector::Incoming::Write(const v1::SaveChunk& chunk) {
  if (writer_ == nullptr || life_->over) return Aborted("this checkpoint is over");
  if (chunk.epoch() != id_.epoch || chunk.step() != id_.step || chunk.rank() != rank_) {
    return Invalid(absl::StrFormat("rank %d mixed two stripes in one stream", rank_));
  }
  life_->heard = Now();
  const uint64_t before = writer_->written_bytes();
  RW_RETURN_IF_ERROR(writer_->Add(chunk));
  const uint64_t taken = writer_->written_bytes() - before;  // none: it was there already
  if (taken == 0 || collector_->quota_ == nullptr) return OkStatus();
  return collector_->quota_->Take(taken);
}

Status StripeCollector::Incoming::Sync() {
  if (writer_ == nullptr || life_->over) return Aborted("this checkpoint is over");
  const Busy busy(life_.get());
  return writer_->Finish();
}

Status StripeCollector::Incoming::CheckListed() {
  const auto found = collector_->open_.find(id_);
  if (writer_ == nullptr || found == collector_->open_.end()) {
    return Aborted("this checkpoint is over");
  }
  Open& open = found->second;
  open.listed_bytes += writer_->listed_bytes();
  if (open.listed_bytes > kMaxManifestBytes) {
    return Exhausted(
        absl::StrFormat("the manifest takes more than %s with the items of rank %d (about 1.5 "
                        "million items, or 7 TiB): save less",
                        FormatBytes(static_cast<double>(kMaxManifestBytes)), rank_));
  }
  return OkStatus();
}

StatusOr<uint64_t> StripeCollector::Incoming::Keep(const Status& so_far) {
  if (!so_far.ok()) return Fail(so_far);
  if (const Status listed = CheckListed(); !listed.ok()) return Fail(listed);
  const auto found = collector_->open_.find(id_);
  const uint64_t bytes = writer_->bytes();
  found->second.stripes[rank_] = std::move(writer_);
  life_->heard = Now();
  collector_->CompleteIfAllCame(id_);
  return bytes;
}

// What the caller is told: where another rank's stripe failed before, or the epoch ended, that.
Status StripeCollector::Incoming::Fail(const Status& why) {
  writer_.reset();
  if (collector_->open_.contains(id_)) {
    collector_->Fail(id_, why);
    return why;
  }
  const auto outcome = collector_->outcomes_.find(id_);
  const bool failed = outcome != collector_->outcomes_.end() && !outcome->second.ok();
  return failed ? outcome->second : Aborted("this checkpoint is over");
}

bool StripeCollector::HasOwnStripes(const Open& open) const {
  return open.stripes.size() == RanksOfStore(share_.store, share_.stores - 1, record_.world());
}

void StripeCollector::PartCame(const CheckpointId& id, uint32_t part, StatusOr<StoredPart> came) {
  const auto open = open_.find(id);
  if (open == open_.end()) return;
  Status wrong = came.status();
  if (wrong.ok()) {
    wrong = CheckPart(came->manifest, record_.job(), id, part, share_.stores);
  }
  if (!wrong.ok()) return Fail(id, wrong);
  open->second.parts[part] = *std::move(came);
  CompleteIfAllCame(id);
}

void StripeCollector::CompleteIfAllCame(const CheckpointId& id) {
  const Open& open = open_[id];
  const size_t parts = share_.store == 0 ? share_.stores - 1 : 0;
  if (HasOwnStripes(open) && open.parts.size() == parts) Complete(id);
}

StatusOr<v1::CheckpointManifest> StripeCollector::ManifestOf(
    const CheckpointId& id, const std::map<uint32_t, Stripe>& stripes) {
  RW_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest,
                      Assemble(stripes, store_->HomesFor(id), share_.stores > 1));
  if (share_.stores > 1 && share_.store == 0) {
    std::vector<StoredPart> parts;
    for (auto& [number, part] : open_[id].parts) parts.push_back(std::move(part));
    RW_ASSIGN_OR_RETURN(manifest, Unite(std::move(manifest), std::move(parts)));
  } else if (share_.store > 0) {
    manifest.set_part(share_.store);
    manifest.set_stores(share_.stores);
  }
  manifest.set_job(record_.job());
  manifest.set_epoch(id.epoch);
  manifest.set_step(id.step);
  manifest.set_world(record_.world());
  manifest.set_unix_seconds(unix_seconds_());
  return manifest;
}

void StripeCollector::Complete(const CheckpointId& id) {
  std::vector<StripeWriter*> written;
  std::map<uint32_t, Stripe> stripes;
  for (const auto& [rank, stripe] : open_[id].stripes) {
    written.push_back(stripe.get());
    stripes[rank] = stripe->TakeItems();
  }
  if (const Status taken = store_->Ingest(written); !taken.ok()) return Fail(id, taken);
  const StatusOr<v1::CheckpointManifest> manifest = ManifestOf(id, stripes);
  if (!manifest.ok()) return Fail(id, manifest.status());
  if (Status published = store_->Publish(*manifest, open_[id].opening); !published.ok()) {
    return Fail(id, published);
  }
  Log(LogLevel::kInfo,
      absl::StrFormat("%scheckpoint of step %d is complete: %s%s", WhichPart(*manifest), id.step,
                      FormatBytes(static_cast<double>(manifest->bytes())), Unchanged(*manifest)));
  open_[id].life->over = true;
  open_.erase(id);
  outcomes_[id] = OkStatus();
  if (outcomes_.size() > kMaxOutcomes) outcomes_.erase(outcomes_.begin());
  unread_.insert(id);
  if (read_back_ != nullptr) return read_back_(id);
  Settle(id, store_->ReadBack(id));
}

void StripeCollector::Settle(const CheckpointId& id, const Status& found) {
  if (unread_.erase(id) == 0) return;
  if (found.code() == StatusCode::kDataLoss) outcomes_[id] = found;
  store_->Settle(id, found);
}

void StripeCollector::Fail(const CheckpointId& id, const Status& why) {
  const auto open = open_.find(id);
  if (open == open_.end()) return;
  open->second.life->over = true;
  open_.erase(open);
  Log(LogLevel::kError,
      absl::StrFormat("THE CHECKPOINT OF STEP %d FAILED, the one before stays: %s", id.step,
                      Message(why)));
  store_->Drop(id);
  if (share_.stores > 1 && divided_.failed) divided_.failed(id);
  outcomes_[id] = why;
  if (outcomes_.size() > kMaxOutcomes) outcomes_.erase(outcomes_.begin());
}

std::optional<Status> StripeCollector::Outcome(uint64_t epoch, uint64_t step) const {
  // By the newest epoch: while the fence is up, the epoch that was.
  if (epoch == 0) epoch = record_.epoch();
  for (auto outcome = outcomes_.rbegin(); outcome != outcomes_.rend(); ++outcome) {
    if (outcome->first.step != step) continue;
    if (epoch != 0 && outcome->first.epoch != epoch) continue;
    const bool waits = !unread_.empty() && *unread_.begin() < outcome->first;
    if (outcome->second.ok() && waits) return std::nullopt;
    return outcome->second;
  }
  // One that nobody has begun here, as a rank asks whose stripe goes to a further store.
  if (epoch < record_.epoch()) return Aborted(absl::StrFormat("epoch %d is over", epoch));
  return std::nullopt;
}

}  // namespace ringwood

#include "server/store/stripe_collector.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/units.h"
#include "server/store/manifest_rows.h"
#include "server/store/sender.h"

namespace ringwood {
namespace {

constexpr size_t kMaxNamed = 80;  // characters of a list of ranks

}  // namespace

StripeCollector::StripeCollector(CheckpointStore* store, std::function<int64_t()> unix_seconds)
    : store_(store), unix_seconds_(std::move(unix_seconds)) {}

void StripeCollector::Fence() {
  record_.set_epoch(0);
  while (!open_.empty()) Fail(open_.begin()->first, Aborted("the epoch ended under it"));
}

void StripeCollector::SetEpoch(const v1::EpochRecord& record) {
  Fence();
  record_ = record;
}

Status StripeCollector::CheckStripe(const v1::SaveChunk& chunk) const {
  RW_RETURN_IF_ERROR(CheckSender(record_, chunk.epoch(), chunk.rank(), chunk.incarnation()));
  if (chunk.world() == record_.world()) return OkStatus();
  return Invalid(absl::StrFormat("rank %d of %d saves in a world of %d", chunk.rank(),
                                 chunk.world(), record_.world()));
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
  if (!open_.contains(id) && open_.size() >= kMaxOpen) {
    return Exhausted(
        absl::StrFormat("%d checkpoints are being written: wait for one to end", open_.size()));
  }
  if (std::exchange(open_[id].begun[first.rank()], true)) {
    return AlreadyExists(
        absl::StrFormat("rank %d saves step %d already", first.rank(), first.step()));
  }
  std::unique_ptr<Incoming> incoming(new Incoming(this, id, first.rank()));
  StatusOr<std::unique_ptr<StripeWriter>> writer = store_->NewStripe(id, first.rank());
  if (!writer.ok()) {
    Fail(id, writer.status());
    return writer.status();
  }
  incoming->writer_ = *std::move(writer);
  open_[id].heard = Now();
  return incoming;
}

bool StripeCollector::GiveUp(TimePoint now) {
  std::vector<CheckpointId> silent;
  for (const auto& [id, open] : open_) {
    if (now - open.heard > Seconds(kPatienceSeconds)) silent.push_back(id);
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
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    if (missing.size() > kMaxNamed) return missing + ", ...";
  }
  return missing;
}

StripeCollector::Incoming::~Incoming() {
  if (writer_ == nullptr) return;
  collector_->Fail(id_, Unavailable(absl::StrFormat("rank %d stopped in the middle", rank_)));
}

Status StripeCollector::Incoming::Fail(Status why) {
  writer_.reset();
  collector_->Fail(id_, why);
  return why;
}

Status StripeCollector::Incoming::Add(const v1::SaveChunk& chunk) {
  if (writer_ == nullptr) return Aborted("this stripe is over");
  const auto open = collector_->open_.find(id_);
  if (open == collector_->open_.end()) {  // another rank's stripe failed, or the epoch ended
    writer_.reset();
    auto outcome = collector_->outcomes_.find(id_);
    return outcome != collector_->outcomes_.end() ? outcome->second : Aborted("the epoch ended");
  }
  if (chunk.epoch() != id_.epoch || chunk.step() != id_.step || chunk.rank() != rank_) {
    return Fail(Invalid(absl::StrFormat("rank %d mixed two stripes in one stream", rank_)));
  }
  open->second.heard = Now();
  Status added = writer_->Add(chunk);
  return added.ok() ? added : Fail(added);
}

StatusOr<uint64_t> StripeCollector::Incoming::Finish() { return collector_->Take(this); }

StatusOr<uint64_t> StripeCollector::Take(Incoming* incoming) {
  auto open = open_.find(incoming->id_);
  if (incoming->writer_ == nullptr || open == open_.end()) {
    incoming->writer_.reset();
    return Aborted("this checkpoint is over");
  }
  open->second.listed_bytes += incoming->writer_->listed_bytes();
  Status kept = OkStatus();
  if (open->second.listed_bytes > kMaxManifestBytes) {
    kept = Exhausted(absl::StrFormat(
        "the manifest takes more than %s with the items of rank %d (about 1.5 million items, or "
        "4 TiB): save less",
        FormatBytes(static_cast<double>(kMaxManifestBytes)), incoming->rank_));
  }
  if (kept.ok()) kept = incoming->writer_->Finish();
  if (kept.ok()) kept = store_->Ingest(incoming->writer_.get());
  if (!kept.ok()) return incoming->Fail(kept);
  const uint64_t bytes = incoming->writer_->bytes();
  open->second.stripes[incoming->rank_] = incoming->writer_->TakeItems();
  incoming->writer_.reset();
  if (open->second.stripes.size() == record_.world()) Complete(incoming->id_);
  return bytes;
}

void StripeCollector::Complete(const CheckpointId& id) {
  StatusOr<v1::CheckpointManifest> manifest = Assemble(open_[id].stripes);
  if (!manifest.ok()) return Fail(id, manifest.status());
  manifest->set_job(record_.job());
  manifest->set_epoch(id.epoch);
  manifest->set_step(id.step);
  manifest->set_world(record_.world());
  manifest->set_unix_seconds(unix_seconds_());
  if (Status published = store_->Publish(*manifest); !published.ok()) return Fail(id, published);
  Log(LogLevel::kInfo, absl::StrFormat("checkpoint of step %d is complete: %s", id.step,
                                       FormatBytes(static_cast<double>(manifest->bytes()))));
  open_.erase(id);
  outcomes_[id] = OkStatus();
  if (outcomes_.size() > kMaxOutcomes) outcomes_.erase(outcomes_.begin());
}

void StripeCollector::Fail(const CheckpointId& id, const Status& why) {
  if (open_.erase(id) == 0) return;
  Log(LogLevel::kError,
      absl::StrFormat("THE CHECKPOINT OF STEP %d FAILED, the one before stays: %s", id.step,
                      Message(why)));
  store_->Drop(id);
  outcomes_[id] = why;
  if (outcomes_.size() > kMaxOutcomes) outcomes_.erase(outcomes_.begin());
}

std::optional<Status> StripeCollector::Outcome(uint64_t epoch, uint64_t step) const {
  // By the newest epoch: while the fence is up, the epoch that was.
  if (epoch == 0) epoch = record_.epoch();
  for (auto outcome = outcomes_.rbegin(); outcome != outcomes_.rend(); ++outcome) {
    if (outcome->first.step != step) continue;
    if (epoch != 0 && outcome->first.epoch != epoch) continue;
    return outcome->second;
  }
  return std::nullopt;
}

}  // namespace ringwood

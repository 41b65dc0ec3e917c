// A stripe while it comes (StripeCollector::Incoming).
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "server/store/record/manifest_rows.h"
#include "server/store/service/stripe_collector.h"

namespace ringwood {
namespace {

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

}  // namespace

StripeCollector::Incoming::~Incoming() {
  if (writer_ == nullptr) return;
  collector_->Fail(id_, Unavailable(absl::StrFormat("rank %d stopped in the middle", rank_)));
}

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

}  // namespace ringwood

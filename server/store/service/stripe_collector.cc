#include "server/store/service/stripe_collector.h"

#include <algorithm>
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
  crews_.clear();
  while (!open_.empty()) Fail(open_.begin()->first, Aborted("the epoch ended under it"));
}

void StripeCollector::SetEpoch(const v1::EpochRecord& record, const Share& share) {
  if (record.job() != record_.job()) Fence();
  record_ = record;
  share_ = share;
  crews_[record.epoch()] = std::make_shared<const Crew>(Crew{record, share});
  std::erase_if(crews_, [&](const auto& crew) { return crew.first < record.origin(); });
  if (crews_.size() > kMaxCrews) crews_.erase(crews_.begin());
  for (const CheckpointId& id : UnderWay()) {
    if (id.epoch < record.origin()) {
      Fail(id, Aborted("the job went back to where it was before"));
    } else {
      FailWhereGone(id);
    }
  }
}

std::shared_ptr<const StripeCollector::Crew> StripeCollector::CrewOf(const CheckpointId& id) const {
  if (const auto open = open_.find(id); open != open_.end()) return open->second.crew;
  const auto crew = crews_.find(id.epoch);
  // What the main store has begun in an older epoch is under way here, or was given up.
  const bool begins = share_.store == 0 || id.epoch == record_.epoch();
  return crew != crews_.end() && begins ? crew->second : nullptr;
}

bool StripeCollector::IsPresent(uint64_t incarnation) const {
  const auto end = record_.members().begin() + record_.world();
  return std::any_of(record_.members().begin(), end,
                     [&](const auto& member) { return member.incarnation() == incarnation; });
}

void StripeCollector::FailWhereGone(const CheckpointId& id) {
  const v1::EpochRecord& record = open_.at(id).crew->record;
  if (record.epoch() == record_.epoch()) return;
  if (FurtherStores(record.members(), record.world()) !=
      FurtherStores(record_.members(), record_.world())) {
    return Fail(id, Aborted("the stores that share it have changed"));
  }
  for (const uint32_t rank : MissingRanks(open_.at(id))) {
    const v1::RecordedMember& member = record.members(static_cast<int>(rank));
    if (IsPresent(member.incarnation())) continue;
    return Fail(id, Unavailable(absl::StrFormat("rank %d (host %s) is gone, and its part had not "
                                                "come; the next one is without it",
                                                rank, member.host())));
  }
}

Status StripeCollector::Invite(const CheckpointId& id) {
  if (const auto outcome = outcomes_.find(id); outcome != outcomes_.end()) {
    return outcome->second.ok() ? OkStatus() : outcome->second;
  }
  if (open_.contains(id)) return OkStatus();
  RW_RETURN_IF_ERROR(CheckRoom());
  if (quota_ != nullptr) quota_->Measure();
  open_[id].crew = crews_.at(id.epoch);
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
  const auto crew = CrewOf({chunk.epoch(), chunk.step()});
  const v1::EpochRecord& record = crew == nullptr ? record_ : crew->record;
  RW_RETURN_IF_ERROR(CheckSender(record, chunk.epoch(), chunk.rank(), chunk.incarnation()));
  if (chunk.world() != record.world()) {
    return Invalid(absl::StrFormat("rank %d of %d saves in a world of %d", chunk.rank(),
                                   chunk.world(), record.world()));
  }
  const auto [own, stores] = crew->share;
  const uint32_t store = StoreOfRank(chunk.rank(), stores - 1);
  if (store == own) return OkStatus();
  return Invalid(absl::StrFormat("the stripe of rank %d belongs to store %d of %d, this is %d",
                                 chunk.rank(), store, stores, own));
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
  FailMissed(id, first.incarnation());
  const bool begins = !open_.contains(id);
  if (begins && store_->reader().Head(id).ok()) {  // by a process that this one came after
    outcomes_[id] = OkStatus();
    return AlreadyExists(absl::StrFormat("the checkpoint of step %d is complete", id.step));
  }
  if (begins) RW_RETURN_IF_ERROR(CheckRoom());
  if (quota_ != nullptr && begins) quota_->Measure();
  if (begins) open_[id].crew = crews_.at(id.epoch);
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
  if (begins) FailWhereGone(id);
  const bool divided = open_.contains(id) && open_[id].crew->share.stores > 1;
  if (begins && divided && divided_.begins) divided_.begins(id);
  return incoming;
}

// A process brings its stripes in the order of their steps.
void StripeCollector::FailMissed(const CheckpointId& id, uint64_t incarnation) {
  for (const CheckpointId& older : UnderWay()) {
    if (!(older < id)) continue;
    const Open& open = open_.at(older);
    for (const uint32_t rank : MissingRanks(open)) {
      if (open.begun.contains(rank)) continue;
      if (open.crew->record.members(static_cast<int>(rank)).incarnation() != incarnation) continue;
      Fail(older, Unavailable(absl::StrFormat("rank %d brought nothing, and now saves step %d: its "
                                              "own output says why",
                                              rank, id.step)));
      break;
    }
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

std::vector<uint32_t> StripeCollector::MissingRanks(const Open& open) const {
  const auto [own, stores] = open.crew->share;
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < open.crew->record.world(); ++rank) {
    if (open.stripes.contains(rank)) continue;
    const uint32_t store = StoreOfRank(rank, stores - 1);
    if (own > 0 ? store != own : open.parts.contains(store)) continue;
    missing.push_back(rank);
  }
  return missing;
}

std::string StripeCollector::Missing(const CheckpointId& id) const {
  const auto open = open_.find(id);
  if (open == open_.end()) return "";
  std::string missing;
  for (const uint32_t rank : MissingRanks(open->second)) {
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    if (missing.size() > kMaxNamed) return missing + ", ...";
  }
  return missing;
}

bool StripeCollector::HasOwnStripes(const Open& open) const {
  const auto [own, stores] = open.crew->share;
  return open.stripes.size() == RanksOfStore(own, stores - 1, open.crew->record.world());
}

void StripeCollector::PartCame(const CheckpointId& id, uint32_t part, StatusOr<StoredPart> came) {
  const auto open = open_.find(id);
  if (open == open_.end()) return;
  Status wrong = came.status();
  if (wrong.ok()) {
    const Crew& crew = *open->second.crew;
    wrong = CheckPart(came->manifest, crew.record.job(), id, part, crew.share.stores);
  }
  if (!wrong.ok()) return Fail(id, wrong);
  open->second.parts[part] = *std::move(came);
  CompleteIfAllCame(id);
}

void StripeCollector::CompleteIfAllCame(const CheckpointId& id) {
  const Open& open = open_[id];
  const auto [own, stores] = open.crew->share;
  const size_t parts = own == 0 ? stores - 1 : 0;
  if (HasOwnStripes(open) && open.parts.size() == parts) Complete(id);
}

StatusOr<v1::CheckpointManifest> StripeCollector::ManifestOf(
    const CheckpointId& id, const std::map<uint32_t, Stripe>& stripes) {
  const Crew& crew = *open_[id].crew;
  const auto [own, stores] = crew.share;
  RW_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest,
                      Assemble(stripes, store_->HomesFor(id), stores > 1));
  if (stores > 1 && own == 0) {
    std::vector<StoredPart> parts;
    for (auto& [number, part] : open_[id].parts) parts.push_back(std::move(part));
    RW_ASSIGN_OR_RETURN(manifest, Unite(std::move(manifest), std::move(parts)));
  } else if (own > 0) {
    manifest.set_part(own);
    manifest.set_stores(stores);
  }
  manifest.set_job(crew.record.job());
  manifest.set_epoch(id.epoch);
  manifest.set_step(id.step);
  manifest.set_world(crew.record.world());
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

void StripeCollector::Fail(CheckpointId id, const Status& why) {
  const auto open = open_.find(id);
  if (open == open_.end()) return;
  open->second.life->over = true;
  const bool divided = open->second.crew->share.stores > 1;
  open_.erase(open);
  Log(LogLevel::kError,
      absl::StrFormat("THE CHECKPOINT OF STEP %d FAILED, the one before stays: %s", id.step,
                      Message(why)));
  store_->Drop(id);
  if (divided && divided_.failed) divided_.failed(id);
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
  if (!open_.contains({epoch, step}) && epoch < record_.epoch())
    return Aborted(absl::StrFormat("epoch %d is over", epoch));
  return std::nullopt;
}

}  // namespace ringwood

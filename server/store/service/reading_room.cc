#include "server/store/service/reading_room.h"

#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/digest.h"

namespace ringwood {
namespace {

constexpr double kRoomLookSeconds = 0.1;      // how late a wait may end
constexpr size_t kHeldPartBytes = 256 << 10;  // small beside the memory of a chunk

// The items from `*next` on that fit; the first part tells what the checkpoint is, too.
v1::HeldPart PartOf(const v1::CheckpointManifest& manifest, int* next) {
  v1::CheckpointManifest some;
  if (*next == 0) {
    some.set_format(manifest.format());
    some.set_job(manifest.job());
    some.set_epoch(manifest.epoch());
    some.set_step(manifest.step());
    some.set_world(manifest.world());
    some.set_unix_seconds(manifest.unix_seconds());
    some.set_bytes(manifest.bytes());
  }
  for (size_t bytes = 0; *next < manifest.items_size() && bytes < kHeldPartBytes; ++*next) {
    const v1::StoredItem& item = manifest.items(*next);
    v1::StoredItem* const told = some.add_items();
    told->set_name(item.name());
    told->set_scope(item.scope());
    told->set_rank(item.rank());
    told->set_bytes(item.bytes());
    told->set_dtype(item.dtype());
    *told->mutable_shape() = item.shape();
    bytes += told->ByteSizeLong();
  }
  v1::HeldPart part;
  part.set_manifest(some.SerializeAsString());
  part.set_checksum(Digest(std::as_bytes(std::span(part.manifest()))));
  part.set_last(*next == manifest.items_size());
  return part;
}

}  // namespace

ReadingRoom::ReadingRoom(CheckpointStore* store, const StripeCollector* collector,
                         OpenManifest open, Loop* loop)
    : store_(store), collector_(collector), open_(std::move(open)), loop_(loop) {}

ReadingRoom::Stream* ReadingRoom::Open(uint64_t reader, const v1::HoldRequest& wish) {
  const auto tell = [this, reader](void (ReadingRoom::*what)(uint64_t)) {
    loop_->PostReserved([this, reader, what] { (this->*what)(reader); });
  };
  auto* stream = new Stream({[tell](Stream*) { tell(&ReadingRoom::Sent); },
                             [tell](Stream*) { tell(&ReadingRoom::Leave); },
                             [tell] { tell(&ReadingRoom::Over); }});
  if (!loop_->Post([this, reader, wish, stream] { Enter(reader, wish, stream); })) {
    stream->End(Unavailable("the store is stopping"));
  }
  return stream;
}

void ReadingRoom::Enter(uint64_t reader, const v1::HoldRequest& wish, Stream* stream) {
  if (const Status entered = readers_.Enter(reader, wish, Now()); !entered.ok()) {
    return stream->End(entered);
  }
  visits_[reader].stream = stream;
  Look();
  LookOn();
}

void ReadingRoom::Sent(uint64_t reader) {
  const auto visit = visits_.find(reader);
  if (visit == visits_.end()) return;
  visit->second.sending = false;
  if (!visit->second.ends.ok()) return End(reader, visit->second.ends);
  SendPart(&visit->second);
}

void ReadingRoom::Leave(uint64_t reader) { End(reader, Aborted("the caller went away")); }

// Also where the stream has ended itself, because its caller went away under a part.
void ReadingRoom::Over(uint64_t reader) {
  visits_.erase(reader);
  readers_.Leave(reader);
  store_->Hold(readers_.held());
}

void ReadingRoom::End(uint64_t reader, Status why) {
  readers_.Leave(reader);
  store_->Hold(readers_.held());
  const auto visit = visits_.find(reader);
  if (visit == visits_.end()) return;
  if (visit->second.sending) {
    visit->second.ends = std::move(why);
    return;
  }
  Stream* const stream = visit->second.stream;
  visits_.erase(visit);
  stream->End(why);
}

void ReadingRoom::Look() {
  if (!readers_.waiting()) return;
  Status known;
  if (changed_) {
    StatusOr<std::vector<Kept>> complete = store_->Complete();
    known = complete.status();
    changed_ = !known.ok();
    complete_ = complete.ok() ? *std::move(complete) : std::vector<Kept>();
  }
  const auto making = [&](const CheckpointId& id) {
    return known.ok() ? MakingOf(id) : Readers::Making{known, ""};
  };
  const auto answers = readers_.Look(complete_, making, Now());
  store_->Hold(readers_.held());
  for (const Readers::Answer& answer : answers) {
    answer.id.ok() ? Hand(answer.reader, *answer.id) : End(answer.reader, answer.id.status());
  }
}

// As long as anybody is here.
void ReadingRoom::LookOn() {
  if (visits_.empty() || std::exchange(looking_, true)) return;
  loop_->After(Seconds(kRoomLookSeconds), [this] {
    looking_ = false;
    Look();
    for (const uint64_t reader : readers_.TakeIdle(Now())) {
      End(reader, Aborted(absl::StrFormat("nothing of the checkpoint was read for %.0f s",
                                          Readers::kIdleSeconds)));
    }
    LookOn();
  });
}

void ReadingRoom::Hand(uint64_t reader, const CheckpointId& id) {
  StatusOr<Manifest> manifest = open_(id);
  if (!manifest.ok()) return End(reader, manifest.status());
  Visit& visit = visits_.at(reader);
  visit.manifest = *std::move(manifest);
  SendPart(&visit);
}

void ReadingRoom::SendPart(Visit* visit) {
  if (visit->told) return;
  v1::HeldPart part = PartOf(*visit->manifest, &visit->next);
  visit->told = part.last();
  if (visit->told) visit->manifest.reset();
  visit->sending = true;
  visit->stream->Send(std::move(part));
}

Readers::Making ReadingRoom::MakingOf(const CheckpointId& id) const {
  if (const auto outcome = collector_->Outcome(id.epoch, id.step)) {
    if (collector_->IsReadBack(id)) return {*outcome, "it is being read back from the disk"};
    return {*outcome, "it was complete, and is damaged or of another job"};
  }
  const std::string missing = collector_->Missing(id);
  if (!missing.empty()) return {OkStatus(), "not there yet: the whole stripe of rank " + missing};
  return {OkStatus(),
          "no rank has saved since then. All were told that a checkpoint is due: a trainer heeds "
          "that with rw.save(every=\"auto\") (checkpoint_due of a step's result); of one that "
          "saves by an interval take what the store has (--newest-stored), or wait longer"};
}

Status ReadingRoom::CheckThere(const CheckpointId& id) const {
  if (store_->reader().Resolve(id).status().code() != StatusCode::kNotFound) return OkStatus();
  return RemovedWhileRead(id);
}

void ReadingRoom::Close(const Status& why) {
  std::vector<uint64_t> all;
  for (const auto& [reader, visit] : visits_) all.push_back(reader);
  for (const uint64_t reader : all) End(reader, why);
}

}  // namespace ringwood

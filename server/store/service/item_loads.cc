#include "server/store/service/item_loads.h"

#include <span>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "server/store/record/parts.h"

namespace ringwood {
namespace {

constexpr size_t kFollowingBytes = 256 << 10;  // of small items: beside the memory of a chunk

// What the worker sent that saved them is what the one that loads them compares.
uint64_t DigestOf(const v1::StoredChunk& stored, const std::string& bytes) {
  return stored.digest() != 0 ? stored.digest() : Digest(std::as_bytes(std::span(bytes)));
}

// Those that another store sends.
void SkipElsewhere(const v1::StoredItem& item, int* next) {
  while (*next < item.chunks_size() && item.chunks(*next).part() != 0) ++*next;
}

}  // namespace

ItemLoads::Stream* ItemLoads::Open(uint64_t caller, const v1::LoadRequest& request) {
  auto reading = std::make_shared<Reading>();
  reading->request = request;
  reading->disk = disks_->Next();
  const auto more = [this, reading](Stream* self) {
    if (!loop_->Post([this, reading, self] { Continue(self, reading); })) {
      self->End(StoreStopping());
    }
  };
  auto* stream = new Stream({more,
                             [this, caller](Stream* self) {
                               if (turnstile_.Cancel(caller))
                                 self->End(Aborted("the caller went away"));
                             },
                             [this, caller] { turnstile_.Leave(caller); }});
  if (!turnstile_.Enter(caller, [more, stream] { more(stream); })) {
    stream->End(Exhausted(absl::StrFormat("%d loads wait already: try again", limits_.waiting)));
  }
  return stream;
}

Status ItemLoads::Find(Reading* reading) const {
  const v1::LoadRequest& request = reading->request;
  RW_ASSIGN_OR_RETURN(reading->opened, lookups_.find({request.epoch(), request.step()}));
  const v1::CheckpointManifest& manifest = reading->opened->manifest();
  const bool own = request.scope() == v1::SCOPE_OWN;
  reading->item = reading->opened->Find(request.scope(), request.rank(), request.item());
  if (reading->item != nullptr) return FindElsewhere(reading);
  return NotFound(absl::StrFormat("the checkpoint of step %d has no item \"%s\"%s", manifest.step(),
                                  request.item(),
                                  own ? absl::StrFormat(" of rank %d", request.rank()) : ""));
}

Status ItemLoads::FindElsewhere(Reading* reading) const {
  const v1::CheckpointManifest& manifest = reading->opened->manifest();
  if (manifest.parts().empty()) return OkStatus();
  for (const uint32_t part : PartsOf(*reading->item)) {
    const v1::CheckpointPart& place = manifest.parts(static_cast<int>(part) - 1);
    const auto address = lookups_.address_of(place.store());
    if (!address) {
      return Unavailable(absl::StrFormat(
          "a part of item \"%s\" is in %s, which is not there: start that server again, and wait "
          "until the job runs",
          reading->item->name(), PlaceName(place)));
    }
    reading->elsewhere.push_back(*address);
  }
  return OkStatus();
}

void ItemLoads::Continue(Stream* stream, const std::shared_ptr<Reading>& reading) {
  if (reading->item == nullptr) {
    if (Status found = Find(reading.get()); !found.ok()) return stream->End(found);
    SkipElsewhere(*reading->item, &reading->next);
    if (!reading->elsewhere.empty()) {
      v1::LoadChunk told;
      told.set_item_bytes(reading->item->bytes());
      told.set_checksum(Digest({}));
      for (const std::string& address : reading->elsewhere) told.add_elsewhere(address);
      return stream->Send(std::move(told));
    }
  }
  if (reading->next == reading->item->chunks_size()) return stream->End(OkStatus());
  const v1::StoredChunk& stored = reading->item->chunks(reading->next++);
  SkipElsewhere(*reading->item, &reading->next);
  const CheckpointId id = reading->opened->id();
  room_->Read(id);
  const bool posted = reading->disk->Post(
      [this, stream, reading, &stored] { SendChunk(stream, *reading, stored); });
  if (!posted) stream->End(Exhausted("too many chunks at once"));
}

// On a thread of the disk.
void ItemLoads::SendChunk(Stream* stream, const Reading& reading, const v1::StoredChunk& stored) {
  const CheckpointId id = reading.opened->id();
  auto bytes = store_->Chunk(id, *reading.item, stored);
  if (!bytes.ok()) {
    const bool posted = loop_->PostReserved(
        [this, stream, id, failed = bytes.status()] { Fail(stream, id, failed); });
    if (!posted) stream->End(StoreStopping());
    return;
  }
  v1::LoadChunk chunk;
  chunk.set_offset(stored.offset());
  chunk.set_item_bytes(reading.item->bytes());
  chunk.set_checksum(DigestOf(stored, *bytes));
  chunk.set_data(*std::move(bytes));
  if (reading.request.ahead() && reading.next == reading.item->chunks_size()) {
    AddFollowing(reading, &chunk);
  }
  stream->Send(std::move(chunk));
}

// A job of many small tensors would else wait for a call for each. What cannot be read is left out:
// whoever asks for it is told why.
void ItemLoads::AddFollowing(const Reading& reading, v1::LoadChunk* chunk) const {
  for (const v1::StoredItem* item : reading.opened->SmallAfter(*reading.item, kFollowingBytes)) {
    auto data = store_->Chunk(reading.opened->id(), *item, item->chunks(0));
    if (!data.ok()) return;
    v1::SmallItem* const small = chunk->add_following();
    small->set_name(item->name());
    small->set_checksum(DigestOf(item->chunks(0), *data));
    small->set_data(*std::move(data));
  }
}

void ItemLoads::Fail(Stream* stream, const CheckpointId& id, const Status& failed) {
  if (const Status gone = room_->CheckThere(id); !gone.ok()) return stream->End(gone);
  if (failed.code() == StatusCode::kDataLoss) {
    store_->Distrust(id, failed);
    room_->Changed();
  }
  stream->End(failed);
}

}  // namespace ringwood

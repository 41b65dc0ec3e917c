#include "server/store/service/part_door.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "base/log.h"
#include "server/calls/held_calls.h"

namespace ringwood {
namespace {

constexpr size_t kGatheredPieceBytes = 1 << 20;

Status DoorCloses() { return Unavailable("the store is stopping"); }

std::map<CheckpointId, Kept> KnownOf(const v1::GatherRequest& request) {
  std::map<CheckpointId, Kept> known;
  for (const v1::KnownCheckpoint& one : request.complete()) {
    Kept kept{{one.epoch(), one.step()}, request.record().job(), one.bad()};
    kept.unread = one.unread();
    known[kept.id] = kept;
  }
  return known;
}

// Refuses what the collector's arithmetic could not take.
Status CheckGather(const v1::GatherRequest& request) {
  const v1::EpochRecord& record = request.record();
  if (record.epoch() > 0 && record.origin() <= record.epoch() && record.world() > 0 &&
      record.members_size() >= static_cast<int64_t>(record.world()) && request.part() > 0 &&
      request.part() < request.stores() && request.stores() <= record.world()) {
    return OkStatus();
  }
  return Invalid(absl::StrFormat("part %d of %d of a checkpoint of %d ranks is none",
                                 request.part(), request.stores(), record.world()));
}

}  // namespace

PartDoor::PartDoor(CheckpointStore* store, StripeCollector* collector, Checker* checker, Loop* loop,
                   std::string directory)
    : store_(store),
      collector_(collector),
      checker_(checker),
      loop_(loop),
      directory_(std::move(directory)) {}

StatusOr<v1::ListPartsResponse> PartDoor::Listed(uint64_t main) {
  v1::ListPartsResponse listed;
  RW_ASSIGN_OR_RETURN(const uint64_t identity, store_->Identity());
  listed.set_store(identity);
  listed.set_directory(directory_);
  RW_ASSIGN_OR_RETURN(const auto known, store_->reader().Identity());
  if (main == 0 || known.main() != main) return listed;
  RW_ASSIGN_OR_RETURN(const auto complete, store_->reader().Complete());
  for (const CheckpointId& id : complete) {
    v1::KnownCheckpoint* const part = listed.add_parts();
    part->set_epoch(id.epoch);
    part->set_step(id.step);
  }
  return listed;
}

grpc::ServerUnaryReactor* PartDoor::List(grpc::CallbackServerContext*,
                                         const v1::ListPartsRequest* request,
                                         v1::ListPartsResponse* response) {
  auto* call = new HeldCall<v1::ListPartsResponse>(response, [] {});
  const bool posted = loop_->Post([this, call, main = request->main()] {
    StatusOr<v1::ListPartsResponse> listed = Listed(main);
    listed.ok() ? call->Answer(*std::move(listed)) : call->Answer(listed.status());
  });
  if (!posted) call->Answer(DoorCloses());
  return call;
}

// One that is being made is none of these.
void PartDoor::RemoveOne(const CheckpointId& id) {
  if (collector_->UnderWay().contains(id)) return;
  Log(LogLevel::kInfo,
      absl::StrFormat("the part of step %d (epoch %d) is no longer needed", id.step, id.epoch));
  store_->Remove(id);
  collector_->Forget(id);
}

grpc::ServerUnaryReactor* PartDoor::Remove(grpc::CallbackServerContext*,
                                           const v1::RemovePartsRequest* request,
                                           v1::RemovePartsResponse* response) {
  auto* call = new HeldCall<v1::RemovePartsResponse>(response, [] {});
  const bool posted = loop_->Post([this, call, orders = *request] {
    for (const v1::KnownCheckpoint& part : orders.parts()) RemoveOne({part.epoch(), part.step()});
    call->Answer(v1::RemovePartsResponse());
  });
  if (!posted) call->Answer(DoorCloses());
  return call;
}

grpc::ServerUnaryReactor* PartDoor::Check(grpc::CallbackServerContext*,
                                          const v1::CheckPartRequest* request,
                                          v1::CheckPartResponse* response) {
  auto* call = new HeldCall<v1::CheckPartResponse>(response, [] {});
  const bool posted = loop_->Post([this, call, asked = *request] {
    const StatusOr<uint64_t> identity = store_->Identity();
    if (!identity.ok()) return call->Answer(identity.status());
    if (*identity != asked.store()) {
      return call->Answer(Refused(absl::StrFormat("%s is the store %016x, not %016x", directory_,
                                                  *identity, asked.store())));
    }
    checker_->CheckPart({asked.epoch(), asked.step()}, asked.digest(), [call](const Status& found) {
      found.ok() ? call->Answer(v1::CheckPartResponse()) : call->Answer(found);
    });
  });
  if (!posted) call->Answer(DoorCloses());
  return call;
}

grpc::ServerWriteReactor<v1::GatheredPart>* PartDoor::Gather(grpc::CallbackServerContext*,
                                                             const v1::GatherRequest* request) {
  const uint64_t id = next_call_++;
  auto* stream =
      new Stream({[this, id](Stream*) { loop_->PostReserved([this, id] { Sent(id); }); },
                  [this, id](Stream*) { loop_->PostReserved([this, id] { Left(id); }); },
                  [this, id] { loop_->PostReserved([this, id] { gatherings_.erase(id); }); }});
  const bool posted = loop_->Post([this, id, asked = *request, stream] {
    if (const Status begun = Begin(id, asked, stream); !begun.ok()) return stream->End(begun);
    Changed();
  });
  if (!posted) stream->End(DoorCloses());
  return stream;
}

Status PartDoor::Begin(uint64_t call, const v1::GatherRequest& request, Stream* stream) {
  RW_RETURN_IF_ERROR(CheckGather(request));
  const v1::EpochRecord& record = request.record();
  const v1::EpochRecord& now = collector_->record();
  if (record.epoch() < now.epoch()) {
    return Aborted(absl::StrFormat("epoch %d is over (now: %d)", record.epoch(), now.epoch()));
  }
  if (record.epoch() > now.epoch() || record.job() != now.job()) {
    collector_->SetEpoch(record, {request.part(), request.stores()});
  }
  RW_RETURN_IF_ERROR(store_->BelongTo(request.main()));
  store_->Wholes(KnownOf(request));
  const CheckpointId id{record.epoch(), request.step()};
  RW_RETURN_IF_ERROR(collector_->Invite(id));
  Gathering gathering;
  gathering.id = id;
  gathering.stream = stream;
  gatherings_[call] = std::move(gathering);
  return OkStatus();
}

void PartDoor::Changed() {
  for (auto it = gatherings_.begin(); it != gatherings_.end();) {
    Gathering& gathering = it->second;
    const Status ended = gathering.sending ? OkStatus() : Look(&gathering);
    if (ended.ok()) {
      ++it;
      continue;
    }
    Stream* const stream = gathering.stream;
    it = gatherings_.erase(it);
    stream->End(ended);
  }
}

Status PartDoor::Look(Gathering* gathering) {
  const CheckpointId& id = gathering->id;
  const auto outcome = collector_->Outcome(id.epoch, id.step);
  if (!outcome || collector_->IsReadBack(id)) return OkStatus();
  RW_RETURN_IF_ERROR(*outcome);
  RW_ASSIGN_OR_RETURN(const auto unread, store_->Unread());
  if (std::ranges::count(unread, id) > 0) {
    return Unavailable("the part could not be read back from the disk");
  }
  RW_ASSIGN_OR_RETURN(const auto manifest, store_->reader().Manifest(id));
  RW_ASSIGN_OR_RETURN(gathering->digest, store_->reader().HeadDigest(id));
  gathering->manifest = manifest.SerializeAsString();
  SendPiece(gathering);
  return OkStatus();
}

void PartDoor::SendPiece(Gathering* gathering) {
  v1::GatheredPart part;
  part.set_piece(gathering->manifest.substr(gathering->sent, kGatheredPieceBytes));
  part.set_checksum(Digest(std::as_bytes(std::span(part.piece()))));
  gathering->sent += part.piece().size();
  gathering->told = gathering->sent == gathering->manifest.size();
  part.set_last(gathering->told);
  if (gathering->told) {
    const StatusOr<uint64_t> identity = store_->Identity();
    part.set_store(identity.value_or(0));
    part.set_directory(directory_);
    part.set_digest(gathering->digest);
  }
  gathering->sending = true;
  gathering->stream->Send(std::move(part));
}

void PartDoor::Sent(uint64_t call) {
  const auto found = gatherings_.find(call);
  if (found == gatherings_.end()) return;
  found->second.sending = false;
  if (!found->second.told && !found->second.left) return SendPiece(&found->second);
  Stream* const stream = found->second.stream;
  gatherings_.erase(found);
  stream->End(OkStatus());
}

void PartDoor::Left(uint64_t call) {
  const auto found = gatherings_.find(call);
  if (found == gatherings_.end()) return;
  const CheckpointId id = found->second.id;
  Stream* const stream = found->second.stream;
  found->second.left = true;
  if (!found->second.sending) {
    gatherings_.erase(found);
    stream->End(Aborted("the caller went away"));
  }
  if (!collector_->UnderWay().contains(id)) return;
  collector_->GiveUp(id, Aborted("the main store gave it up"));
  collector_->Forget(id);
}

void PartDoor::Close(const Status& why) {
  std::vector<Stream*> ended;
  for (auto it = gatherings_.begin(); it != gatherings_.end();) {
    if (!it->second.sending) ended.push_back(it->second.stream);
    it = it->second.sending ? std::next(it) : gatherings_.erase(it);
  }
  for (Stream* const stream : ended) stream->End(why);
}

}  // namespace ringwood

#include "server/store/store_service.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <map>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/units.h"
#include "jobs/store_quota.h"
#include "ringwood/v1/store.grpc.pb.h"
#include "server/calls/streams.h"
#include "server/calls/turnstile.h"
#include "server/store/checker.h"
#include "server/store/checkpoint_store.h"
#include "server/store/reading_room.h"
#include "server/store/record/manifest.h"
#include "server/store/stripe_collector.h"
#include "server/store/stripe_intake.h"
#include "server/store/worker_memory.h"

namespace ringwood {
namespace {

// An Await that names a longer time waits this long and asks again.
constexpr double kMaxAwaitSeconds = 3600;
constexpr double kLookSeconds = 0.1;    // how late an Await may end
constexpr double kSilenceSeconds = 10;  // between two checks for checkpoints that receive nothing
constexpr double kDrainSeconds = 5;
constexpr size_t kListBytes = 256 << 10;  // of a list of items: small beside the memory of a chunk

Status NoStore() { return Refused("this server keeps no checkpoints: start it with --store DIR"); }
// What the worker sent that saved them is what the one that loads them compares.
uint64_t DigestOf(const v1::StoredChunk& stored, const std::string& bytes) {
  return stored.digest() != 0 ? stored.digest() : Digest(std::as_bytes(std::span(bytes)));
}

Status Stopping() { return Unavailable("the store is stopping"); }

}  // namespace

class StoreService::Service : public v1::Store::CallbackService {
  using LoadStream = OutStream<v1::LoadChunk>;
  using ListStream = OutStream<v1::ItemsPart>;

 public:
  Service(std::unique_ptr<CheckpointStore> store, const Options& options)
      : store_(std::move(store)),
        quota_(options.directory, options.max_bytes),
        collector_(
            store_ == nullptr
                ? nullptr
                : std::make_unique<StripeCollector>(
                      store_.get(), [] { return int64_t{std::time(nullptr)}; }, &quota_,
                      [this](const CheckpointId& id) { checker_.ReadBack(id, WasReadBack()); })),
        room_(store_ == nullptr
                  ? nullptr
                  : std::make_unique<ReadingRoom>(
                        store_.get(), collector_.get(),
                        [this](const CheckpointId& id) { return ManifestOf(id); }, &loop_)),
        intake_(store_ == nullptr
                    ? nullptr
                    : std::make_unique<StripeIntake>(collector_.get(), &loop_, &disks_, &met_,
                                                     [this] { AnswerAwaits(); })),
        options_(options),
        loads_(options.max_loads, options.max_waiting_loads),
        checker_(store_.get(), options.checked),
        loop_("store") {
    if (store_ == nullptr) return;
    loop_.Post([this] { LookOn(); });
    checker_.ReadBackLeft(WasReadBack());
  }
  ~Service() override { checker_.Stop(); }

  grpc::ServerReadReactor<v1::SaveChunk>* Save(grpc::CallbackServerContext*,
                                               v1::SaveReceipt* receipt) override {
    return intake_ == nullptr ? StripeIntake::Refuse(NoStore()) : intake_->Open(receipt);
  }

  grpc::ServerUnaryReactor* Meet(grpc::CallbackServerContext* context,
                                 const v1::MeetRequest* request,
                                 v1::MeetResponse* response) override {
    response->set_reads(store_ != nullptr && met_.Meet(*request));
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerWriteReactor<v1::LoadChunk>* Load(grpc::CallbackServerContext*,
                                                const v1::LoadRequest* request) override;

  grpc::ServerWriteReactor<v1::ItemsPart>* Items(grpc::CallbackServerContext*,
                                                 const v1::ItemsRequest* request) override;

  grpc::ServerUnaryReactor* Await(grpc::CallbackServerContext*, const v1::AwaitRequest* request,
                                  v1::AwaitResponse* response) override;

  grpc::ServerWriteReactor<v1::HeldPart>* Hold(grpc::CallbackServerContext*,
                                               const v1::HoldRequest* request) override {
    return room_ == nullptr ? ReadingRoom::Refuse(NoStore()) : room_->Open(next_call_++, *request);
  }

  void FindBase(uint64_t job, std::function<void(StatusOr<std::optional<CheckpointBase>>)> answer) {
    const bool posted = loop_.Post([this, job, answer] {
      if (store_ == nullptr) return answer(std::optional<CheckpointBase>());
      collector_->Fence();
      AnswerAwaits();
      checker_.FindBase(job, options_.reach, answer);
    });
    if (!posted) answer(Stopping());
  }

  void SetEpoch(const v1::EpochRecord& record) {
    loop_.PostReserved([this, record] {
      if (store_ == nullptr) return;
      collector_->SetEpoch(record);
      AnswerAwaits();
      if (record.base_epoch() == 0) TellOfOthers(record.job());
    });
  }

  void Stop() {
    checker_.Stop();
    (void)loop_.Call(
        [this] {
          for (auto& [id, waiter] : waiters_) waiter.call->Answer(Stopping());
          waiters_.clear();
          if (room_ != nullptr) room_->Close(Stopping());
          return OkStatus();
        },
        Seconds(kDrainSeconds));
  }

  uint64_t newest_epoch = 0;

 private:
  using Opened = std::shared_ptr<const OpenedCheckpoint>;
  // A list of items on its way out.
  struct Listing {
    v1::ItemsRequest request;
    Opened opened;
    std::vector<const v1::StoredItem*> items;
    size_t next = 0;
    bool sent_last = false;
  };
  // An item on its way out.
  struct Reading {
    v1::LoadRequest request;
    Opened opened;  // also if it is pruned meanwhile
    const v1::StoredItem* item = nullptr;
    int next = 0;
    Loop* disk = nullptr;  // which reads it
  };
  struct Waiter {
    uint64_t epoch;
    uint64_t step;
    TimePoint deadline;
    HeldCall<v1::AwaitResponse>* call;
  };

  StatusOr<Opened> Find(const CheckpointId& wanted);
  StatusOr<std::shared_ptr<const v1::CheckpointManifest>> ManifestOf(const CheckpointId& id) {
    RW_ASSIGN_OR_RETURN(const auto opened, Find(id));
    return std::shared_ptr<const v1::CheckpointManifest>(opened, &opened->manifest());
  }
  Status FindItem(Reading* reading);
  void Continue(LoadStream* stream, const std::shared_ptr<Reading>& reading);
  void SendChunk(LoadStream* stream, const Reading& reading, const v1::StoredChunk& stored);
  void AddFollowing(const Reading& reading, v1::LoadChunk* chunk) const;
  void FailLoad(LoadStream* stream, const CheckpointId& id, const Status& failed);
  void ContinueList(ListStream* stream, Listing* listing);
  void AnswerAwaits();
  void LeaveAwait(uint64_t id);
  void EndOverdueAwaits();
  void LookOn();
  void TellOfOthers(uint64_t job) const;
  void TellKept();
  Checker::Found WasReadBack();

  std::unique_ptr<CheckpointStore>
      store_;  // null: keeps nothing. Touched on loop_; see its own words
  StoreQuota quota_;
  std::unique_ptr<StripeCollector> collector_;  // touched only on loop_
  std::unique_ptr<ReadingRoom> room_;
  MetProcesses met_;
  std::unique_ptr<StripeIntake> intake_;
  const Options options_;
  std::map<uint64_t, Waiter> waiters_;  // touched only on loop_
  bool looking_ = false;                // EndOverdueAwaits comes again. Touched only on loop_
  Opened opened_;                       // the last; touched only on loop_
  std::atomic<uint64_t> next_call_{1};
  Turnstile loads_;
  Checker checker_;
  Loop loop_;
  DiskThreads disks_;  // last: their tasks end on loop_, and at our end no stream is left
};

grpc::ServerWriteReactor<v1::LoadChunk>* StoreService::Service::Load(
    grpc::CallbackServerContext*, const v1::LoadRequest* request) {
  const uint64_t id = next_call_++;
  auto reading = std::make_shared<Reading>();
  reading->request = *request;
  reading->disk = disks_.Next();
  const auto more = [this, reading](LoadStream* self) {
    if (!loop_.Post([this, reading, self] { Continue(self, reading); })) {
      self->End(Stopping());
    }
  };
  auto* stream = new LoadStream({more,
                                 [this, id](LoadStream* self) {
                                   if (loads_.Cancel(id))
                                     self->End(Aborted("the caller went away"));
                                 },
                                 [this, id] { loads_.Leave(id); }});
  if (!loads_.Enter(id, [more, stream] { more(stream); })) {
    stream->End(
        Exhausted(absl::StrFormat("%d loads wait already: try again", options_.max_waiting_loads)));
  }
  return stream;
}

StatusOr<StoreService::Service::Opened> StoreService::Service::Find(const CheckpointId& wanted) {
  if (store_ == nullptr) return NoStore();
  RW_ASSIGN_OR_RETURN(const CheckpointId id, store_->reader().Resolve(wanted));
  if (opened_ != nullptr && opened_->id() == id) {
    return opened_;
  }
  RW_ASSIGN_OR_RETURN(auto manifest, store_->reader().Manifest(id));
  return opened_ = std::make_shared<const OpenedCheckpoint>(std::move(manifest));
}

Status StoreService::Service::FindItem(Reading* reading) {
  const v1::LoadRequest& request = reading->request;
  RW_ASSIGN_OR_RETURN(reading->opened, Find({request.epoch(), request.step()}));
  const v1::CheckpointManifest& manifest = reading->opened->manifest();
  const bool own = request.scope() == v1::SCOPE_OWN;
  reading->item = reading->opened->Find(request.scope(), request.rank(), request.item());
  if (reading->item != nullptr) return OkStatus();
  return NotFound(absl::StrFormat("the checkpoint of step %d has no item \"%s\"%s", manifest.step(),
                                  request.item(),
                                  own ? absl::StrFormat(" of rank %d", request.rank()) : ""));
}

void StoreService::Service::Continue(LoadStream* stream, const std::shared_ptr<Reading>& reading) {
  if (store_ == nullptr) return stream->End(NoStore());
  if (reading->item == nullptr) {
    if (Status found = FindItem(reading.get()); !found.ok()) return stream->End(found);
  }
  if (reading->next == reading->item->chunks_size()) return stream->End(OkStatus());
  const v1::StoredChunk& stored = reading->item->chunks(reading->next++);
  const CheckpointId id = reading->opened->id();
  room_->Read(id);
  const bool posted = reading->disk->Post(
      [this, stream, reading, &stored] { SendChunk(stream, *reading, stored); });
  if (!posted) stream->End(Exhausted("too many chunks at once"));
}

// On a thread of the disk.
void StoreService::Service::SendChunk(LoadStream* stream, const Reading& reading,
                                      const v1::StoredChunk& stored) {
  const CheckpointId id = reading.opened->id();
  auto bytes = store_->Chunk(id, *reading.item, stored);
  if (!bytes.ok()) {
    const bool posted = loop_.PostReserved(
        [this, stream, id, failed = bytes.status()] { FailLoad(stream, id, failed); });
    if (!posted) stream->End(Stopping());
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
void StoreService::Service::AddFollowing(const Reading& reading, v1::LoadChunk* chunk) const {
  for (const v1::StoredItem* item : reading.opened->SmallAfter(*reading.item, kListBytes)) {
    auto data = store_->Chunk(reading.opened->id(), *item, item->chunks(0));
    if (!data.ok()) return;
    v1::SmallItem* const small = chunk->add_following();
    small->set_name(item->name());
    small->set_checksum(DigestOf(item->chunks(0), *data));
    small->set_data(*std::move(data));
  }
}

void StoreService::Service::FailLoad(LoadStream* stream, const CheckpointId& id,
                                     const Status& failed) {
  if (const Status gone = room_->CheckThere(id); !gone.ok()) return stream->End(gone);
  if (failed.code() == StatusCode::kDataLoss) {
    store_->Distrust(id, failed);
    room_->Changed();
  }
  stream->End(failed);
}

grpc::ServerWriteReactor<v1::ItemsPart>* StoreService::Service::Items(
    grpc::CallbackServerContext*, const v1::ItemsRequest* request) {
  auto listing = std::make_shared<Listing>();
  listing->request = *request;
  const auto more = [this, listing](ListStream* self) {
    if (!loop_.Post([this, listing, self] { ContinueList(self, listing.get()); })) {
      self->End(Stopping());
    }
  };
  auto* stream = new ListStream({more, [](ListStream*) {}, [] {}});
  more(stream);
  return stream;
}

void StoreService::Service::ContinueList(ListStream* stream, Listing* listing) {
  if (listing->sent_last) return stream->End(OkStatus());
  if (listing->opened == nullptr) {
    auto opened = Find({listing->request.epoch(), listing->request.step()});
    if (!opened.ok()) return stream->End(opened.status());
    listing->opened = *std::move(opened);
    listing->items = listing->opened->Loadable(listing->request.rank());
  }
  v1::ItemList list;
  size_t bytes = 0;
  size_t& next = listing->next;
  for (; next < listing->items.size() && bytes < kListBytes; ++next) {
    v1::ListedItem* const item = list.add_items();
    item->set_name(listing->items[next]->name());
    item->set_scope(listing->items[next]->scope());
    item->set_bytes(listing->items[next]->bytes());
    bytes += item->ByteSizeLong();
  }
  v1::ItemsPart part;
  part.set_list(list.SerializeAsString());
  part.set_checksum(Digest(std::as_bytes(std::span(part.list()))));
  part.set_last(next == listing->items.size());
  listing->sent_last = part.last();
  stream->Send(std::move(part));
}

grpc::ServerUnaryReactor* StoreService::Service::Await(grpc::CallbackServerContext*,
                                                       const v1::AwaitRequest* request,
                                                       v1::AwaitResponse* response) {
  const uint64_t id = next_call_++;
  auto* call = new HeldCall<v1::AwaitResponse>(
      response, [this, id] { loop_.PostReserved([this, id] { LeaveAwait(id); }); });
  // A timeout that is not a number is none.
  const double seconds = std::min(request->timeout_seconds(), kMaxAwaitSeconds);
  const TimePoint deadline = Now() + Seconds(seconds > 0 ? seconds : 0);
  const Waiter waiter{request->epoch(), request->step(), deadline, call};
  const bool posted = loop_.Post([this, id, waiter] {
    if (store_ == nullptr) return waiter.call->Answer(NoStore());
    if (waiters_.size() >= options_.max_waiters) {
      return waiter.call->Answer(Exhausted("too many wait for the store"));
    }
    waiters_[id] = waiter;
    AnswerAwaits();
    if (waiters_.size() == 1) EndOverdueAwaits();
  });
  if (!posted) call->Answer(Stopping());
  return call;
}

// Its caller went away: nothing of it stays.
void StoreService::Service::LeaveAwait(uint64_t id) {
  auto waiter = waiters_.extract(id);
  if (!waiter.empty()) waiter.mapped().call->Answer(Aborted("the caller went away"));
}

// Looks again as long as anyone waits.
void StoreService::Service::EndOverdueAwaits() {
  const TimePoint now = Now();
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    if (it->second.deadline > now) {
      ++it;
      continue;
    }
    v1::AwaitResponse answer;
    answer.set_reason("not all ranks' stripes are there yet");
    it->second.call->Answer(std::move(answer));
    it = waiters_.erase(it);
  }
  if (waiters_.empty() || std::exchange(looking_, true)) return;
  loop_.After(Seconds(kLookSeconds), [this] {
    looking_ = false;
    EndOverdueAwaits();
  });
}

// What is already in the mailbox goes first: a chunk that waits there is not silence.
void StoreService::Service::LookOn() {
  loop_.After(Seconds(kSilenceSeconds), [this] {
    loop_.PostReserved([this] {
      if (collector_->GiveUp(Now())) AnswerAwaits();
    });
    LookOn();
  });
}

void StoreService::Service::TellOfOthers(uint64_t job) const {
  const auto newest = store_->NewestOfEachJob();
  if (!newest.ok()) return Log(LogLevel::kWarning, Message(newest.status()));
  for (const CheckpointBase& other : *newest) {
    if (other.job == job) continue;
    Log(LogLevel::kWarning,
        absl::StrFormat("job %016x is new here; the checkpoints of job %016x (step %d) stay: "
                        "--resume-job %016x continues it",
                        job, other.job, other.step, other.job));
  }
}

Checker::Found StoreService::Service::WasReadBack() {
  return [this](const CheckpointId& read, const Status& found) {
    loop_.PostReserved([this, read, found] {
      if (collector_->IsReadBack(read)) {
        collector_->Settle(read, found);
      } else {
        store_->Settle(read, found);
      }
      if (found.ok()) TellKept();
      AnswerAwaits();
    });
  };
}

void StoreService::Service::TellKept() {
  if (!options_.kept) return;
  const auto newest = store_->Newest(collector_->job(), kKeptCheckpoints);
  if (newest.ok()) options_.kept(collector_->job(), *newest);
}

void StoreService::Service::AnswerAwaits() {
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    const std::optional<Status> outcome = collector_->Outcome(it->second.epoch, it->second.step);
    if (!outcome) {
      ++it;
      continue;
    }
    v1::AwaitResponse answer;
    answer.set_complete(outcome->ok());
    answer.set_reason(Message(*outcome));
    it->second.call->Answer(std::move(answer));
    it = waiters_.erase(it);
  }
  room_->Changed();
}

StatusOr<std::unique_ptr<StoreService>> StoreService::Create(const Options& options) {
  std::unique_ptr<CheckpointStore> store;
  uint64_t newest = 0;
  if (!options.directory.empty()) {
    RW_ASSIGN_OR_RETURN(store, CheckpointStore::Open(options.directory, options.patience));
    store->Keep(options.retention);
    RW_ASSIGN_OR_RETURN(const auto complete, store->reader().Complete());
    if (!complete.empty()) newest = complete.front().epoch;
  }
  auto service = std::make_unique<Service>(std::move(store), options);
  service->newest_epoch = newest;
  return std::unique_ptr<StoreService>(new StoreService(std::move(service)));
}

StoreService::StoreService(std::unique_ptr<Service> service) : service_(std::move(service)) {}
StoreService::~StoreService() = default;
grpc::Service* StoreService::service() { return service_.get(); }
uint64_t StoreService::newest_epoch() const { return service_->newest_epoch; }
void StoreService::Stop() { service_->Stop(); }
void StoreService::SetEpoch(const v1::EpochRecord& record) { service_->SetEpoch(record); }
void StoreService::FindBase(uint64_t job,
                            std::function<void(StatusOr<std::optional<CheckpointBase>>)> answer) {
  service_->FindBase(job, std::move(answer));
}

}  // namespace ringwood

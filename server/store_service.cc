#include "server/store_service.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <map>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "base/loop.h"
#include "ringwood/v1/store.grpc.pb.h"
#include "server/checkpoint_store.h"
#include "server/gathering.h"
#include "server/store_streams.h"

namespace ringwood {
namespace {

// An Await that names a longer time waits this long and asks again.
constexpr double kMaxAwaitSeconds = 3600;
constexpr double kLookSeconds = 0.1;     // how late an Await may end
constexpr size_t kMaxAwaits = 2 * 4096;  // each rank of the largest world, and again

Status NoStore() { return Refused("this server keeps no checkpoints: start it with --store DIR"); }
Status Stopping() { return Unavailable("the store is stopping"); }

}  // namespace

class StoreService::Service : public v1::Store::CallbackService {
 public:
  explicit Service(std::unique_ptr<CheckpointStore> store)
      : store_(std::move(store)),
        gathering_(store_ == nullptr
                       ? nullptr
                       : std::make_unique<Gathering>(store_.get(),
                                                     [] { return int64_t{std::time(nullptr)}; })),
        loop_("store") {}

  grpc::ServerReadReactor<v1::SaveChunk>* Save(grpc::CallbackServerContext*,
                                               v1::SaveReceipt* receipt) override {
    return new SaveStream(
        receipt, [this](SaveStream* stream, std::unique_ptr<v1::SaveChunk> chunk) {
          std::shared_ptr<v1::SaveChunk> shared = std::move(chunk);
          const bool posted = loop_.Post([this, stream, shared] { Take(stream, shared.get()); });
          if (!posted) stream->Answer(Stopping());
        });
  }

  grpc::ServerWriteReactor<v1::LoadChunk>* Load(grpc::CallbackServerContext*,
                                                const v1::LoadRequest* request) override {
    auto reading = std::make_shared<Reading>();
    reading->request = *request;
    auto* stream = new LoadStream([this, reading](LoadStream* self) {
      if (!loop_.Post([this, reading, self] { Continue(self, reading.get()); })) {
        self->End(Stopping());
      }
    });
    stream->Start();
    return stream;
  }

  grpc::ServerUnaryReactor* Manifest(grpc::CallbackServerContext*,
                                     const v1::ManifestRequest* request,
                                     v1::CheckpointManifest* response) override {
    auto* call = new HeldCall<v1::CheckpointManifest>(response, [] {});
    const bool posted = loop_.Post([this, call, step = request->step()] {
      if (store_ == nullptr) return call->Answer(NoStore());
      auto found = store_->reader().Find(step);
      found.ok() ? call->Answer(*std::move(found)) : call->Answer(found.status());
    });
    if (!posted) call->Answer(Stopping());
    return call;
  }

  grpc::ServerUnaryReactor* Await(grpc::CallbackServerContext*, const v1::AwaitRequest* request,
                                  v1::AwaitResponse* response) override;

  void FindBase(uint64_t job, std::function<void(StatusOr<std::optional<CheckpointBase>>)> answer) {
    const bool posted = loop_.Post([this, job, answer] {
      if (store_ == nullptr) return answer(std::optional<CheckpointBase>());
      gathering_->Fence();
      AnswerAwaits();
      answer(store_->NewestGood(job));
    });
    if (!posted) answer(Stopping());
  }

  void SetEpoch(const v1::EpochRecord& record) {
    loop_.PostReserved([this, record] {
      if (store_ == nullptr) return;
      gathering_->SetEpoch(record);
      AnswerAwaits();
    });
  }

  void Stop() {
    (void)loop_.Call(
        [this] {
          for (auto& [id, waiter] : waiters_) waiter.call->Answer(Stopping());
          waiters_.clear();
          return OkStatus();
        },
        Seconds(5));
  }

  uint64_t newest_epoch = 0;

 private:
  // An item on its way out.
  struct Reading {
    v1::LoadRequest request;
    v1::CheckpointManifest manifest;  // of one checkpoint, also if it is pruned meanwhile
    const v1::StoredItem* item = nullptr;
    int next = 0;
  };
  struct Waiter {
    uint64_t step;
    TimePoint deadline;
    HeldCall<v1::AwaitResponse>* call;
  };

  void Take(SaveStream* stream, const v1::SaveChunk* chunk);
  Status FindItem(Reading* reading) const;
  void Continue(LoadStream* stream, Reading* reading);
  void AnswerAwaits();
  void LeaveAwait(uint64_t id);
  void EndOverdueAwaits();

  std::unique_ptr<CheckpointStore> store_;  // null: keeps nothing. Touched only on loop_
  std::unique_ptr<Gathering> gathering_;    // touched only on loop_
  std::map<SaveStream*, std::unique_ptr<Gathering::Incoming>> incoming_;  // touched only on loop_
  std::map<uint64_t, Waiter> waiters_;                                    // touched only on loop_
  bool looking_ = false;  // EndOverdueAwaits comes again. Touched only on loop_
  std::atomic<uint64_t> next_waiter_{1};
  Loop loop_;  // last: its thread uses the others
};

void StoreService::Service::Take(SaveStream* stream, const v1::SaveChunk* chunk) {
  if (store_ == nullptr) return stream->Answer(NoStore());
  auto found = incoming_.find(stream);
  if (chunk == nullptr) {  // ended, or broken, before the last chunk
    incoming_.erase(stream);
    AnswerAwaits();
    return stream->Answer(Aborted("the stripe ended without its last chunk"));
  }
  if (found == incoming_.end()) {
    auto begun = gathering_->Begin(*chunk);
    if (!begun.ok()) {
      AnswerAwaits();
      return stream->Answer(begun.status());
    }
    found = incoming_.emplace(stream, *std::move(begun)).first;
  }
  Status added = found->second->Add(*chunk);
  if (added.ok() && !chunk->last()) return stream->Next();
  const StatusOr<uint64_t> bytes = added.ok() ? found->second->Finish() : StatusOr<uint64_t>(added);
  incoming_.erase(found);
  AnswerAwaits();
  stream->Answer(bytes);
}

Status StoreService::Service::FindItem(Reading* reading) const {
  const v1::LoadRequest& request = reading->request;
  RW_ASSIGN_OR_RETURN(reading->manifest, store_->reader().Find(request.step()));
  const bool own = request.scope() == v1::SCOPE_OWN;
  const uint32_t world = gathering_->world();
  if (own && world != 0 && world != reading->manifest.world()) {
    return Refused(absl::StrFormat(
        "item \"%s\" belongs to each worker of a world of %d, this world has %d: resume with %d "
        "workers (the items that all share can be loaded)",
        request.item(), reading->manifest.world(), world, reading->manifest.world()));
  }
  for (const v1::StoredItem& item : reading->manifest.items()) {
    if (item.name() != request.item() || item.scope() != request.scope()) continue;
    if (own && item.rank() != request.rank()) continue;
    reading->item = &item;
    return OkStatus();
  }
  return NotFound(absl::StrFormat("the checkpoint of step %d has no item \"%s\"%s",
                                  reading->manifest.step(), request.item(),
                                  own ? absl::StrFormat(" of rank %d", request.rank()) : ""));
}

void StoreService::Service::Continue(LoadStream* stream, Reading* reading) {
  if (store_ == nullptr) return stream->End(NoStore());
  if (reading->item == nullptr) {
    if (Status found = FindItem(reading); !found.ok()) return stream->End(found);
  }
  if (reading->next == reading->item->chunks_size()) return stream->End(OkStatus());
  const v1::StoredChunk& stored = reading->item->chunks(reading->next++);
  auto bytes = store_->reader().Chunk({reading->manifest.epoch(), reading->manifest.step()},
                                      *reading->item, stored);
  if (!bytes.ok()) return stream->End(bytes.status());
  v1::LoadChunk chunk;
  chunk.set_offset(stored.offset());
  chunk.set_item_bytes(reading->item->bytes());
  chunk.set_checksum(Digest(std::as_bytes(std::span(*bytes))));
  chunk.set_data(*std::move(bytes));
  stream->Send(std::move(chunk));
}

grpc::ServerUnaryReactor* StoreService::Service::Await(grpc::CallbackServerContext*,
                                                       const v1::AwaitRequest* request,
                                                       v1::AwaitResponse* response) {
  const uint64_t id = next_waiter_++;
  auto* call = new HeldCall<v1::AwaitResponse>(
      response, [this, id] { loop_.PostReserved([this, id] { LeaveAwait(id); }); });
  // A timeout that is not a number is none.
  const double seconds = std::min(request->timeout_seconds(), kMaxAwaitSeconds);
  const TimePoint deadline = Now() + Seconds(seconds > 0 ? seconds : 0);
  const bool posted = loop_.Post([this, id, call, deadline, step = request->step()] {
    if (store_ == nullptr) return call->Answer(NoStore());
    if (waiters_.size() >= kMaxAwaits)
      return call->Answer(Exhausted("too many wait for the store"));
    waiters_[id] = {step, deadline, call};
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

void StoreService::Service::AnswerAwaits() {
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    const std::optional<Status> outcome = gathering_->Outcome(it->second.step);
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
}

StatusOr<std::unique_ptr<StoreService>> StoreService::Create(const std::string& directory) {
  std::unique_ptr<CheckpointStore> store;
  uint64_t newest = 0;
  if (!directory.empty()) {
    RW_ASSIGN_OR_RETURN(store, CheckpointStore::Open(directory));
    RW_ASSIGN_OR_RETURN(const auto complete, store->reader().Complete());
    if (!complete.empty()) newest = complete.front().epoch;
  }
  auto service = std::make_unique<Service>(std::move(store));
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

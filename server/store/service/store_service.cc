#include "server/store/service/store_service.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/loop.h"
#include "jobs/store_quota.h"
#include "ringwood/v1/store.grpc.pb.h"
#include "server/calls/streams.h"
#include "server/store/checkpoint_store.h"
#include "server/store/parts/part_check.h"
#include "server/store/parts/part_links.h"
#include "server/store/record/manifest.h"
#include "server/store/record/parts.h"
#include "server/store/service/awaits.h"
#include "server/store/service/checker.h"
#include "server/store/service/item_loads.h"
#include "server/store/service/items_list.h"
#include "server/store/service/part_door.h"
#include "server/store/service/reading_room.h"
#include "server/store/service/stripe_collector.h"
#include "server/store/service/stripe_intake.h"
#include "server/store/service/worker_memory.h"
#include "server/store/store_directory.h"

namespace ringwood {
namespace {

constexpr double kSilenceSeconds = 10;  // between two checks for checkpoints that receive nothing
constexpr double kDrainSeconds = 5;

Status NoStore() { return Refused("this server keeps no checkpoints: start it with --store DIR"); }

}  // namespace

class StoreService::Service : public v1::Store::CallbackService {
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
        loads_(store_ == nullptr
                   ? nullptr
                   : std::make_unique<ItemLoads>(
                         store_.get(), room_.get(), &loop_, &disks_,
                         ItemLoads::Lookups{
                             [this](const CheckpointId& wanted) { return Find(wanted); },
                             [this](uint64_t part) { return links_.AddressOf(part); }},
                         ItemLoads::Limits{options.max_loads, options.max_waiting_loads})),
        options_(options),
        awaits_(&loop_, options.max_waiters),
        links_(options.access, &loop_),
        checker_(store_.get(), options.checked),
        loop_("store") {
    if (store_ == nullptr) return;
    if (options.further) {
      collector_->SetEpoch(v1::EpochRecord(),
                           {1, 2});  // until the main store asks: all is too early
      door_ = std::make_unique<PartDoor>(store_.get(), collector_.get(), &checker_, &loop_,
                                         options.store);
    } else {
      collector_->Divide({[this](const CheckpointId& id) { Gather(id); },
                          [this](const CheckpointId& id) { links_.GiveUp(id), Sweep(); }});
    }
    loop_.Post([this] { LookOn(); });
    checker_.ReadBackLeft(WasReadBack());
  }
  ~Service() override {
    checker_.Stop();
    (void)loop_.Call([this] { return links_.Close(), OkStatus(); }, Seconds(kDrainSeconds));
  }

  grpc::ServerReadReactor<v1::SaveChunk>* Save(grpc::CallbackServerContext*,
                                               v1::SaveReceipt* receipt) override {
    return intake_ == nullptr ? StripeIntake::Refuse(NoStore()) : intake_->Open(receipt);
  }

  grpc::ServerUnaryReactor* Meet(grpc::CallbackServerContext* context,
                                 const v1::MeetRequest* request,
                                 v1::MeetResponse* response) override {
    response->set_reads(store_ != nullptr && met_.Meet(*request, context->peer()));
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerWriteReactor<v1::LoadChunk>* Load(grpc::CallbackServerContext*,
                                                const v1::LoadRequest* request) override {
    const Status fits = loads_ == nullptr ? NoStore() : CheckMayWait(*request);
    return fits.ok() ? loads_->Open(next_call_++, *request) : ItemLoads::Stream::Refuse(fits);
  }

  grpc::ServerWriteReactor<v1::ItemsPart>* Items(grpc::CallbackServerContext*,
                                                 const v1::ItemsRequest* request) override {
    return ItemsList::Open(&loop_, *request,
                           [this](const CheckpointId& wanted) -> StatusOr<Opened> {
                             RW_RETURN_IF_ERROR(KeepsWholes());
                             return Find(wanted);
                           });
  }

  grpc::ServerUnaryReactor* Await(grpc::CallbackServerContext*, const v1::AwaitRequest* request,
                                  v1::AwaitResponse* response) override;

  grpc::ServerWriteReactor<v1::HeldPart>* Hold(grpc::CallbackServerContext*,
                                               const v1::HoldRequest* request) override {
    Status kept = KeepsWholes();
    if (kept.ok()) kept = CheckMayWait(*request);
    return kept.ok() ? room_->Open(next_call_++, *request) : ReadingRoom::Stream::Refuse(kept);
  }

  void FindBase(uint64_t job, const std::vector<StorePlace>& stores,
                std::function<void(StatusOr<std::optional<CheckpointBase>>)> answer) {
    const bool posted = loop_.Post([this, job, stores, answer] {
      if (store_ == nullptr) return answer(std::optional<CheckpointBase>());
      collector_->Fence();
      AnswerAwaits();
      const auto found = [this](uint64_t store, const std::string& address) {
        loop_.PostReserved([this, store, address] { links_.Learn(store, address); });
      };
      checker_.FindBase(job, options_.reach, AskFurtherStores(stores, options_.access, found),
                        answer);
    });
    if (!posted) answer(StoreStopping());
  }

  void SetEpoch(const v1::EpochRecord& record) {
    loop_.PostReserved([this, record] {
      if (store_ == nullptr) return;
      const auto further = FurtherStores(record.members(), record.world());
      collector_->SetEpoch(record, {0, static_cast<uint32_t>(further.size()) + 1});
      links_.SetStores(further);
      AnswerAwaits();
      Sweep();
      if (record.base_epoch() == 0) TellOfOthers(record.job());
    });
  }

  void Stop() {
    checker_.Stop();
    (void)loop_.Call(
        [this] {
          awaits_.Close(StoreStopping());
          if (door_ != nullptr) door_->Close(StoreStopping());
          if (room_ != nullptr) room_->Close(StoreStopping());
          return OkStatus();
        },
        Seconds(kDrainSeconds));
    (void)loop_.Call([this] { return links_.Close(), OkStatus(); }, Seconds(kDrainSeconds));
  }

  grpc::Service* door() { return door_.get(); }

  uint64_t newest_epoch = 0;
  uint64_t newest_bytes = 0;
  std::vector<DatedCheckpoint> found;

 private:
  using Opened = std::shared_ptr<const OpenedCheckpoint>;
  StatusOr<Opened> Find(const CheckpointId& wanted);
  StatusOr<std::shared_ptr<const v1::CheckpointManifest>> ManifestOf(const CheckpointId& id) {
    RW_ASSIGN_OR_RETURN(const auto opened, Find(id));
    return std::shared_ptr<const v1::CheckpointManifest>(opened, &opened->manifest());
  }
  void AnswerAwaits();
  void LookOn();
  void TellOfOthers(uint64_t job) const;
  void TellKept();
  void Gather(const CheckpointId& id);
  void Sweep();
  Status KeepsWholes() const;
  Awaits::Outcome OutcomeOf() const {
    return [this](uint64_t epoch, uint64_t step) { return collector_->Outcome(epoch, step); };
  }
  Checker::Found WasReadBack();

  std::unique_ptr<CheckpointStore>
      store_;  // null: keeps nothing. Touched on loop_; see its own words
  StoreQuota quota_;
  std::unique_ptr<StripeCollector> collector_;  // touched only on loop_
  std::unique_ptr<ReadingRoom> room_;
  MetProcesses met_;
  std::unique_ptr<StripeIntake> intake_;
  std::unique_ptr<ItemLoads> loads_;
  const Options options_;
  Awaits awaits_;                   // touched only on loop_
  Opened opened_;                   // the last; touched only on loop_
  std::unique_ptr<PartDoor> door_;  // of a further store
  PartLinks links_;                 // of the main one; touched only on loop_
  std::atomic<uint64_t> next_call_{1};
  Checker checker_;
  Loop loop_;
  DiskThreads disks_;  // last: their tasks end on loop_, and at our end no stream is left
};

StatusOr<StoreService::Service::Opened> StoreService::Service::Find(const CheckpointId& wanted) {
  if (store_ == nullptr) return NoStore();
  RW_ASSIGN_OR_RETURN(const CheckpointId id, store_->reader().Resolve(wanted));
  if (opened_ != nullptr && opened_->id() == id) {
    return opened_;
  }
  RW_ASSIGN_OR_RETURN(auto manifest, store_->reader().Manifest(id));
  return opened_ = std::make_shared<const OpenedCheckpoint>(std::move(manifest));
}

// A further store has parts only.
Status StoreService::Service::KeepsWholes() const {
  if (store_ == nullptr) return NoStore();
  if (door_ == nullptr) return OkStatus();
  return Refused("this server keeps parts of checkpoints: ask the one that coordinates the job");
}

grpc::ServerUnaryReactor* StoreService::Service::Await(grpc::CallbackServerContext*,
                                                       const v1::AwaitRequest* request,
                                                       v1::AwaitResponse* response) {
  const uint64_t id = next_call_++;
  auto* call = new Awaits::Call(
      response, [this, id] { loop_.PostReserved([this, id] { awaits_.Leave(id); }); });
  if (const Status fits = CheckMayWait(*request); !fits.ok()) {
    call->Answer(fits);
    return call;
  }
  const bool posted = loop_.Post([this, id, call, request = *request] {
    if (const Status kept = KeepsWholes(); !kept.ok()) return call->Answer(kept);
    awaits_.Enter(id, request, call, OutcomeOf());
  });
  if (!posted) call->Answer(StoreStopping());
  return call;
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
      Sweep();
    });
  };
}

void StoreService::Service::TellKept() {
  if (!options_.kept) return;
  const auto newest = store_->Newest(collector_->job(), kKeptCheckpoints);
  if (!newest.ok() || newest->empty()) return;
  const auto head = store_->reader().Head(newest->front());
  options_.kept(collector_->job(), *newest, head.ok() ? head->bytes() : 0);
}

void StoreService::Service::AnswerAwaits() {
  awaits_.Answer(OutcomeOf());
  if (door_ != nullptr) door_->Changed();
  room_->Changed();
}

// Every further store gathers its part, which it does not begin by itself.
void StoreService::Service::Gather(const CheckpointId& id) {
  if (const Status marked = MarkDivided(options_.store); !marked.ok()) {
    return collector_->GiveUp(id, marked);
  }
  v1::GatherRequest request;
  *request.mutable_record() = collector_->RecordOf(id);
  request.set_step(id.step);
  const auto main = store_->Identity();
  if (!main.ok()) return collector_->GiveUp(id, main.status());
  request.set_main(*main);
  const auto complete = store_->Complete();
  if (!complete.ok()) return collector_->GiveUp(id, complete.status());
  for (const Kept& kept : *complete) {
    v1::KnownCheckpoint* const known = request.add_complete();
    known->set_epoch(kept.id.epoch);
    known->set_step(kept.id.step);
    known->set_bad(kept.bad);
    known->set_unread(kept.unread);
  }
  links_.Gather(request, [this, id](uint32_t part, StatusOr<StoredPart> came) {
    collector_->PartCame(id, part, std::move(came));
    AnswerAwaits();
  });
}

// What no checkpoint has goes from the further stores: decided when they have said what they have.
void StoreService::Service::Sweep() {
  if (links_.count() == 0) return;
  const auto main = store_->Identity();
  if (!main.ok()) return;  // the next checkpoint tries again
  links_.Sweep(*main, [this](const std::vector<CheckpointId>& there) -> std::vector<CheckpointId> {
    const auto complete = store_->reader().Complete();
    if (!complete.ok()) return {};
    return Orphans(there, {complete->begin(), complete->end()}, collector_->UnderWay());
  });
}

namespace {

// Of those that are not known to be read back nothing is said: a resume reads them first.
std::vector<DatedCheckpoint> DatesOf(const CheckpointStore& store,
                                     const std::vector<CheckpointId>& complete) {
  std::vector<DatedCheckpoint> found;
  const auto unread = store.Unread();
  if (!unread.ok()) return found;
  for (const CheckpointId& id : complete) {
    if (found.size() == StoreService::kMostFound) break;
    if (std::find(unread->begin(), unread->end(), id) != unread->end()) continue;
    const auto head = store.reader().Head(id);
    if (!head.ok()) continue;  // a resume says what is damaged
    found.push_back({id, head->job(), static_cast<double>(head->unix_seconds())});
  }
  return found;
}

}  // namespace

StatusOr<std::unique_ptr<StoreService>> StoreService::Create(const Options& options) {
  std::unique_ptr<CheckpointStore> store;
  uint64_t newest = 0, bytes = 0;
  std::vector<DatedCheckpoint> found;
  if (!options.directory.empty()) {
    RW_ASSIGN_OR_RETURN(store, CheckpointStore::Open(options.directory, options.patience));
    // The main store says what of a further one may go.
    store->Keep(options.further ? Retention{.newest = std::numeric_limits<size_t>::max()}
                                : options.retention);
    if (options.further) RW_RETURN_IF_ERROR(store->Identity().status());
    RW_ASSIGN_OR_RETURN(const auto complete, store->reader().Complete());
    if (!complete.empty()) {
      newest = complete.front().epoch;
      const auto head = store->reader().Head(complete.front());
      if (head.ok()) bytes = head->bytes();  // a resume says what is damaged
    }
    found = DatesOf(*store, complete);
  }
  auto service = std::make_unique<Service>(std::move(store), options);
  service->newest_epoch = newest;
  service->newest_bytes = bytes;
  service->found = std::move(found);
  return std::unique_ptr<StoreService>(new StoreService(std::move(service)));
}

StoreService::StoreService(std::unique_ptr<Service> service) : service_(std::move(service)) {}
StoreService::~StoreService() = default;
grpc::Service* StoreService::service() { return service_.get(); }
uint64_t StoreService::newest_epoch() const { return service_->newest_epoch; }
uint64_t StoreService::newest_bytes() const { return service_->newest_bytes; }
const std::vector<DatedCheckpoint>& StoreService::found() const { return service_->found; }
void StoreService::Stop() { service_->Stop(); }
void StoreService::SetEpoch(const v1::EpochRecord& record) { service_->SetEpoch(record); }
void StoreService::FindBase(uint64_t job, const std::vector<StorePlace>& stores,
                            std::function<void(StatusOr<std::optional<CheckpointBase>>)> answer) {
  service_->FindBase(job, stores, std::move(answer));
}
grpc::Service* StoreService::parts() { return service_->door(); }

}  // namespace ringwood

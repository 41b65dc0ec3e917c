#include "server/store/parts/part_links.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <list>
#include <span>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/digest.h"
#include "base/log.h"
#include "proto/call.h"
#include "proto/own_connection.h"
#include "proto/token.h"
#include "ringwood/v1/parts.grpc.pb.h"
#include "server/store/record/manifest_rows.h"

namespace ringwood {
namespace {

constexpr double kSilentStoreSeconds = 10;  // one that is stopped or cut off for so long is gone
constexpr double kAnswerSeconds = 20;       // for a list, or for what is removed
constexpr double kGatherSeconds = 2400;     // ranks do not wait longer for a checkpoint either

// Of a store of this epoch, whose process has just joined.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address, const Access& access) {
  return OpenChannel(address, OwnConnection::Patient(Seconds(kSilentStoreSeconds)).Arguments(),
                     access);
}

std::string StoreName(const StorePlace& place) {
  return absl::StrFormat("the store of server %d (host %s)", place.server, place.host);
}

std::vector<CheckpointId> IdsOf(const v1::ListPartsResponse& listed) {
  std::vector<CheckpointId> ids;
  for (const v1::KnownCheckpoint& part : listed.parts()) ids.push_back({part.epoch(), part.step()});
  return ids;
}

// What a call brings together.
Status AddGathered(const v1::GatheredPart& piece, std::string* manifest) {
  if (Digest(std::as_bytes(std::span(piece.piece()))) != piece.checksum() ||
      manifest->size() + piece.piece().size() > kMaxManifestBytes) {
    return Corrupt("the manifest of a part arrived damaged");
  }
  *manifest += piece.piece();
  return OkStatus();
}

}  // namespace

// One further store. Its calls hold it, so that it outlives them.
class PartLinks::Link {
 public:
  Link(const StorePlace& place, const Access& access)
      : place_(place), stub_(v1::Parts::NewStub(ChannelTo(place.address, access))) {}
  ~Link() { Close(); }

  const StorePlace& place() const { return place_; }

  struct Call {
    explicit Call(const CheckpointId& which) : id(which) {}
    const CheckpointId id;
    grpc::ClientContext context;
    bool over = false;  // touched on the store's loop
    Loop loop{"store-part"};
  };

  // On its own thread; `came` is called there.
  void Gather(const v1::GatherRequest& request, std::function<void(StatusOr<StoredPart>)> came) {
    std::erase_if(calls_, [](const auto& call) { return call->over; });
    const auto call =
        std::make_shared<Call>(CheckpointId{request.record().epoch(), request.step()});
    calls_.push_back(call);
    // The call is its list's: its loop ends before it.
    call->loop.Post([this, raw = call.get(), request, came = std::move(came)] {
      came(Gathered(&raw->context, request));
    });
  }
  void Over(const CheckpointId& id) {
    for (const auto& call : calls_) call->over |= call->id == id;
  }
  void GiveUp(const CheckpointId& id) {
    for (const auto& call : calls_) {
      if (call->id == id) call->context.TryCancel();
    }
  }

  // On the thread of short calls.
  void Post(std::function<void()> task) { (void)brief_.Post(std::move(task)); }
  StatusOr<v1::ListPartsResponse> List(uint64_t main) {
    v1::ListPartsRequest request;
    request.set_main(main);
    v1::ListPartsResponse listed;
    RW_RETURN_IF_ERROR(Briefly(
        [&](grpc::ClientContext* context) { return stub_->List(context, request, &listed); }));
    return listed;
  }
  Status Remove(const v1::RemovePartsRequest& request) {
    v1::RemovePartsResponse response;
    return Briefly(
        [&](grpc::ClientContext* context) { return stub_->Remove(context, request, &response); });
  }

  void Close() {
    for (const auto& call : calls_) call->context.TryCancel();
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    if (brief_context_ != nullptr) brief_context_->TryCancel();
  }

  bool sweeping = false;  // touched on the store's loop

 private:
  template <typename Make>
  Status Briefly(const Make& make) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(Seconds(kAnswerSeconds)));
    {
      absl::MutexLock lock(&mutex_);
      if (closed_) return Aborted("the epoch is over");
      brief_context_ = &context;
    }
    const grpc::Status ended = make(&context);
    absl::MutexLock lock(&mutex_);
    brief_context_ = nullptr;
    return Annotate(FromGrpc(ended), StoreName(place_));
  }

  StatusOr<StoredPart> Gathered(grpc::ClientContext* context, const v1::GatherRequest& request) {
    context->set_wait_for_ready(false);
    context->set_deadline(DeadlineIn(Seconds(kGatherSeconds)));
    const auto reader = stub_->Gather(context, request);
    std::string serialised;
    v1::GatheredPart piece;
    Status wrong;
    while (wrong.ok() && reader->Read(&piece)) wrong = AddGathered(piece, &serialised);
    if (!wrong.ok()) context->TryCancel();
    const grpc::Status ended = reader->Finish();
    if (wrong.ok()) wrong = FromGrpc(ended);
    StoredPart part;
    if (wrong.ok() &&
        (!piece.last() || piece.store() == 0 || !part.manifest.ParseFromString(serialised))) {
      wrong = Corrupt("the manifest of its part arrived damaged");
    }
    RW_RETURN_IF_ERROR(Annotate(wrong, StoreName(place_)));
    part.place.set_store(piece.store());
    part.place.set_server(place_.server);
    part.place.set_host(place_.host);
    part.place.set_directory(piece.directory());
    part.place.set_bytes(part.manifest.bytes());
    part.place.set_digest(piece.digest());
    return part;
  }

  const StorePlace place_;
  const std::unique_ptr<v1::Parts::Stub> stub_;
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* brief_context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Loop brief_{"store-parts"};
  std::list<std::shared_ptr<Call>> calls_;  // last: their threads use the rest
};

PartLinks::PartLinks(Access access, Loop* loop) : access_(std::move(access)), loop_(loop) {}
PartLinks::~PartLinks() = default;

void PartLinks::SetStores(const std::vector<StorePlace>& places) {
  std::vector<std::shared_ptr<Link>> links;
  for (const StorePlace& place : places) {
    std::shared_ptr<Link> link;
    for (const auto& known : links_) {
      if (known->place() == place) link = known;
    }
    links.push_back(link != nullptr ? link : std::make_shared<Link>(place, access_));
  }
  for (const auto& link : links_) {
    if (std::ranges::find(links, link) == links.end()) link->Close();
  }
  links_ = std::move(links);
}

void PartLinks::Gather(const v1::GatherRequest& request, const Came& came) {
  const CheckpointId id{request.record().epoch(), request.step()};
  for (uint32_t part = 1; part <= links_.size(); ++part) {
    const std::shared_ptr<Link>& link = links_[part - 1];
    v1::GatherRequest own = request;
    own.set_part(part);
    own.set_stores(static_cast<uint32_t>(links_.size()) + 1);
    const auto tell = [this, part, id, came, weak = std::weak_ptr<Link>(link)](auto gathered) {
      loop_->PostReserved([this, part, id, came, weak, gathered = std::move(gathered)] {
        const auto still = weak.lock();
        if (still == nullptr) return;
        still->Over(id);
        if (gathered.ok()) Learn(gathered->place.store(), still->place().address);
        came(part, gathered);
      });
    };
    link->Gather(own, tell);
  }
}

void PartLinks::GiveUp(const CheckpointId& id) {
  for (const auto& link : links_) link->GiveUp(id);
}

void PartLinks::Sweep(uint64_t main, const Choose& orphans) {
  for (const auto& link : links_) {
    if (std::exchange(link->sweeping, true)) continue;
    Link* const raw = link.get();
    const std::weak_ptr<Link> weak = link;
    raw->Post([this, raw, weak, main, orphans] {
      const auto listed = raw->List(main);
      loop_->PostReserved([this, weak, orphans, listed] {
        const auto still = weak.lock();
        if (still == nullptr) return;
        still->sweeping = false;
        if (!listed.ok()) return Log(LogLevel::kDebug, Message(listed.status()));
        Learn(listed->store(), still->place().address);
        v1::RemovePartsRequest orders;
        for (const CheckpointId& id : orphans(IdsOf(*listed))) {
          v1::KnownCheckpoint* const part = orders.add_parts();
          part->set_epoch(id.epoch);
          part->set_step(id.step);
        }
        if (orders.parts().empty()) return;
        still->Post([raw = still.get(), orders] {
          const Status removed = raw->Remove(orders);
          if (!removed.ok()) Log(LogLevel::kDebug, Message(removed));
        });
      });
    });
  }
}

std::optional<std::string> PartLinks::AddressOf(uint64_t store) const {
  const auto found = addresses_.find(store);
  return found == addresses_.end() ? std::nullopt : std::optional(found->second);
}

void PartLinks::Close() {
  for (const auto& link : links_) link->Close();
  links_.clear();
}

}  // namespace ringwood

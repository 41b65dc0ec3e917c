#include "client/grpc/store_client.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "base/random.h"
#include "client/grpc/calls.h"
#include "client/grpc/chunk_message.h"
#include "client/grpc/failure_watch.h"
#include "client/grpc/load_item.h"
#include "client/grpc/store_lines.h"
#include "proto/attachment.h"
#include "proto/await_reason.h"

namespace ringwood {
namespace {

constexpr double kMeetSeconds = 5;  // a store that does not say it by then is sent the bytes
// A further store takes a stripe when the main one has begun the checkpoint, which it does with the
// first stripe of its own: another rank may have an evaluation before it, as StripeCollector says.
constexpr double kBeginSeconds = 300;
constexpr double kFirstPauseSeconds = 0.01;  // until the stripe is brought again
constexpr double kLongestPauseSeconds = 0.3;
constexpr double kLookSeconds = 0.1;  // between two looks for a store that is lost
constexpr double kListSeconds = 300;  // the store may be busy with a chunk of every other rank
constexpr uint64_t kMaxAheadBytes = 4 << 20;  // small items that were not asked for yet
constexpr size_t kMaxListedItems = 1 << 22;   // far more than a manifest holds

// Adds what a part lists.
Status TakeList(const v1::ItemsPart& part, std::vector<CheckpointItem>* items) {
  v1::ItemList list;
  if (Digest(std::as_bytes(std::span(part.list()))) != part.checksum() ||
      !list.ParseFromString(part.list())) {
    return Corrupt("the list of the checkpoint's items arrived damaged");
  }
  if (items->size() + list.items_size() > kMaxListedItems) {
    return Corrupt(absl::StrFormat("the checkpoint lists more than %d items", kMaxListedItems));
  }
  for (v1::ListedItem& item : *list.mutable_items()) {
    items->push_back(
        {std::move(*item.mutable_name()), item.scope() == v1::SCOPE_SHARED, item.bytes()});
  }
  return OkStatus();
}

v1::Memory MemoryAt(std::span<const std::byte> bytes) {
  v1::Memory memory;
  memory.set_process(static_cast<uint32_t>(getpid()));
  memory.set_address(reinterpret_cast<uint64_t>(bytes.data()));
  memory.set_bytes(static_cast<uint32_t>(bytes.size()));
  return memory;
}

v1::Scope ScopeOf(bool shared) { return shared ? v1::SCOPE_SHARED : v1::SCOPE_OWN; }

// Whose items they are: epoch, step, scope, rank.
using Where = std::tuple<uint64_t, uint64_t, int, uint32_t>;
Where WhereIs(const v1::LoadRequest& request) {
  return {request.epoch(), request.step(), request.scope(), request.rank()};
}

class GrpcStoreClient : public StoreClient {
 public:
  GrpcStoreClient(const std::string& address, const Access& access, bool by_memory,
                  Duration silence)
      : address_(address),
        by_memory_(by_memory),
        lines_(address, access, OwnConnection::Patient(silence)),
        stub_(lines_.main().stub.get()) {}

  Status Save(const StripeName& stripe, const Arena& arena, Duration timeout,
              const Sent& sent) override {
    const std::shared_ptr<StoreLine> line = lines_.At(stripe.store);
    const bool reads = by_memory_ && StoreReadsUs(line->stub.get());
    std::optional<FailureWatch> watch;
    if (!stripe.store.empty()) {
      watch.emplace(stub_, &calls_, CheckpointName{stripe.epoch, stripe.step}, timeout);
    }
    Calls* const calls = watch ? watch->stripe() : &calls_;
    const TimePoint begun = Now();
    for (double pause = kFirstPauseSeconds;; pause = std::min(2 * pause, kLongestPauseSeconds)) {
      v1::SaveReceipt receipt;
      RW_RETURN_IF_ERROR(SaveAt(*line, stripe, arena, reads, timeout, sent, calls, &receipt));
      if (!receipt.not_begun()) return OkStatus();
      RW_ASSIGN_OR_RETURN(const v1::AwaitResponse whole,
                          Ask({stripe.epoch, stripe.step}, Seconds(kListSeconds), {}, "ask"));
      if (IsOver(whole) && !whole.complete()) return Unavailable(whole.reason());
      if (Now() - begun > Seconds(kBeginSeconds)) {
        return Unavailable(absl::StrFormat(
            "the checkpoint was not begun within %g s: no rank whose stripe goes to the "
            "coordinator's store, such as rank 0, has saved (every rank saves after the same step)",
            kBeginSeconds));
      }
      std::this_thread::sleep_for(Seconds(pause));  // a session that closes waits so long
    }
  }

  Status Keep(const StripeName& stripe, const Arena& arena, Duration save, Duration await,
              const Sent& sent) override {
    const CheckpointName name{stripe.epoch, stripe.step};
    const TimePoint last = Now() + save + await;  // to begin anew: a store may be lost ever again
    std::optional<TimePoint> lost;                // since when
    for (;;) {
      Status broken = Save(stripe, arena, save, sent);
      const bool there = lost && broken.code() == StatusCode::kAlreadyExists;
      if (broken.ok() || there) {
        const StatusOr<v1::AwaitResponse> answer = AwaitAnswer(name, await);
        if (answer.ok()) return OutcomeOf(*answer);
        broken = answer.status();
        lost.reset();
      }
      // A further store gives its part up when it loses the main one, whose word alone counts.
      const bool given_up = !stripe.store.empty() && broken.code() == StatusCode::kAborted;
      const bool asks = given_up || MayBeTheConnection(broken.code());
      if (stripe.grace <= Duration::zero() || !asks) return broken;
      if (!lost) lost = Now();
      if (Now() - *lost >= stripe.grace || Now() >= last) return broken;
      RW_ASSIGN_OR_RETURN(const v1::AwaitResponse found,
                          Find(name, broken, *lost + stripe.grace, stripe.grace));
      if (IsOver(found)) return OutcomeOf(found);
    }
  }

  // What the main store says of a checkpoint, once it is there again.
  StatusOr<v1::AwaitResponse> Find(const CheckpointName& name, const Status& broken, TimePoint end,
                                   Duration grace) {
    for (;;) {
      std::this_thread::sleep_for(Seconds(kLookSeconds));  // a session that closes waits so long
      const auto answer = Ask(name, end - Now(), Duration::zero(), "ask");
      if (answer.ok() || !MayBeTheConnection(answer.status().code())) return answer;
      if (Now() >= end) {
        return Unavailable(absl::StrFormat("%s; and in %g s it was not started again",
                                           Message(broken), ToSeconds(grace)));
      }
    }
  }

  // The main store waits for `patience` until the checkpoint is over.
  StatusOr<v1::AwaitResponse> Ask(const CheckpointName& name, Duration timeout, Duration patience,
                                  const char* what) {
    grpc::ClientContext context;
    const Calls::Scope scope(&calls_, &context, timeout);
    v1::AwaitRequest request;
    request.set_epoch(name.epoch);
    request.set_step(name.step);
    request.set_timeout_seconds(ToSeconds(patience));
    v1::AwaitResponse response;
    RW_RETURN_IF_ERROR(calls_.Translate(stub_->Await(&context, request, &response), What(what)));
    return response;
  }
  StatusOr<v1::AwaitResponse> AwaitAnswer(const CheckpointName& name, Duration timeout) {
    return Ask(name, timeout, timeout * 9 / 10, "wait");  // its answer says more than our deadline
  }
  static bool IsOver(const v1::AwaitResponse& answer) {
    return answer.complete() || answer.reason() != kStripesMissing;
  }
  static Status OutcomeOf(const v1::AwaitResponse& answer) {
    return answer.complete() ? OkStatus() : Unavailable("not complete: " + answer.reason());
  }

  Status SaveAt(const StoreLine& line, const StripeName& stripe, const Arena& arena, bool reads,
                Duration timeout, const Sent& sent, Calls* calls, v1::SaveReceipt* receipt) {
    grpc::ClientContext context;
    const Calls::Scope scope(&calls_, &context, timeout);
    const Calls::Scope stripe_scope(calls, &context, timeout);
    // As the stub does it, but with messages that are serialised already.
    const grpc::internal::RpcMethod save("/ringwood.v1.Store/Save",
                                         grpc::internal::RpcMethod::CLIENT_STREAMING, line.channel);
    const std::unique_ptr<grpc::ClientWriter<grpc::ByteBuffer>> writer(
        grpc::internal::ClientWriterFactory<grpc::ByteBuffer>::Create(line.channel.get(), save,
                                                                      &context, receipt));
    v1::SaveChunk chunk;
    chunk.set_epoch(stripe.epoch);
    chunk.set_step(stripe.step);
    chunk.set_rank(stripe.rank);
    chunk.set_world(stripe.world);
    chunk.set_incarnation(stripe.incarnation);
    bool open = true;
    uint64_t bytes = 0;
    for (size_t i = 0; i < arena.size() && open; ++i) {
      const Arena::Entry entry = arena.entry(i);
      chunk.set_item(*entry.name);
      chunk.set_scope(ScopeOf(entry.shared));
      chunk.set_item_bytes(entry.item_bytes);
      chunk.set_offset(entry.offset);
      chunk.set_checksum(Digest(entry.data));
      chunk.set_dtype(entry.type->dtype);
      chunk.mutable_shape()->Assign(entry.type->shape.begin(), entry.type->shape.end());
      chunk.clear_memory();
      if (reads && !entry.data.empty()) *chunk.mutable_memory() = MemoryAt(entry.data);
      open = writer->Write(
          ChunkMessage(chunk, reads ? entry.data.first(0) : entry.data, arena.memory()));
      bytes += entry.data.size();
      if (open) sent(bytes);
    }
    if (open) {
      chunk.set_item("");
      chunk.set_scope(v1::SCOPE_UNSPECIFIED);
      chunk.set_item_bytes(0);
      chunk.set_offset(0);
      chunk.set_checksum(Digest({}));
      chunk.clear_dtype();
      chunk.clear_shape();
      chunk.clear_memory();
      chunk.set_last(true);
      writer->WriteLast(ChunkMessage(chunk, {}, nullptr), grpc::WriteOptions());
    }
    const grpc::Status ended = writer->Finish();
    if (!ended.ok()) RW_RETURN_IF_ERROR(calls->reason());
    return calls_.Translate(ended, "save at the store " + line.address);
  }

  Status Await(const CheckpointName& name, Duration timeout) override {
    RW_ASSIGN_OR_RETURN(const v1::AwaitResponse answer, AwaitAnswer(name, timeout));
    return OutcomeOf(answer);
  }

  StatusOr<std::vector<CheckpointItem>> Items(const CheckpointName& from, uint32_t rank) override {
    grpc::ClientContext context;
    const Calls::Scope scope(&calls_, &context, Seconds(kListSeconds));
    v1::ItemsRequest request;
    request.set_epoch(from.epoch);
    request.set_step(from.step);
    request.set_rank(rank);
    const auto reader = stub_->Items(&context, request);
    std::vector<CheckpointItem> items;
    v1::ItemsPart part;
    Status wrong;
    while (wrong.ok() && reader->Read(&part)) wrong = TakeList(part, &items);
    if (!wrong.ok()) context.TryCancel();
    const grpc::Status ended = reader->Finish();
    RW_RETURN_IF_ERROR(wrong);
    RW_RETURN_IF_ERROR(calls_.Translate(ended, What("list the items")));
    if (!part.last()) return Corrupt("the list of the checkpoint's items ends too early");
    return items;
  }

  Status Load(const CheckpointName& from, uint32_t rank, const std::string& name, bool shared,
              std::span<std::byte> out) override {
    v1::LoadRequest request;
    request.set_epoch(from.epoch);
    request.set_step(from.step);
    request.set_rank(rank);
    request.set_item(name);
    request.set_scope(ScopeOf(shared));
    request.set_ahead(true);
    if (TakeAhead(request, out)) return OkStatus();
    uint64_t at = 0;
    const auto copy = [&](std::span<const std::byte> data) {
      std::copy(data.begin(), data.end(), out.begin() + at);
      at += data.size();
      return OkStatus();
    };
    return LoadItem(&lines_, &calls_, request, out.size(), copy, What("load '" + name + "'"),
                    [&](Following* following) { KeepAhead(request, following); });
  }

  void Cancel() override { calls_.Cancel(Aborted("the session is closed")); }

 private:
  bool StoreReadsUs(v1::Store::Stub* store) {
    const volatile uint64_t cookie = Unpredictable();  // it looks here for it
    grpc::ClientContext context;
    const Calls::Scope scope(&calls_, &context, Seconds(kMeetSeconds));
    v1::MeetRequest request;
    request.set_cookie(cookie);
    *request.mutable_at() = MemoryAt(std::span(
        const_cast<const std::byte*>(reinterpret_cast<const volatile std::byte*>(&cookie)),
        sizeof cookie));
    v1::MeetResponse response;
    return store->Meet(&context, request, &response).ok() && response.reads();
  }

  // Items that came with others: of the scope and rank of the last load.
  bool TakeAhead(const v1::LoadRequest& request, std::span<std::byte> out) {
    if (WhereIs(request) != ahead_of_) return false;
    const auto item = ahead_.find(request.item());
    if (item == ahead_.end() || item->second.size() != out.size()) return false;
    std::ranges::copy(std::as_bytes(std::span(item->second)), out.begin());
    ahead_bytes_ -= item->second.size();
    ahead_.erase(item);
    return true;
  }
  void KeepAhead(const v1::LoadRequest& request, Following* following) {
    if (WhereIs(request) != ahead_of_ || ahead_bytes_ > kMaxAheadBytes) {
      ahead_.clear();
      ahead_bytes_ = 0;
    }
    ahead_of_ = WhereIs(request);
    for (v1::SmallItem& item : *following) {
      const auto [place, is_new] = ahead_.try_emplace(std::move(*item.mutable_name()));
      if (!is_new) continue;
      place->second = std::move(*item.mutable_data());
      ahead_bytes_ += place->second.size();
    }
  }

  std::string What(const std::string& call) const { return call + " at the store " + address_; }

  const std::string address_;
  const bool by_memory_;
  StoreLines lines_;
  v1::Store::Stub* const stub_;  // of the main one
  Calls calls_;
  // Touched by Load, of which one runs at a time.
  std::optional<Where> ahead_of_;
  std::map<std::string, std::string> ahead_;  // by name
  uint64_t ahead_bytes_ = 0;
};

}  // namespace

std::unique_ptr<StoreClient> MakeGrpcStoreClient(const std::string& address, const Access& access,
                                                 bool by_memory, Duration silence) {
  return std::make_unique<GrpcStoreClient>(address, access, by_memory, silence);
}

}  // namespace ringwood

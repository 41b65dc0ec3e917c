#include "client/grpc/reader_client.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "client/grpc/calls.h"
#include "client/grpc/load_item.h"
#include "proto/attachment.h"
#include "proto/call.h"
#include "proto/server_start.h"
#include "ringwood/v1/control.grpc.pb.h"

namespace ringwood {
namespace {

constexpr double kReaderSilenceSeconds = 10;
constexpr double kConnectSeconds = 5;      // for a server that is just being started
constexpr double kLostConnectSeconds = 1;  // until the next look for one that may be elsewhere
// The server answers within the time that it is given, and says more than a deadline of ours.
constexpr double kAnswerSeconds = 5;
constexpr double kPartSeconds = 60;    // between two parts of a list
constexpr double kAgainSeconds = 0.1;  // a deployment opens a job in about so long

constexpr size_t kMaxHeldItems = 1 << 22;  // far more than a manifest holds

Status TakePart(const v1::HeldPart& part, v1::CheckpointManifest* manifest) {
  if (Digest(std::as_bytes(std::span(part.manifest()))) != part.checksum() ||
      !manifest->MergeFromString(part.manifest())) {
    return Corrupt("the list of the checkpoint's items arrived damaged");
  }
  if (static_cast<size_t>(manifest->items_size()) <= kMaxHeldItems) return OkStatus();
  return Corrupt(absl::StrFormat("the checkpoint lists more than %d items", kMaxHeldItems));
}

// A Hold call: parts of a manifest come, then nothing until it is ended. The wait for each part has
// a deadline, the stream has none.
class Holding {
 public:
  Holding(v1::Store::Stub* store, const v1::HoldRequest& request)
      : reader_(store->AsyncHold(&context_, request, &queue_, this)) {}
  ~Holding() {
    context_.TryCancel();
    if (!finished_) (void)Finish();
    queue_.Shutdown();
    for (void* tag; queue_.Next(&tag, &well_);) {
    }
  }

  // Once a part was read.
  std::string start() const { return ServerStartIn(context_.GetServerInitialMetadata()); }

  // The next part; an error is the end.
  grpc::Status Read(v1::HeldPart* part, double seconds) {
    const auto deadline = DeadlineIn(Seconds(seconds));
    if (!began_) {
      if (!Await(deadline)) return Late();
      began_ = true;
      if (!well_) return Ended();
    }
    reader_->Read(part, this);
    ++pending_;
    if (!Await(deadline)) return Late();
    return well_ ? grpc::Status::OK : Ended();
  }

 private:
  static grpc::Status Late() {
    return {grpc::StatusCode::DEADLINE_EXCEEDED, "the server did not answer"};
  }
  grpc::Status Ended() {
    const grpc::Status status = Finish();
    if (!status.ok()) return status;
    return {grpc::StatusCode::DATA_LOSS, "the list of the checkpoint's items ends too early"};
  }
  bool Await(std::chrono::system_clock::time_point deadline) {
    void* tag;
    if (queue_.AsyncNext(&tag, &well_, deadline) != grpc::CompletionQueue::GOT_EVENT) return false;
    --pending_;
    return true;
  }
  // What is pending ends first: where it does not by itself, the call was cancelled.
  grpc::Status Finish() {
    void* tag;
    for (; pending_ > 0; --pending_) queue_.Next(&tag, &well_);
    grpc::Status status;
    reader_->Finish(&status, this);
    queue_.Next(&tag, &well_);
    finished_ = true;
    return status;
  }

  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  bool well_ = false;  // as the last operation was
  bool began_ = false;
  bool finished_ = false;
  int pending_ = 1;  // operations that have not come out of the queue
  const std::unique_ptr<grpc::ClientAsyncReader<v1::HeldPart>> reader_;
};

class GrpcReaderClient : public ReaderClient {
 public:
  GrpcReaderClient(ServerPlace place, FindServerAgain again)
      : again_(std::move(again)), line_(std::make_unique<Line>(std::move(place))) {}

  StatusOr<v1::PullResponse> Pull(const v1::PullRequest& request) override {
    v1::PullResponse response;
    patience_seconds_ = std::max(patience_seconds_, request.timeout_seconds());
    RW_RETURN_IF_ERROR(Explained(AskedAgain(request, true, [&](const v1::PullRequest& asked) {
      AwaitConnection(asked.timeout_seconds());
      grpc::ClientContext context;
      context.set_deadline(DeadlineIn(Seconds(asked.timeout_seconds() + kAnswerSeconds)));
      const grpc::Status status = line_->coordinator->Pull(&context, asked, &response);
      return OfTheServer(status, ServerStartIn(context.GetServerTrailingMetadata()));
    })));
    told_ = true;
    return response;
  }

  StatusOr<v1::CheckpointManifest> Hold(const v1::HoldRequest& request) override {
    v1::CheckpointManifest manifest;
    v1::HeldPart part;
    patience_seconds_ = std::max(patience_seconds_, request.timeout_seconds());
    // One that was to come, of a server that is lost, is asked for anew, with Pull.
    const bool is_there = request.exactly() || (request.epoch() == 0 && request.step() == 0);
    Status held = Explained(AskedAgain(request, is_there, [&](const v1::HoldRequest& asked) {
      AwaitConnection(asked.timeout_seconds());
      holding_ = std::make_unique<Holding>(line_->stores.main().stub.get(), asked);
      grpc::Status status = holding_->Read(&part, asked.timeout_seconds() + kAnswerSeconds);
      if (status.ok()) status = OfTheServer(status, holding_->start());
      if (!status.ok()) holding_.reset();
      return status;
    }));
    if (held.ok()) held = TakePart(part, &manifest);
    while (held.ok() && !part.last()) {
      held = Explained(holding_->Read(&part, kPartSeconds));
      if (held.ok()) held = TakePart(part, &manifest);
    }
    if (held.ok()) job_ = manifest.job();
    if (held.ok()) return manifest;
    holding_.reset();
    return held;
  }

  void Release() override { holding_.reset(); }

  Status Load(const v1::LoadRequest& request, uint64_t item_bytes, const Take& take) override {
    uint64_t taken = 0;
    Status refused;  // by `take`
    TimePoint until;
    for (;;) {
      const uint64_t before = taken;
      uint64_t known = before;  // bytes that come once more
      const auto take_new = [&](std::span<const std::byte> bytes) {
        const size_t again = static_cast<size_t>(std::min<uint64_t>(known, bytes.size()));
        known -= again;
        taken += bytes.size() - again;
        refused = take(bytes.subspan(again));
        return refused;
      };
      const Status loaded = LoadItem(&line_->stores, &calls_, request, item_bytes, take_new,
                                     "load '" + request.item() + "' at the store " + address());
      if (!refused.ok() || !MayBeTheConnection(loaded.code())) return loaded;
      if (until == TimePoint() || taken > before) until = Now() + Seconds(patience_seconds_);
      RW_RETURN_IF_ERROR(Annotate(HoldAgain(request, until), Message(loaded)));
    }
  }

 private:
  struct Line {
    explicit Line(ServerPlace to)
        : place(std::move(to)),
          stores(place.address, place.access,
                 {.silence = Seconds(kReaderSilenceSeconds), .reconnection = kEagerReconnection}),
          coordinator(v1::Coordinator::NewStub(stores.main().channel)) {}
    const ServerPlace place;
    StoreLines stores;
    const std::unique_ptr<v1::Coordinator::Stub> coordinator;
  };
  const std::string& address() const { return line_->place.address; }

  // After its server was lost: holds the checkpoint that was being read at the server's new place.
  Status HoldAgain(const v1::LoadRequest& read, TimePoint until) {
    absl::SleepFor(absl::Seconds(kAgainSeconds));
    v1::HoldRequest wish;
    wish.set_job(job_);
    wish.set_epoch(read.epoch());
    wish.set_step(read.step());
    wish.set_exactly(true);
    wish.set_timeout_seconds(ToSeconds(until - Now()));
    if (wish.timeout_seconds() > 0) return Hold(wish).status();
    return TimedOut(absl::StrFormat("it did not go on within %.0f s", patience_seconds_));
  }

  // `answer`, unless another server than the expected one gave it.
  grpc::Status OfTheServer(const grpc::Status& answer, const std::string& start) const {
    if (!IsAnotherStart(line_->place.start, start)) return answer;
    return {grpc::StatusCode::FAILED_PRECONDITION, AnotherServerAt(address())};
  }

  // Within the request's time, as often as a deployment that is opening or closing the job asks for
  // it; where it is `lasting`, also while a server that is lost may come back.
  template <typename Request, typename Call>
  grpc::Status AskedAgain(Request request, bool lasting, const Call& call) {
    const TimePoint end = Now() + Seconds(request.timeout_seconds());
    for (;;) {
      const grpc::Status status = call(request);
      const bool again =
          AsksAgain(status) || (lasting && MayComeBack(status, ToSeconds(end - Now())));
      const double left = ToSeconds(end - Now()) - kAgainSeconds;
      if (!again || left <= 0) return status;
      absl::SleepFor(absl::Seconds(kAgainSeconds));
      request.set_timeout_seconds(left);
    }
  }

  // Whether the server is lost, or was and is not yet what it was; goes to where it is by now.
  bool MayComeBack(const grpc::Status& status, double seconds) {
    if (status.ok() || Follows()) return !status.ok();
    // A server that ends cancels what it has not answered.
    const bool away = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                      status.error_code() == grpc::StatusCode::CANCELLED;
    // It is there again before its ranks are; or the ranks have failed, and not come back.
    if (!away) return (lost_ || told_) && status.error_code() == grpc::StatusCode::NOT_FOUND;
    if (lost_) return true;
    if (again_ == nullptr && !connected_) return false;
    if (!WhyRefused(address(), line_->place.access).ok()) return false;
    lost_ = true;
    Log(LogLevel::kWarning,
        absl::StrFormat("no server answers at %s (%s): one that comes back is waited for, %.0f s "
                        "at most%s",
                        address(), status.error_message(), std::max(seconds, 0.0), Instead()));
    return true;
  }

  // False: the server is nowhere else.
  bool Follows() {
    std::optional<ServerPlace> place = again_ == nullptr ? std::nullopt : again_();
    if (!place.has_value()) return false;
    line_ = std::make_unique<Line>(*std::move(place));
    lost_ = true;
    return true;
  }

  // Where none comes the call that follows says why.
  void AwaitConnection(double seconds) {
    if (lost_ || again_ != nullptr) seconds = std::min(seconds, kLostConnectSeconds);
    connected_ |= line_->stores.main().channel->WaitForConnected(
        DeadlineIn(Seconds(std::min(seconds, kConnectSeconds))));
  }
  // What to do where the server that a store names may have been killed for good.
  std::string Instead() const {
    if (again_ == nullptr) return "";
    return "; if it was killed for good, `ringwood checkpoint export --store` reads what its store "
           "has without it";
  }

  // gRPC's own sentences tell neither whom nor the remedy.
  Status Explained(const grpc::Status& status) const {
    switch (status.error_code()) {
      case grpc::StatusCode::UNIMPLEMENTED:
        return Refused("the server " + address() +
                       " knows no pull: it is of an older version, start one of this version");
      case grpc::StatusCode::CANCELLED:  // by a server that ends
      case grpc::StatusCode::UNAVAILABLE:
        RW_RETURN_IF_ERROR(WhyRefused(address(), line_->place.access));
        return Unavailable("the server " + address() + ": " + status.error_message() +
                           (again_ != nullptr
                                ? Instead()
                                : " (its address is what `ringwood run` and `ringwood server` "
                                  "print, and RINGWOOD_COORDINATOR in the job's ranks)"));
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        if (status.error_message() != "Deadline Exceeded") return FromGrpc(status);
        return TimedOut("the server " + address() +
                        " gives no answer: it may be stopped or cut off");
      default:
        return FromGrpc(status);
    }
  }

  const FindServerAgain again_;
  std::unique_ptr<Line> line_;
  bool connected_ = false;       // at least once
  bool lost_ = false;            // at least once
  bool told_ = false;            // of a checkpoint to come, at least once
  double patience_seconds_ = 0;  // the longest that was asked for
  uint64_t job_ = 0;             // of the checkpoint that was held last
  Calls calls_;
  std::unique_ptr<Holding> holding_;  // over line_
};

}  // namespace

std::unique_ptr<ReaderClient> MakeGrpcReaderClient(const ServerPlace& place,
                                                   FindServerAgain again) {
  return std::make_unique<GrpcReaderClient>(place, std::move(again));
}

}  // namespace ringwood

#include "client/grpc/reader_client.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/digest.h"
#include "client/grpc/calls.h"
#include "client/grpc/load_item.h"
#include "proto/call.h"
#include "ringwood/v1/control.grpc.pb.h"

namespace ringwood {
namespace {

constexpr double kReaderSilenceSeconds = 10;
constexpr double kConnectSeconds = 5;  // for a server that is just being started
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
  GrpcReaderClient(const std::string& address, const Access& access)
      : address_(address),
        access_(access),
        stores_(address, access,
                {.silence = Seconds(kReaderSilenceSeconds), .reconnection = kEagerReconnection}),
        coordinator_(v1::Coordinator::NewStub(stores_.main().channel)) {}

  StatusOr<v1::PullResponse> Pull(const v1::PullRequest& request) override {
    v1::PullResponse response;
    RW_RETURN_IF_ERROR(Explained(AskedAgain(request, [&](const v1::PullRequest& asked) {
      AwaitConnection(asked.timeout_seconds());
      grpc::ClientContext context;
      context.set_deadline(DeadlineIn(Seconds(asked.timeout_seconds() + kAnswerSeconds)));
      return coordinator_->Pull(&context, asked, &response);
    })));
    return response;
  }

  StatusOr<v1::CheckpointManifest> Hold(const v1::HoldRequest& request) override {
    v1::CheckpointManifest manifest;
    v1::HeldPart part;
    Status held = Explained(AskedAgain(request, [&](const v1::HoldRequest& asked) {
      AwaitConnection(asked.timeout_seconds());
      holding_ = std::make_unique<Holding>(stores_.main().stub.get(), asked);
      return holding_->Read(&part, asked.timeout_seconds() + kAnswerSeconds);
    }));
    if (held.ok()) held = TakePart(part, &manifest);
    while (held.ok() && !part.last()) {
      held = Explained(holding_->Read(&part, kPartSeconds));
      if (held.ok()) held = TakePart(part, &manifest);
    }
    if (held.ok()) return manifest;
    holding_.reset();
    return held;
  }

  void Release() override { holding_.reset(); }

  Status Load(const v1::LoadRequest& request, uint64_t item_bytes, const Take& take) override {
    return LoadItem(&stores_, &calls_, request, item_bytes, take,
                    "load '" + request.item() + "' at the store " + address_);
  }

 private:
  // As often as a deployment that is opening or closing the job asks for it, within the request's
  // time.
  template <typename Request, typename Call>
  static grpc::Status AskedAgain(Request request, const Call& call) {
    const TimePoint end = Now() + Seconds(request.timeout_seconds());
    for (;;) {
      const grpc::Status status = call(request);
      const double left = ToSeconds(end - Now()) - kAgainSeconds;
      if (!AsksAgain(status) || left <= 0) return status;
      absl::SleepFor(absl::Seconds(kAgainSeconds));
      request.set_timeout_seconds(left);
    }
  }
  // Where none comes the call that follows says why.
  void AwaitConnection(double seconds) {
    (void)stores_.main().channel->WaitForConnected(
        DeadlineIn(Seconds(std::min(seconds, kConnectSeconds))));
  }
  // gRPC's own sentences tell neither whom nor the remedy.
  Status Explained(const grpc::Status& status) const {
    switch (status.error_code()) {
      case grpc::StatusCode::UNIMPLEMENTED:
        return Refused("the server " + address_ +
                       " knows no pull: it is of an older version, start one of this version");
      case grpc::StatusCode::UNAVAILABLE:
        RW_RETURN_IF_ERROR(WhyRefused(address_, access_));
        return Unavailable("the server " + address_ + ": " + status.error_message() +
                           " (its address is what `ringwood run` and `ringwood server` print, and "
                           "RINGWOOD_COORDINATOR in the job's ranks)");
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        if (status.error_message() != "Deadline Exceeded") return FromGrpc(status);
        return TimedOut("the server " + address_ +
                        " gives no answer: it may be stopped or cut off");
      default:
        return FromGrpc(status);
    }
  }

  const std::string address_;
  const Access access_;
  StoreLines stores_;
  const std::unique_ptr<v1::Coordinator::Stub> coordinator_;
  Calls calls_;
  std::unique_ptr<Holding> holding_;
};

}  // namespace

std::unique_ptr<ReaderClient> MakeGrpcReaderClient(const std::string& address,
                                                   const Access& access) {
  return std::make_unique<GrpcReaderClient>(address, access);
}

}  // namespace ringwood

#include "server/store/parts/part_check.h"

#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "proto/call.h"
#include "proto/own_connection.h"
#include "proto/token.h"
#include "ringwood/v1/parts.grpc.pb.h"
#include "server/store/record/checkpoint_key.h"
#include "server/store/record/parts.h"

namespace ringwood {
namespace {

constexpr double kSilentSeconds = 10;
constexpr double kListSeconds = 30;  // its process has just joined
constexpr double kAskSeconds = 1;    // between two looks whether the answer is still wanted

// Which stores are there.
struct Stores {
  std::vector<StorePlace> places;
  std::vector<std::unique_ptr<v1::Parts::Stub>> stubs;
  std::map<uint64_t, size_t> by_number;
};

Status ListStores(const Access& access,
                  const std::function<void(uint64_t, const std::string&)>& found, Stores* stores) {
  for (const StorePlace& place : stores->places) {
    const auto channel = OpenChannel(
        place.address, OwnConnection::Patient(Seconds(kSilentSeconds)).Arguments(), access);
    stores->stubs.push_back(v1::Parts::NewStub(channel));
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(Seconds(kListSeconds)));
    context.set_wait_for_ready(true);
    v1::ListPartsResponse listed;
    const grpc::Status ended =
        stores->stubs.back()->List(&context, v1::ListPartsRequest(), &listed);
    if (!ended.ok()) {
      return Unavailable(absl::StrFormat("the store of server %d (host %s) does not answer: %s",
                                         place.server, place.host, ended.error_message()));
    }
    stores->by_number[listed.store()] = stores->stubs.size() - 1;
    found(listed.store(), place.address);
  }
  return OkStatus();
}

std::string WholeName(const v1::CheckpointManifest& head) {
  return Text({head.epoch(), head.step()});
}

Status NotHere(const v1::CheckpointManifest& head, int part) {
  return Refused(absl::StrFormat(
      "part %d of %d of the checkpoint of %s is in %s, which is none of the stores of this job: "
      "start that server with that --store again, as the job was started (ringwood run --stores "
      "%d, with the same hosts)",
      part + 1, head.parts_size() + 1, WholeName(head), PlaceName(head.parts(part)),
      head.parts_size() + 1));
}

// The answers of all parts of one checkpoint.
class Asked {
 public:
  Asked(std::shared_ptr<Stores> stores, v1::CheckpointManifest head)
      : stores_(std::move(stores)), head_(std::move(head)), calls_(head_.parts_size()) {}
  ~Asked() {
    for (auto& call : calls_) call.context.TryCancel();
    queue_.Shutdown();
    void* tag;
    bool well;
    while (queue_.Next(&tag, &well)) {
    }
  }

  Status Begin() {
    for (int part = 0; part < head_.parts_size(); ++part) {
      const auto at = stores_->by_number.find(head_.parts(part).store());
      if (at == stores_->by_number.end()) return NotHere(head_, part);
      v1::CheckPartRequest request;
      request.set_store(head_.parts(part).store());
      request.set_epoch(head_.epoch());
      request.set_step(head_.step());
      request.set_digest(head_.parts(part).digest());
      Call& call = calls_[part];
      call.reader = stores_->stubs[at->second]->AsyncCheck(&call.context, request, &queue_);
      call.reader->Finish(&call.response, &call.status, &call);
    }
    return OkStatus();
  }

  // A part may be terabytes on a slow disk, so the calls have no deadline: they end with the
  // store's process, which is pinged (kSilentSeconds), and when nobody wants them any more.
  Status Await(const GoesOn& goes_on) {
    for (size_t left = calls_.size(); left > 0;) {
      void* tag;
      bool well;
      const auto deadline = DeadlineIn(Seconds(kAskSeconds));
      if (queue_.AsyncNext(&tag, &well, deadline) == grpc::CompletionQueue::GOT_EVENT) {
        --left;
      } else {
        RW_RETURN_IF_ERROR(goes_on());
      }
    }
    for (size_t part = 0; part < calls_.size(); ++part) {
      RW_RETURN_IF_ERROR(
          Annotate(FromGrpc(calls_[part].status), PlaceName(head_.parts(static_cast<int>(part)))));
    }
    return OkStatus();
  }

 private:
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::CheckPartResponse>> reader;
    v1::CheckPartResponse response;
    grpc::Status status;
  };
  const std::shared_ptr<Stores> stores_;
  const v1::CheckpointManifest head_;
  grpc::CompletionQueue queue_;
  std::vector<Call> calls_;
};

}  // namespace

std::function<StatusOr<PartsVerdict>(const v1::CheckpointManifest& head)> AskFurtherStores(
    const std::vector<StorePlace>& places, const Access& access,
    const std::function<void(uint64_t, const std::string&)>& found) {
  const auto stores = std::make_shared<Stores>();
  stores->places = places;
  return [stores, access, found](const v1::CheckpointManifest& head) -> StatusOr<PartsVerdict> {
    if (stores->stubs.empty()) RW_RETURN_IF_ERROR(ListStores(access, found, stores.get()));
    v1::CheckpointManifest what = head;
    what.clear_items();
    const auto asked = std::make_shared<Asked>(stores, std::move(what));
    RW_RETURN_IF_ERROR(asked->Begin());
    return PartsVerdict([asked](const GoesOn& goes_on) { return asked->Await(goes_on); });
  };
}

}  // namespace ringwood

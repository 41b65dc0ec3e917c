#include "sparse/climb.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/buffer.h"
#include "base/check.h"
#include "sparse/codec.h"
#include "sparse/merge.h"
#include "sparse/select.h"

namespace ringwood {
namespace {

Content ContentOf(const Codec& codec, uint64_t count) {
  return {static_cast<uint8_t>(codec.value), codec.id(), count};
}

// One exchange in flight. Lives until the transport has answered everything: the callbacks own it.
class Climb : public std::enable_shared_from_this<Climb> {
 public:
  Climb(Transport* transport, const ClimbRequest& request, const Codec& codec, Entries up,
        std::function<void(StatusOr<Descent>)> done)
      : transport_(transport),
        request_(request),
        codec_(codec),
        up_(std::move(up)),
        done_(std::move(done)) {}

  void Start() {
    if (request_.shape.workers == 1) return FinishAlone();
    Encode(codec_, request_.elements, up_, &wire_);
    if (request_.shape.reducers == 0) {
      StartGather();
    } else {
      StartTree();
    }
  }

 private:
  MessageName Name(uint32_t slot) const {
    return {Lane::kSparse, request_.round, request_.group, 0, slot};
  }

  void FinishAlone() {
    descent_.counted.assign(up_.size(), 1);
    descent_.result = std::move(up_);
    done_(std::move(descent_));
  }

  void StartTree() {
    const int parent = ParentOf(request_.shape, request_.node);
    inbox_.resize(2);
    inbox_[0] = Buffer<std::byte>(
        MaxWireBytes(codec_.Exact(), request_.elements,
                     MaxResultEntries(request_.shape, request_.elements, request_.k)));
    inbox_[1] = Buffer<std::byte>(CountedBytes(up_.size()));
    arrived_.resize(2);
    pending_ = 3;
    Receive(parent, Name(kEntriesSlot), ContentOf(codec_.Exact(), 0), 0);
    Receive(parent, Name(kCountedSlot), {0, 0, up_.size()}, 1);
    Send(parent);
  }

  // Every worker hears every other and merges for itself, in rank order.
  void StartGather() {
    const int workers = request_.shape.workers;
    const uint64_t bytes = MaxWireBytes(codec_, request_.elements, request_.k);
    inbox_.resize(workers);
    arrived_.resize(workers);
    pending_ = 2 * (workers - 1);
    for (int peer = 0; peer < workers; ++peer) {
      if (peer == request_.node) continue;
      inbox_[peer] = Buffer<std::byte>(bytes);
      Receive(peer, Name(kEntriesSlot), ContentOf(codec_, 0), peer);
    }
    for (int shift = 1; shift < workers; ++shift) Send((request_.node + shift) % workers);
  }

  void Receive(int peer, const MessageName& name, const Content& content, size_t box) {
    transport_->Receive(
        peer, name, content, inbox_[box].span(),
        [self = shared_from_this(), box](StatusOr<std::span<std::byte>> got, const Frame&) {
          if (got.ok()) self->arrived_[box] = *got;
          self->OneDone(got.status());
        });
  }

  void Send(int peer) {
    descent_.sent_bytes += wire_.size();
    transport_->Send(peer, Name(kEntriesSlot), ContentOf(codec_, up_.size()), wire_,
                     [self = shared_from_this()](Status status) { self->OneDone(status); });
  }

  void OneDone(const Status& status) {
    if (status_.ok()) status_ = status;
    if (--pending_ > 0) return;
    if (status_.ok()) status_ = request_.shape.reducers == 0 ? ReadGather() : ReadTree();
    if (!status_.ok()) {
      done_(Annotate(status_, absl::StrFormat("sparse exchange, rank %d, round %d, group %d",
                                              request_.node, request_.round, request_.group)));
      return;
    }
    done_(std::move(descent_));
  }

  Status ReadTree() {
    RW_RETURN_IF_ERROR(Decode(codec_.Exact(), request_.elements,
                              MaxResultEntries(request_.shape, request_.elements, request_.k),
                              arrived_[0], &descent_.result));
    if (arrived_[1].size() != CountedBytes(up_.size())) {
      return Corrupt(absl::StrFormat("%d entries went up and %d bytes of counted bits came down",
                                     up_.size(), arrived_[1].size()));
    }
    descent_.counted = UnpackCounted(arrived_[1], up_.size());
    return OkStatus();
  }

  Status ReadGather() {
    std::vector<Entries> all(request_.shape.workers);
    for (int peer = 0; peer < request_.shape.workers; ++peer) {
      const std::span<const std::byte> wire =
          peer == request_.node ? std::span<const std::byte>(wire_) : arrived_[peer];
      RW_RETURN_IF_ERROR(Decode(codec_, request_.elements, request_.k, wire, &all[peer]));
    }
    descent_.result = MergeSum(all, request_.elements);
    if (request_.merge != "union") KeepLargest(request_.k, &descent_.result);
    descent_.counted = CountedOf(up_.index, descent_.result.index);
    return OkStatus();
  }

  Transport* const transport_;
  const ClimbRequest request_;
  const Codec codec_;
  Entries up_;
  std::function<void(StatusOr<Descent>)> done_;
  std::vector<std::byte> wire_;
  std::vector<Buffer<std::byte>> inbox_;
  std::vector<std::span<const std::byte>> arrived_;  // the filled part of each inbox
  int pending_ = 0;                                  // answers that the transport still owes
  Status status_;                                    // the first failure
  Descent descent_;
};

}  // namespace

uint64_t MaxResultEntries(const TreeShape& shape, uint64_t elements, uint64_t k) {
  return std::min(elements, k * static_cast<uint64_t>(shape.workers));
}

void StartClimb(Transport* transport, const ClimbRequest& request, Entries up,
                std::function<void(StatusOr<Descent>)> done) {
  RW_CHECK(up.index.size() == up.value.size());
  RW_CHECK(request.node >= 0 && request.node < request.shape.workers);
  StatusOr<Codec> codec = ParseCodec(request.codec);
  if (!codec.ok()) return done(codec.status());
  if (up.size() > request.k || (up.size() > 0 && up.index.back() >= request.elements)) {
    return done(Invalid(
        absl::StrFormat("sparse exchange, group %d: %d entries (at most %d) do not fit %d elements",
                        request.group, up.size(), request.k, request.elements)));
  }
  std::make_shared<Climb>(transport, request, *codec, std::move(up), std::move(done))->Start();
}

}  // namespace ringwood

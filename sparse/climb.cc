#include "sparse/climb.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/buffer.h"
#include "base/check.h"
#include "sparse/merge.h"
#include "sparse/select.h"

namespace ringwood {
namespace {

Content ContentOf(const Codec& codec, uint64_t count) {
  return {static_cast<uint8_t>(codec.value), codec.id(), count};
}

}  // namespace

// Lives until the transport has answered everything: the callbacks own it.
class Climb::Range : public std::enable_shared_from_this<Range> {
 public:
  Range(Transport* transport, std::shared_ptr<const Climb> climb, const Part& part, uint64_t round,
        Entries up, std::function<void(StatusOr<Descent>)> done)
      : transport_(transport),
        climb_(std::move(climb)),
        part_(part),
        round_(round),
        up_(std::move(up)),
        done_(std::move(done)) {}

  void Start() {
    if (climb_->shape_.workers == 1) return FinishAlone();
    Encode(climb_->codec_, elements(), up_, &wire_);
    part_.parent == -1 ? StartGather() : StartTree();
  }

 private:
  uint64_t elements() const { return part_.shard.elements(); }

  MessageName Name(uint32_t slot) const {
    return {Lane::kSparse, round_, climb_->group_.group, 0, slot};
  }

  void FinishAlone() {
    descent_.counted.assign(up_.size(), 1);
    descent_.result = std::move(up_);
    done_(std::move(descent_));
  }

  void StartTree() {
    const Codec exact = climb_->codec_.Exact();
    inbox_.resize(2);
    inbox_[0] = Buffer<std::byte>(MaxWireBytes(exact, elements(), part_.most));
    inbox_[1] = Buffer<std::byte>(CountedBytes(up_.size()));
    arrived_.resize(2);
    pending_ = 3;
    Receive(part_.parent, Name(kEntriesSlot), ContentOf(exact, 0), 0);
    Receive(part_.parent, Name(kCountedSlot), {0, 0, up_.size()}, 1);
    Send(part_.parent);
  }

  // Every worker hears every other and merges for itself, in rank order.
  void StartGather() {
    const int workers = climb_->shape_.workers;
    const uint64_t bytes = MaxWireBytes(climb_->codec_, elements(), part_.k);
    inbox_.resize(workers);
    arrived_.resize(workers);
    pending_ = 2 * (workers - 1);
    for (int peer = 0; peer < workers; ++peer) {
      if (peer == climb_->worker_) continue;
      inbox_[peer] = Buffer<std::byte>(bytes);
      Receive(peer, Name(kEntriesSlot), ContentOf(climb_->codec_, 0), peer);
    }
    for (int shift = 1; shift < workers; ++shift) Send((climb_->worker_ + shift) % workers);
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
    transport_->Send(peer, Name(kEntriesSlot), ContentOf(climb_->codec_, up_.size()), wire_,
                     [self = shared_from_this()](Status status) { self->OneDone(status); });
  }

  void OneDone(const Status& status) {
    if (status_.ok()) status_ = status;
    if (--pending_ > 0) return;
    if (status_.ok()) status_ = part_.parent == -1 ? ReadGather() : ReadTree();
    if (!status_.ok()) {
      done_(Annotate(status_, absl::StrFormat("sparse exchange, rank %d, round %d, group %d",
                                              climb_->worker_, round_, climb_->group_.group)));
      return;
    }
    done_(std::move(descent_));
  }

  Status ReadTree() {
    RW_RETURN_IF_ERROR(
        Decode(climb_->codec_.Exact(), elements(), part_.most, arrived_[0], &descent_.result));
    if (arrived_[1].size() != CountedBytes(up_.size())) {
      return Corrupt(absl::StrFormat("%d entries went up and %d bytes of counted bits came down",
                                     up_.size(), arrived_[1].size()));
    }
    descent_.counted = UnpackCounted(arrived_[1], up_.size());
    return OkStatus();
  }

  Status ReadGather() {
    std::vector<Entries> all(climb_->shape_.workers);
    for (int peer = 0; peer < climb_->shape_.workers; ++peer) {
      const std::span<const std::byte> wire =
          peer == climb_->worker_ ? std::span<const std::byte>(wire_) : arrived_[peer];
      RW_RETURN_IF_ERROR(Decode(climb_->codec_, elements(), part_.k, wire, &all[peer]));
    }
    descent_.result = MergeSum(all, elements());
    if (climb_->merge_ != Merge::kUnion) KeepLargest(part_.most, &descent_.result);
    descent_.counted = CountedOf(up_.index, descent_.result.index);
    return OkStatus();
  }

  Transport* const transport_;
  const std::shared_ptr<const Climb> climb_;
  const Part part_;
  const uint64_t round_;
  Entries up_;
  std::function<void(StatusOr<Descent>)> done_;
  std::vector<std::byte> wire_;
  std::vector<Buffer<std::byte>> inbox_;
  std::vector<std::span<const std::byte>> arrived_;  // the filled part of each inbox
  int pending_ = 0;                                  // answers that the transport still owes
  Status status_;                                    // the first failure
  Descent descent_;
};

// All ranges of a group, each on its own way; the answers are put together in their order.
class Climb::AllRanges : public std::enable_shared_from_this<AllRanges> {
 public:
  AllRanges(std::shared_ptr<const Climb> climb, std::function<void(StatusOr<Descent>)> done)
      : climb_(std::move(climb)),
        done_(std::move(done)),
        descents_(climb_->parts_.size()),
        missing_(climb_->parts_.size()) {}

  void Start(Transport* transport, uint64_t round, const Entries& up) {
    for (size_t s = 0; s < climb_->parts_.size(); ++s) {
      const Part& part = climb_->parts_[s];
      std::make_shared<Range>(transport, climb_, part, round, CutOut(up, part.shard),
                              [self = shared_from_this(), s](StatusOr<Descent> descent) {
                                self->OnRange(s, std::move(descent));
                              })
          ->Start();
    }
  }

 private:
  void OnRange(size_t s, StatusOr<Descent> descent) {
    if (descent.ok()) {
      descents_[s] = *std::move(descent);
    } else if (status_.ok()) {
      status_ = descent.status();
    }
    if (--missing_ > 0) return;
    if (!status_.ok()) return done_(status_);
    Descent whole;
    for (size_t i = 0; i < descents_.size(); ++i) {
      const Descent& range = descents_[i];
      PutBack(range.result, climb_->parts_[i].shard, &whole.result);
      whole.counted.insert(whole.counted.end(), range.counted.begin(), range.counted.end());
      whole.sent_bytes += range.sent_bytes;
    }
    done_(std::move(whole));
  }

  const std::shared_ptr<const Climb> climb_;
  std::function<void(StatusOr<Descent>)> done_;
  std::vector<Descent> descents_;
  size_t missing_;
  Status status_;  // the first failure
};

StatusOr<Climb> Climb::Of(const TreeShape& job, int worker, const SparseGroup& group) {
  RW_CHECK(worker >= 0 && worker < job.workers);
  Climb climb;
  RW_ASSIGN_OR_RETURN(climb.shape_, ShapeOf(job, group));
  RW_ASSIGN_OR_RETURN(climb.codec_, ParseCodec(group.codec));
  RW_ASSIGN_OR_RETURN(climb.merge_, ParseMerge(group.merge));
  climb.worker_ = worker;
  climb.group_ = group;
  const uint64_t keep = group.result_entries();
  for (const Shard& shard : ShardsOf(group.elements, keep, group.shards)) {
    Part part{shard, -1, std::min(group.k, shard.elements()), 0};
    part.parent = Tree(climb.shape_, static_cast<int>(climb.parts_.size())).parent(worker);
    part.most = climb.merge_ == Merge::kUnion   ? part.k * static_cast<uint64_t>(job.workers)
                : climb.merge_ == Merge::kExact ? keep
                                                : shard.quota;
    part.most = std::min(part.most, shard.elements());
    climb.parts_.push_back(part);
  }
  return climb;
}

void Climb::Round(Entries* up) const {
  if (codec_ == codec_.Exact()) return;
  auto first = up->index.begin();
  for (const Part& part : parts_) {
    const auto last = std::lower_bound(first, up->index.end(), part.shard.end);
    RoundValues(codec_, std::span(up->value).subspan(first - up->index.begin(), last - first));
    first = last;
  }
}

void Climb::Start(Transport* transport, uint64_t round, const Entries& up,
                  std::function<void(StatusOr<Descent>)> done) const {
  RW_CHECK(up.index.size() == up.value.size());
  if (up.size() > group_.k || (up.size() > 0 && up.index.back() >= group_.elements)) {
    return done(Invalid(
        absl::StrFormat("sparse exchange, group %d: %d entries (at most %d) do not fit %d elements",
                        group_.group, up.size(), group_.k, group_.elements)));
  }
  std::make_shared<AllRanges>(std::make_shared<const Climb>(*this), std::move(done))
      ->Start(transport, round, up);
}

}  // namespace ringwood

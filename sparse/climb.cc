#include "sparse/climb.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/buffer.h"
#include "base/check.h"
#include "sparse/chunks.h"
#include "sparse/merge.h"
#include "sparse/select.h"
#include "sparse/tree_schedule.h"

namespace ringwood {
namespace {

EntriesView CutOut(const EntriesView& entries, const IndexRange& range) {
  const auto first = std::lower_bound(entries.index.begin(), entries.index.end(), range.begin);
  const auto last = std::lower_bound(first, entries.index.end(), range.end);
  return entries.Part(first - entries.index.begin(), last - first);
}

// Buffers become what a round needs and never smaller.
void Grow(Buffer<std::byte>* buffer, uint64_t bytes) {
  if (buffer->size() < bytes) *buffer = Buffer<std::byte>(bytes);
}

void Append(const Entries& part, Entries* whole) {
  whole->index.insert(whole->index.end(), part.index.begin(), part.index.end());
  whole->value.insert(whole->value.end(), part.value.begin(), part.value.end());
}

}  // namespace

// Indices are coordinates of the group.
struct Climb::Memory {
  Buffer<std::byte> wire;                           // all chunks of the way up
  std::vector<Buffer<std::byte>> inbox;             // one a message
  std::vector<std::span<const std::byte>> arrived;  // the filled part of each inbox
  std::vector<bool> here;                           // of each inbox
  Entries result;
  std::vector<uint8_t> accepted;
  uint64_t sent_bytes = 0;
};

// The worker's schedule in one round. Lives until the transport has answered everything: the
// callbacks own it.
class Climb::InFlight : public std::enable_shared_from_this<InFlight> {
 public:
  using Done = std::function<void(StatusOr<Descent>)>;

  InFlight(Transport* transport, std::shared_ptr<const Climb> climb, uint64_t round, Done done,
           Descent old)
      : transport_(transport),
        climb_(std::move(climb)),
        round_(round),
        done_(std::move(done)),
        memory_(std::exchange(*climb_->memory_, {})),
        descent_(std::move(old)) {
    memory_.resize(climb_->parts_.size());
    descent_.result.clear();
    descent_.accepted.clear();
    descent_.sent_bytes = 0;
  }

  // Asks for everything that will come, then sends in the order of the schedule.
  void Start(const EntriesView& up) {
    if (climb_->shape_.workers == 1) return FinishAlone(up);
    for (const Part& part : climb_->parts_) ranges_.push_back({CutOut(up, part.range)});
    for (size_t r = 0; r < ranges_.size(); ++r) Prepare(r);
    for (const Step& step : *climb_->schedule_) ++ranges_[RangeOf(step)].pending;
    if (!climb_->has_tree()) EncodeAll();
    for (const Step& step : *climb_->schedule_) {
      if (step.op != Op::kSend) Receive(step);
    }
    for (const Step& step : *climb_->schedule_) {
      if (step.op == Op::kSend) climb_->has_tree() ? SendChunk(step) : SendAll(step);
    }
    for (RangeState& range : ranges_) range.up = {};  // the caller's memory
  }

 private:
  // One index range of the group.
  struct RangeState {
    EntriesView up;   // during Start
    Cut cut{};        // of what goes up
    int read = 0;     // chunks of the result that are decoded
    int pending = 0;  // answers that the transport still owes
  };

  // The slots of a schedule without a tree are ranks, and there is one range.
  TreeSlot SlotOf(const Step& step) const {
    return climb_->has_tree() ? SlotOfNumber(step.slot, climb_->chunks_) : TreeSlot{};
  }
  size_t RangeOf(const Step& step) const { return static_cast<size_t>(SlotOf(step).shard); }

  // Boxes: the result's chunks, then the accepted bits; without a tree one for each worker.
  void Prepare(size_t r) {
    RangeState& range = ranges_[r];
    Memory& memory = memory_[r];
    range.cut = {range.up.size(), climb_->chunks_};
    const int boxes = climb_->has_tree() ? climb_->chunks_ + 1 : climb_->shape_.workers;
    memory.inbox.resize(static_cast<size_t>(boxes));
    memory.arrived.assign(static_cast<size_t>(boxes), {});
    memory.here.assign(static_cast<size_t>(boxes), false);
    memory.result.clear();
    memory.accepted.clear();
    memory.sent_bytes = 0;
    Grow(&memory.wire,
         static_cast<uint64_t>(climb_->chunks_) * ChunkBytes(r, climb_->codec_, range.cut.size));
  }

  uint64_t ChunkBytes(size_t r, const Codec& codec, uint64_t most) const {
    return MaxChunkBytes(codec, climb_->parts_[r].range.elements(), most, climb_->chunks_);
  }

  void FinishAlone(const EntriesView& up) {
    descent_.accepted.assign(up.size(), 1);
    descent_.result.index.assign(up.index.begin(), up.index.end());
    descent_.result.value.assign(up.value.begin(), up.value.end());
    *climb_->memory_ = std::move(memory_);
    done_(std::move(descent_));
  }

  void Receive(const Step& step) {
    const TreeSlot slot = SlotOf(step);
    const size_t r = RangeOf(step);
    const Part& part = climb_->parts_[r];
    const Codec exact = climb_->codec_.Exact();
    if (!climb_->has_tree()) {
      Receive(step, slot, step.slot, ContentOf(climb_->codec_, 0),
              ChunkBytes(r, climb_->codec_, part.k));
    } else if (slot.kind == TreeSlot::Kind::kResult) {
      Receive(step, slot, slot.chunk, ContentOf(exact, 0), ChunkBytes(r, exact, part.most));
    } else {
      const uint64_t sent = ranges_[r].cut.size;
      Receive(step, slot, climb_->chunks_, {0, 0, sent}, AcceptedBytes(sent));
    }
  }

  void Receive(const Step& step, const TreeSlot& slot, int box, const Content& content,
               uint64_t bytes) {
    const size_t r = RangeOf(step), b = static_cast<size_t>(box);
    Grow(&memory_[r].inbox[b], bytes);
    transport_->Receive(
        step.peer, NameIn(round_, climb_->group_.group, slot), content,
        memory_[r].inbox[b].span().first(bytes),
        [self = shared_from_this(), r, b](StatusOr<std::span<std::byte>> got, const Frame&) {
          if (got.ok()) {
            self->memory_[r].arrived[b] = *got;
            self->memory_[r].here[b] = true;
          }
          self->OneDone(r, got.status());
        });
  }

  // Encoded when it is its turn: the first chunks travel meanwhile.
  void SendChunk(const Step& step) {
    const TreeSlot slot = SlotOf(step);
    const size_t r = RangeOf(step);
    const RangeState& range = ranges_[r];
    const uint64_t begin = range.cut.begin(slot.chunk);
    const uint64_t count = range.cut.begin(slot.chunk + 1) - begin;
    const uint64_t most = ChunkBytes(r, climb_->codec_, range.cut.size);
    const std::span<std::byte> wire =
        memory_[r].wire.span().subspan(static_cast<uint64_t>(slot.chunk) * most, most);
    const uint64_t bytes =
        Encode(climb_->codec_, climb_->parts_[r].range, range.up.Part(begin, count), wire);
    Send(step, slot, count, wire.first(bytes));
  }

  // Without a tree: every worker hears every other and merges for itself, in rank order.
  void EncodeAll() {
    const EntriesView& up = ranges_[0].up;
    const uint64_t bytes =
        Encode(climb_->codec_, climb_->parts_[0].range, up, memory_[0].wire.span());
    memory_[0].arrived[static_cast<size_t>(climb_->worker_)] = memory_[0].wire.span().first(bytes);
    own_.assign(up.index.begin(), up.index.end());
  }

  void SendAll(const Step& step) {
    Send(step, {}, own_.size(), memory_[0].arrived[static_cast<size_t>(climb_->worker_)]);
  }

  void Send(const Step& step, const TreeSlot& slot, uint64_t count,
            std::span<const std::byte> wire) {
    const size_t r = RangeOf(step);
    memory_[r].sent_bytes += wire.size();
    transport_->Send(step.peer, NameIn(round_, climb_->group_.group, slot),
                     ContentOf(climb_->codec_, count), wire,
                     [self = shared_from_this(), r](Status status) { self->OneDone(r, status); });
  }

  void OneDone(size_t r, const Status& status) {
    if (status_.ok()) status_ = status;
    if (status_.ok() && climb_->has_tree()) status_ = ReadChunks(r);
    if (--ranges_[r].pending > 0) return;
    if (status_.ok()) status_ = climb_->has_tree() ? ReadAccepted(r) : ReadGather();
    if (++through_ == ranges_.size()) Finish();
  }

  // Decodes chunks in order: one that is early waits.
  Status ReadChunks(size_t r) {
    const Part& part = climb_->parts_[r];
    Memory& memory = memory_[r];
    Entries* const result = &memory.result;
    for (int& read = ranges_[r].read; read < climb_->chunks_ && memory.here[read]; ++read) {
      RW_RETURN_IF_ERROR(Decode(climb_->codec_.Exact(), part.range, part.most - result->size(),
                                memory.arrived[read], result));
    }
    return OkStatus();
  }

  Status ReadAccepted(size_t r) {
    const uint64_t sent = ranges_[r].cut.size;
    const std::span<const std::byte> bits = memory_[r].arrived[climb_->chunks_];
    if (bits.size() != AcceptedBytes(sent)) {
      return Corrupt(absl::StrFormat("%d entries went up and %d bytes of accepted bits came down",
                                     sent, bits.size()));
    }
    UnpackAccepted(bits, sent, &memory_[r].accepted);
    return OkStatus();
  }

  Status ReadGather() {
    const Part& part = climb_->parts_[0];
    std::vector<Entries> all(static_cast<size_t>(climb_->shape_.workers));
    for (size_t peer = 0; peer < all.size(); ++peer) {
      RW_RETURN_IF_ERROR(
          Decode(climb_->codec_, part.range, part.k, memory_[0].arrived[peer], &all[peer]));
    }
    memory_[0].result = MergeSum(all, part.range.end);
    if (climb_->merge_ != Merge::kUnion) KeepLargest(part.most, &memory_[0].result);
    memory_[0].accepted = AcceptedOf(own_, memory_[0].result.index);
    return OkStatus();
  }

  // The answers of the ranges are put together in their order.
  void Finish() {
    size_t total = 0;
    for (const Memory& range : memory_) total += range.result.size();
    descent_.result.index.reserve(total);
    descent_.result.value.reserve(total);
    for (const Memory& range : memory_) {
      Append(range.result, &descent_.result);
      descent_.accepted.insert(descent_.accepted.end(), range.accepted.begin(),
                               range.accepted.end());
      descent_.sent_bytes += range.sent_bytes;
    }
    *climb_->memory_ = std::move(memory_);
    if (status_.ok()) return done_(std::move(descent_));
    done_(Annotate(status_, absl::StrFormat("sparse exchange, rank %d, round %d, group %d",
                                            climb_->worker_, round_, climb_->group_.group)));
  }

  Transport* const transport_;
  const std::shared_ptr<const Climb> climb_;
  const uint64_t round_;
  const Done done_;
  std::vector<Memory> memory_;  // one a range
  std::vector<RangeState> ranges_;
  std::vector<uint32_t> own_;  // the indices that went up, without a tree
  size_t through_ = 0;         // ranges that have everything
  Status status_;              // the first failure
  Descent descent_;
};

StatusOr<Climb> Climb::Of(const TreeShape& job, int worker, const SparseGroup& group) {
  RW_CHECK(worker >= 0 && worker < job.workers);
  Climb climb;
  RW_ASSIGN_OR_RETURN(climb.shape_, ShapeOf(job, group));
  RW_ASSIGN_OR_RETURN(climb.codec_, ParseCodec(group.codec));
  RW_ASSIGN_OR_RETURN(climb.merge_, ParseMerge(group.merge));
  climb.worker_ = worker;
  climb.group_ = group;
  climb.memory_ = std::make_shared<std::vector<Memory>>();
  const uint64_t keep = group.result_entries();
  climb.chunks_ = ChunksOf(climb.shape_, group, climb.codec_);
  climb.schedule_ =
      std::make_shared<const Schedule>(TreeSchedule(climb.shape_, climb.chunks_, worker));
  for (const Shard& shard : ShardsOf(group.elements, keep, group.shards)) {
    Part part{{shard.begin, shard.end}};
    part.k = std::min(group.k, shard.elements());
    part.most = climb.merge_ == Merge::kUnion   ? part.k * static_cast<uint64_t>(job.workers)
                : climb.merge_ == Merge::kExact ? keep
                                                : shard.quota;
    part.most = std::min(part.most, shard.elements());
    climb.parts_.push_back(part);
  }
  return climb;
}

uint64_t Climb::most_entries() const {
  if (shape_.workers == 1) return group_.k;  // its own picks
  uint64_t most = 0;
  for (const Part& part : parts_) most += part.most;
  return most;
}

void Climb::Round(Entries* up) const {
  if (codec_ == codec_.Exact()) return;
  auto first = up->index.begin();
  for (const Part& part : parts_) {
    const auto last = std::lower_bound(first, up->index.end(), part.range.end);
    RoundValues(codec_, std::span(up->value).subspan(first - up->index.begin(), last - first));
    first = last;
  }
}

void Climb::Start(Transport* transport, uint64_t round, const Entries& up,
                  std::function<void(StatusOr<Descent>)> done, Descent old) const {
  RW_CHECK(up.index.size() == up.value.size());
  if (up.size() > group_.k || (up.size() > 0 && up.index.back() >= group_.elements)) {
    return done(Invalid(
        absl::StrFormat("sparse exchange, group %d: %d entries (at most %d) do not fit %d elements",
                        group_.group, up.size(), group_.k, group_.elements)));
  }
  std::make_shared<InFlight>(transport, std::make_shared<const Climb>(*this), round,
                             std::move(done), std::move(old))
      ->Start(up);
}

}  // namespace ringwood

#include "sparse/climb.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/buffer.h"
#include "base/check.h"
#include "sparse/chunks.h"
#include "sparse/merge.h"
#include "sparse/select.h"

namespace ringwood {
namespace {

EntriesView PartOf(const EntriesView& entries, const IndexRange& range) {
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
  std::vector<uint8_t> counted;
  uint64_t sent_bytes = 0;
};

// Lives until the transport has answered everything: the callbacks own it.
class Climb::Range : public std::enable_shared_from_this<Range> {
 public:
  using Done = std::function<void(Status, Memory)>;

  Range(Transport* transport, std::shared_ptr<const Climb> climb, const Part& part, uint64_t round,
        const EntriesView& up, Memory memory, Done done)
      : transport_(transport),
        climb_(std::move(climb)),
        part_(part),
        round_(round),
        cut_{up.size(), part.chunks},
        memory_(std::move(memory)),
        done_(std::move(done)) {
    memory_.result.clear();
    memory_.counted.clear();
    memory_.sent_bytes = 0;
  }

  // Asks for everything that will come. With a tree, SendChunk for every chunk must follow.
  void Start(const EntriesView& up) {
    if (climb_->shape_.workers == 1) return FinishAlone(up);
    Grow(&memory_.wire,
         static_cast<uint64_t>(part_.chunks) * ChunkBytes(climb_->codec_, cut_.size));
    part_.parent == -1 ? StartGather(up) : StartTree();
  }

  void SendChunk(int chunk, const EntriesView& up) {
    const uint64_t begin = cut_.begin(chunk), count = cut_.begin(chunk + 1) - begin;
    const uint64_t most = ChunkBytes(climb_->codec_, cut_.size);
    const std::span<std::byte> wire =
        memory_.wire.span().subspan(static_cast<uint64_t>(chunk) * most, most);
    const uint64_t bytes = Encode(climb_->codec_, part_.range, up.Part(begin, count), wire);
    Send(part_.parent, chunk, count, wire.first(bytes));
  }

 private:
  uint64_t ChunkBytes(const Codec& codec, uint64_t most) const {
    return MaxChunkBytes(codec, part_.range.elements(), most, part_.chunks);
  }

  MessageName Name(uint32_t slot, int chunk) const {
    return {Lane::kSparse, round_, climb_->group_.group, static_cast<uint32_t>(chunk), slot};
  }

  void FinishAlone(const EntriesView& up) {
    memory_.counted.assign(up.size(), 1);
    memory_.result.index.assign(up.index.begin(), up.index.end());
    memory_.result.value.assign(up.value.begin(), up.value.end());
    done_(OkStatus(), std::move(memory_));
  }

  // The result's chunks in boxes 0.., the counted bits in the last one.
  void StartTree() {
    const Codec exact = climb_->codec_.Exact();
    Boxes(part_.chunks + 1);
    pending_ = 2 * part_.chunks + 1;
    for (int chunk = 0; chunk < part_.chunks; ++chunk) {
      Receive(part_.parent, Name(kEntriesSlot, chunk), ContentOf(exact, 0), chunk,
              ChunkBytes(exact, part_.most));
    }
    Receive(part_.parent, Name(kCountedSlot, 0), {0, 0, cut_.size}, part_.chunks,
            CountedBytes(cut_.size));
  }

  // Every worker hears every other and merges for itself, in rank order.
  void StartGather(const EntriesView& up) {
    const int workers = climb_->shape_.workers;
    Boxes(workers);
    pending_ = 2 * (workers - 1);
    const uint64_t bytes = Encode(climb_->codec_, part_.range, up, memory_.wire.span());
    memory_.arrived[climb_->worker_] = memory_.wire.span().first(bytes);
    own_.index.assign(up.index.begin(), up.index.end());
    for (int peer = 0; peer < workers; ++peer) {
      if (peer == climb_->worker_) continue;
      Receive(peer, Name(kEntriesSlot, 0), ContentOf(climb_->codec_, 0), peer,
              ChunkBytes(climb_->codec_, part_.k));
    }
    for (int shift = 1; shift < workers; ++shift) {
      Send((climb_->worker_ + shift) % workers, 0, up.size(), memory_.wire.span().first(bytes));
    }
  }

  void Boxes(int count) {
    memory_.inbox.resize(count);
    memory_.arrived.assign(count, {});
    memory_.here.assign(count, false);
  }

  void Receive(int peer, const MessageName& name, const Content& content, int box, uint64_t bytes) {
    Grow(&memory_.inbox[box], bytes);
    transport_->Receive(
        peer, name, content, memory_.inbox[box].span().first(bytes),
        [self = shared_from_this(), box](StatusOr<std::span<std::byte>> got, const Frame&) {
          if (got.ok()) {
            self->memory_.arrived[box] = *got;
            self->memory_.here[box] = true;
          }
          self->OneDone(got.status());
        });
  }

  void Send(int peer, int chunk, uint64_t count, std::span<const std::byte> wire) {
    memory_.sent_bytes += wire.size();
    transport_->Send(peer, Name(kEntriesSlot, chunk), ContentOf(climb_->codec_, count), wire,
                     [self = shared_from_this()](Status status) { self->OneDone(status); });
  }

  void OneDone(const Status& status) {
    if (status_.ok()) status_ = status;
    if (status_.ok() && part_.parent != -1) status_ = ReadChunks();
    if (--pending_ > 0) return;
    if (status_.ok()) status_ = part_.parent == -1 ? ReadGather() : ReadCounted();
    if (!status_.ok()) {
      status_ = Annotate(status_, absl::StrFormat("sparse exchange, rank %d, round %d, group %d",
                                                  climb_->worker_, round_, climb_->group_.group));
    }
    done_(status_, std::move(memory_));
  }

  // Those that have their turn: a chunk that is early waits.
  Status ReadChunks() {
    for (; read_ < part_.chunks && memory_.here[read_]; ++read_) {
      Entries* const result = &memory_.result;
      RW_RETURN_IF_ERROR(Decode(climb_->codec_.Exact(), part_.range, part_.most - result->size(),
                                memory_.arrived[read_], result));
    }
    return OkStatus();
  }

  Status ReadCounted() {
    const std::span<const std::byte> bits = memory_.arrived[part_.chunks];
    if (bits.size() != CountedBytes(cut_.size)) {
      return Corrupt(absl::StrFormat("%d entries went up and %d bytes of counted bits came down",
                                     cut_.size, bits.size()));
    }
    UnpackCounted(bits, cut_.size, &memory_.counted);
    return OkStatus();
  }

  Status ReadGather() {
    std::vector<Entries> all(climb_->shape_.workers);
    for (int peer = 0; peer < climb_->shape_.workers; ++peer) {
      RW_RETURN_IF_ERROR(
          Decode(climb_->codec_, part_.range, part_.k, memory_.arrived[peer], &all[peer]));
    }
    memory_.result = MergeSum(all, part_.range.end);
    if (climb_->merge_ != Merge::kUnion) KeepLargest(part_.most, &memory_.result);
    memory_.counted = CountedOf(own_.index, memory_.result.index);
    return OkStatus();
  }

  Transport* const transport_;
  const std::shared_ptr<const Climb> climb_;
  const Part part_;
  const uint64_t round_;
  const Cut cut_;  // of what goes up
  Memory memory_;
  const Done done_;
  Entries own_;      // the indices that went up, without reducers
  int read_ = 0;     // chunks of the result that are decoded
  int pending_ = 0;  // answers that the transport still owes
  Status status_;    // the first failure
};

// All ranges of a group, each on its own way; the answers are put together in their order.
class Climb::AllRanges : public std::enable_shared_from_this<AllRanges> {
 public:
  AllRanges(std::shared_ptr<const Climb> climb, std::function<void(StatusOr<Descent>)> done,
            Descent old)
      : climb_(std::move(climb)),
        done_(std::move(done)),
        memory_(std::exchange(*climb_->memory_, {})),
        missing_(climb_->parts_.size()),
        descent_(std::move(old)) {
    memory_.resize(missing_);
    descent_.result.clear();
    descent_.counted.clear();
    descent_.sent_bytes = 0;
  }

  void Start(Transport* transport, uint64_t round, const EntriesView& up) {
    const std::vector<Part>& parts = climb_->parts_;
    std::vector<std::shared_ptr<Range>> ranges;
    std::vector<EntriesView> ups;
    for (size_t s = 0; s < parts.size(); ++s) {
      ups.push_back(PartOf(up, parts[s].range));
      ranges.push_back(std::make_shared<Range>(
          transport, climb_, parts[s], round, ups[s], std::move(memory_[s]),
          [self = shared_from_this(), s](const Status& status, Memory memory) {
            self->OnRange(s, status, std::move(memory));
          }));
    }
    for (size_t s = 0; s < parts.size(); ++s) ranges[s]->Start(ups[s]);
    // Each worker begins with another range, or all of them would send to one server at a time.
    const size_t first = static_cast<size_t>(climb_->worker_);
    for (int chunk = 0; chunk < parts[0].chunks && parts[0].parent != -1; ++chunk) {
      for (size_t i = 0; i < parts.size(); ++i) {
        const size_t s = (first + i) % parts.size();
        ranges[s]->SendChunk(chunk, ups[s]);
      }
    }
  }

 private:
  void OnRange(size_t s, const Status& status, Memory memory) {
    memory_[s] = std::move(memory);
    if (status_.ok()) status_ = status;
    if (--missing_ > 0) return;
    size_t total = 0;
    for (const Memory& range : memory_) total += range.result.size();
    descent_.result.index.reserve(total);
    descent_.result.value.reserve(total);
    for (const Memory& range : memory_) {
      Append(range.result, &descent_.result);
      descent_.counted.insert(descent_.counted.end(), range.counted.begin(), range.counted.end());
      descent_.sent_bytes += range.sent_bytes;
    }
    *climb_->memory_ = std::move(memory_);
    if (!status_.ok()) return done_(status_);
    done_(std::move(descent_));
  }

  const std::shared_ptr<const Climb> climb_;
  const std::function<void(StatusOr<Descent>)> done_;
  std::vector<Memory> memory_;  // of the ranges that are done
  size_t missing_;
  Status status_;  // the first failure
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
  for (const Shard& shard : ShardsOf(group.elements, keep, group.shards)) {
    Part part{{shard.begin, shard.end}};
    part.k = std::min(group.k, shard.elements());
    part.parent = Tree(climb.shape_, static_cast<int>(climb.parts_.size())).parent(worker);
    if (part.parent != -1) {
      part.chunks = ChunkCount(climb.codec_, group.k / static_cast<uint64_t>(group.shards));
    }
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
  std::make_shared<AllRanges>(std::make_shared<const Climb>(*this), std::move(done), std::move(old))
      ->Start(transport, round, up);
}

}  // namespace ringwood

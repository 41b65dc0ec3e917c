#include "dense/chunks.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/digest.h"

namespace ringwood {
namespace {

// Chunks under way at once: one is added up while another is on the wire, and a third covers the
// time a neighbour is late. More only takes memory on the receiving side.
constexpr size_t kChunksInFlight = 4;

class Chunks : public std::enable_shared_from_this<Chunks> {
 public:
  Chunks(ChunksRequest request, std::function<void(StatusOr<uint64_t>)> done)
      : request_(std::move(request)), done_(std::move(done)) {
    elements_ = request_.run.values.input.size() / SizeOf(request_.run.values.type);
    shares_ = CutEvenly(elements_, request_.slots);
    part_ = std::max<size_t>(1, request_.chunk_elements / request_.slots);
    const size_t whole = request_.by_share ? shares_[0].count : elements_;
    const size_t chunk = request_.by_share ? part_ : request_.chunk_elements;
    digests_.resize((whole + chunk - 1) / chunk);
  }

  void Advance() {
    while (done_ != nullptr && next_ < digests_.size() && running_ < kChunksInFlight) {
      StartChunk(next_++);
    }
    if (done_ == nullptr || running_ != 0 || next_ < digests_.size()) return;
    uint64_t digest = 0;
    for (uint64_t of_chunk : digests_) digest = Combine(digest, of_chunk);
    std::exchange(done_, nullptr)(digest);
  }

 private:
  void StartChunk(size_t chunk) {
    RunRequest run = request_.run;
    run.name.chunk = static_cast<uint32_t>(chunk);
    run.values.slots = request_.by_share ? PartsOfShares(chunk) : PartsOfRange(chunk);
    if (scratch_.empty()) scratch_.push_back(std::make_shared<Buffer<std::byte>>());
    const std::shared_ptr<Buffer<std::byte>> scratch = std::move(scratch_.back());
    scratch_.pop_back();
    run.values.scratch = scratch;
    ++running_;
    RunSchedule(std::move(run),
                [self = shared_from_this(), chunk, scratch](StatusOr<SlotDigests> digests) {
                  --self->running_;
                  self->scratch_.push_back(scratch);
                  if (self->done_ == nullptr) return;
                  if (!digests.ok()) {
                    std::exchange(self->done_, nullptr)(digests.status());
                    return;
                  }
                  for (uint64_t of_slot : *digests) {
                    self->digests_[chunk] = Combine(self->digests_[chunk], of_slot);
                  }
                  self->Advance();
                });
  }

  std::vector<Range> PartsOfRange(size_t chunk) const {
    const size_t begin = chunk * request_.chunk_elements;
    const size_t count = std::min(request_.chunk_elements, elements_ - begin);
    std::vector<Range> slots = CutEvenly(count, request_.slots);
    for (Range& slot : slots) slot.begin += begin;
    return slots;
  }

  std::vector<Range> PartsOfShares(size_t chunk) const {
    std::vector<Range> slots;
    for (const Range& share : shares_) {
      const size_t begin = std::min(chunk * part_, share.count);
      slots.push_back({share.begin + begin, std::min(part_, share.count - begin)});
    }
    return slots;
  }

  const ChunksRequest request_;
  std::function<void(StatusOr<uint64_t>)> done_;  // null once it has run
  size_t elements_ = 0;
  std::vector<Range> shares_;
  size_t part_ = 1;                // of a share that a chunk takes, by_share
  std::vector<uint64_t> digests_;  // one a chunk
  std::vector<std::shared_ptr<Buffer<std::byte>>> scratch_;  // of chunks that have ended
  size_t next_ = 0;
  size_t running_ = 0;
};

}  // namespace

void RunChunks(ChunksRequest request, std::function<void(StatusOr<uint64_t>)> done) {
  RW_CHECK(request.chunk_elements > 0 && request.slots > 0);
  std::make_shared<Chunks>(std::move(request), std::move(done))->Advance();
}

}  // namespace ringwood

#include "dense/chunks.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/digest.h"

namespace ringwood {
namespace {

class Chunks : public std::enable_shared_from_this<Chunks> {
 public:
  Chunks(RunRequest request, std::function<void(StatusOr<uint64_t>)> done,
         std::function<void(size_t)> reached)
      : request_(std::move(request)), done_(std::move(done)), reached_(std::move(reached)) {
    digests_.resize(ChunksOf(*request_.collective));
    ended_.resize(digests_.size());
    if (!request_.collective->shares.empty()) reached_ = nullptr;
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
    RunRequest run = request_;
    run.name.chunk = static_cast<uint32_t>(chunk);
    run.values.slots = SlotsOf(*run.collective, chunk);
    if (memory_.empty()) memory_.push_back(std::make_shared<ChunkMemory>());
    const std::shared_ptr<ChunkMemory> memory = std::move(memory_.back());
    memory_.pop_back();
    run.values.memory = memory;
    ++running_;
    RunChunk(std::move(run),
             [self = shared_from_this(), chunk, memory](StatusOr<SlotDigests> digests) {
               --self->running_;
               self->memory_.push_back(memory);
               if (self->done_ == nullptr) return;
               if (!digests.ok()) {
                 std::exchange(self->done_, nullptr)(digests.status());
                 return;
               }
               for (uint64_t of_slot : *digests) {
                 self->digests_[chunk] = Combine(self->digests_[chunk], of_slot);
               }
               self->Ended(chunk);
               self->Advance();
             });
  }

  void Ended(size_t chunk) {
    ended_[chunk] = true;
    if (chunk != whole_) return;
    while (whole_ < ended_.size() && ended_[whole_]) ++whole_;
    const Collective& collective = *request_.collective;
    if (reached_) reached_(std::min(collective.elements, whole_ * collective.chunk_elements));
  }

  const RunRequest request_;
  std::function<void(StatusOr<uint64_t>)> done_;  // null once it has run
  std::function<void(size_t)> reached_;
  std::vector<uint64_t> digests_;                     // one a chunk
  std::vector<std::shared_ptr<ChunkMemory>> memory_;  // of chunks that have ended
  std::vector<bool> ended_;                           // likewise
  size_t whole_ = 0;                                  // chunks before it have ended
  size_t next_ = 0;
  size_t running_ = 0;
};

}  // namespace

void RunCollective(RunRequest request, std::function<void(StatusOr<uint64_t>)> done,
                   std::function<void(size_t)> reached) {
  const Collective& collective = *request.collective;
  RW_CHECK(collective.chunk_elements > 0 && collective.slots > 0);
  RW_CHECK(collective.code_bits != 0 ||
           request.values.input.size() == collective.elements * SizeOf(collective.type));
  std::make_shared<Chunks>(std::move(request), std::move(done), std::move(reached))->Advance();
}

}  // namespace ringwood

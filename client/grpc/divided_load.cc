#include "client/grpc/divided_load.h"

#include <deque>
#include <list>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/digest.h"
#include "base/loop.h"
#include "client/grpc/chunk_order.h"

namespace ringwood {
namespace {

constexpr size_t kReadAhead = 4;  // chunks of a stream

// A stream and the thread that reads it.
class ReadAhead {
 public:
  ReadAhead(ChunkStream stream, std::string item, uint64_t item_bytes)
      : stream_(std::move(stream)), item_(std::move(item)), item_bytes_(item_bytes) {
    if (!loop_.Post([this] { ReadAll(); })) ended_ = Internal("a new thread takes no task");
  }
  ~ReadAhead() {
    {
      const absl::MutexLock lock(&mutex_);
      given_up_ = true;
    }
    stream_.cancel();
  }

  // The next chunk; nothing: the stream has ended in order.
  StatusOr<std::optional<v1::LoadChunk>> Next() {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &ReadAhead::HasNews));
    if (!chunks_.empty()) {
      v1::LoadChunk chunk = std::move(chunks_.front());
      chunks_.pop_front();
      return std::optional(std::move(chunk));
    }
    RW_RETURN_IF_ERROR(*ended_);
    return std::optional<v1::LoadChunk>();
  }

 private:
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !chunks_.empty() || ended_.has_value();
  }
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return chunks_.size() < kReadAhead || given_up_;
  }

  Status Check(const v1::LoadChunk& chunk) const {
    if (chunk.item_bytes() != item_bytes_) {
      return Corrupt(absl::StrFormat("the item '%s' has %d bytes in one store, %d were expected",
                                     item_, chunk.item_bytes(), item_bytes_));
    }
    if (Digest(std::as_bytes(std::span(chunk.data()))) == chunk.checksum()) return OkStatus();
    return Corrupt(
        absl::StrFormat("the item '%s' arrived damaged at byte %d", item_, chunk.offset()));
  }

  void ReadAll() {
    v1::LoadChunk chunk;
    Status wrong;
    while (wrong.ok() && stream_.read(&chunk)) {
      wrong = Check(chunk);
      if (!wrong.ok()) break;
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &ReadAhead::HasRoom));
      if (given_up_) break;
      chunks_.push_back(std::move(chunk));
    }
    if (!wrong.ok() || GivenUp()) stream_.cancel();
    const Status finished = stream_.finish();
    const absl::MutexLock lock(&mutex_);
    ended_ = wrong.ok() ? finished : wrong;
  }
  bool GivenUp() {
    const absl::MutexLock lock(&mutex_);
    return given_up_;
  }

  const ChunkStream stream_;
  const std::string item_;
  const uint64_t item_bytes_;
  absl::Mutex mutex_;
  std::deque<v1::LoadChunk> chunks_ ABSL_GUARDED_BY(mutex_);
  std::optional<Status> ended_ ABSL_GUARDED_BY(mutex_);
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
  Loop loop_{"load"};  // last: its thread uses the others
};

}  // namespace

Status LoadDivided(std::vector<ChunkStream> streams, const std::string& item, uint64_t item_bytes,
                   const std::function<Status(std::span<const std::byte>)>& take,
                   const std::function<void(v1::LoadChunk*)>& ahead) {
  std::list<ReadAhead> readers;
  for (ChunkStream& stream : streams) readers.emplace_back(std::move(stream), item, item_bytes);
  std::vector<std::optional<v1::LoadChunk>> heads(readers.size());
  std::vector<std::optional<NextChunk>> next(readers.size());
  std::vector<bool> over(readers.size(), false);
  for (uint64_t at = 0;;) {
    size_t which = 0;
    for (ReadAhead& reader : readers) {
      const size_t i = which++;
      if (heads[i] || over[i]) continue;
      RW_ASSIGN_OR_RETURN(heads[i], reader.Next());
      over[i] = !heads[i];
      if (heads[i]) next[i] = NextChunk{heads[i]->offset(), heads[i]->data().size()};
    }
    RW_ASSIGN_OR_RETURN(const auto turn, WhoseTurn(next, at, item_bytes, item));
    if (!turn) return OkStatus();
    v1::LoadChunk chunk = *std::exchange(heads[*turn], std::nullopt);
    next[*turn].reset();
    RW_RETURN_IF_ERROR(take(std::as_bytes(std::span(chunk.data()))));
    at += chunk.data().size();
    if (ahead) ahead(&chunk);
  }
}

}  // namespace ringwood

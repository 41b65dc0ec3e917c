// What one rank saves of a checkpoint: which pieces of which items, and a copy of their bytes that
// does not change during the upload, while training continues.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/buffer.h"
#include "base/status.h"
#include "base/tensor_type.h"

namespace ringwood {

// Pieces never cross an item; the store accepts no larger message.
constexpr uint64_t kPieceBytes = 1 << 20;

struct Item {
  std::string name;
  bool shared = false;  // the same bytes on every rank, each saves a stripe
  std::span<const std::byte> data;
  TensorType type = {};
  // The bytes stay there, and as they are, until Arena::Complete has returned: they may be copied
  // after Fill, beside what the trainer does next.
  bool steady = false;
};

struct Piece {
  size_t item = 0;      // in the list of items
  uint64_t offset = 0;  // in the item
  uint64_t bytes = 0;
  bool operator==(const Piece&) const = default;
};

// Pieces that `rank` saves: piece c of all shared items, counted through them in order, is rank
// c % world's; per-rank items are saved whole. An empty item is one empty piece.
std::vector<Piece> PiecesOf(const std::vector<Item>& items, int rank, int world);

class Arena {
 public:
  explicit Arena(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Copies this rank's pieces but those of steady items. Exhausted, with the numbers, if they
  // exceed the limit; AlreadyExists when two items of one scope share a name, Invalid when a type
  // does not fit. Not before all of the last Fill is copied.
  Status Fill(const std::vector<Item>& items, int rank, int world);
  // Copies what is left, and returns when all is copied. Any thread, several at once: each takes
  // piece after piece, so nobody waits for more than one piece of another.
  void Complete();

  // A piece with its bytes and its identity; after Complete.
  struct Entry {
    const std::string* name;
    bool shared;
    uint64_t item_bytes;
    uint64_t offset;
    std::span<const std::byte> data;
    const TensorType* type;
  };
  size_t size() const { return pieces_.size(); }
  Entry entry(size_t i) const;
  uint64_t bytes() const { return bytes_; }
  uint64_t capacity() const { return buffer_->size(); }  // the most that it has held
  // Keeps the memory of the entries' data, also when the arena is gone.
  std::shared_ptr<const void> memory() const { return buffer_; }

 private:
  void Copy(size_t piece);
  bool TakeLeft(size_t* piece) ABSL_LOCKS_EXCLUDED(mutex_);
  void CopiedLeft() ABSL_LOCKS_EXCLUDED(mutex_);

  const uint64_t limit_bytes_;
  std::vector<Item> items_;  // after Fill only the size of their data is used
  std::vector<Piece> pieces_;
  std::vector<uint64_t> at_;  // where in the buffer
  std::shared_ptr<Buffer<std::byte>> buffer_ = std::make_shared<Buffer<std::byte>>();
  uint64_t bytes_ = 0;

  absl::Mutex mutex_;
  std::vector<size_t> left_ ABSL_GUARDED_BY(mutex_);  // pieces that nobody has taken
  int copying_ ABSL_GUARDED_BY(mutex_) = 0;           // that somebody has
};

}  // namespace ringwood

#include "client/checkpoint/arena.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_format.h"
#include "base/units.h"

namespace ringwood {

std::vector<Piece> PiecesOf(const std::vector<Item>& items, int rank, int world) {
  std::vector<Piece> pieces;
  uint64_t shared = 0;  // pieces of shared items so far
  for (size_t i = 0; i < items.size(); ++i) {
    const uint64_t bytes = items[i].data.size();
    uint64_t offset = 0;
    do {
      const uint64_t length = std::min(kPieceBytes, bytes - offset);
      if (!items[i].shared || shared++ % world == static_cast<uint64_t>(rank)) {
        pieces.push_back({i, offset, length});
      }
      offset += length;
    } while (offset < bytes);
  }
  return pieces;
}

Status Arena::Fill(const std::vector<Item>& items, int rank, int world) {
  std::set<std::pair<std::string, bool>> names;
  for (const Item& item : items) {
    if (item.name.empty()) return Invalid("a checkpoint item has no name");
    if (!names.emplace(item.name, item.shared).second) {
      return AlreadyExists("the checkpoint item '" + item.name + "' is given twice");
    }
    RW_RETURN_IF_ERROR(
        CheckType("the checkpoint item '" + item.name + "'", item.type, item.data.size()));
  }
  std::vector<Piece> pieces = PiecesOf(items, rank, world);
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  if (bytes > limit_bytes_) {
    return Exhausted(
        absl::StrFormat("rank %d's part of the checkpoint is %s, the arena holds %s: save fewer or "
                        "smaller items, or allow more (--checkpoint-arena)",
                        rank, FormatBytes(static_cast<double>(bytes)),
                        FormatBytes(static_cast<double>(limit_bytes_))));
  }
  if (buffer_->size() < bytes) {
    buffer_ = std::make_shared<Buffer<std::byte>>();  // the smaller one goes first
    buffer_ = std::make_shared<Buffer<std::byte>>(bytes);
  }
  items_ = items;
  pieces_ = std::move(pieces);
  bytes_ = bytes;
  at_.clear();
  uint64_t at = 0;
  for (const Piece& piece : pieces_) {
    at_.push_back(at);
    at += piece.bytes;
  }
  std::vector<size_t> left;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (items_[pieces_[i].item].steady) {
      left.push_back(i);
    } else {
      Copy(i);
    }
  }
  absl::MutexLock lock(&mutex_);
  left_ = std::move(left);
  return OkStatus();
}

void Arena::Copy(size_t piece) {
  const Piece& from = pieces_[piece];
  std::copy_n(items_[from.item].data.begin() + from.offset, from.bytes,
              buffer_->span().begin() + at_[piece]);
}

bool Arena::TakeLeft(size_t* piece) {
  absl::MutexLock lock(&mutex_);
  if (left_.empty()) return false;
  *piece = left_.back();
  left_.pop_back();
  ++copying_;
  return true;
}

void Arena::CopiedLeft() {
  absl::MutexLock lock(&mutex_);
  --copying_;
}

void Arena::Complete() {
  for (size_t piece; TakeLeft(&piece); CopiedLeft()) Copy(piece);
  // A copy of kPieceBytes at most, which waits for nothing.
  absl::MutexLock lock(&mutex_);
  const auto copied = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return copying_ == 0; };
  mutex_.Await(absl::Condition(&copied));
}

Arena::Entry Arena::entry(size_t i) const {
  const Piece& piece = pieces_[i];
  const Item& item = items_[piece.item];
  return {&item.name,
          item.shared,
          item.data.size(),
          piece.offset,
          std::span<const std::byte>(buffer_->data() + at_[i], piece.bytes),
          &item.type};
}

}  // namespace ringwood

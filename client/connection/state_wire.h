// How the state of a job travels from the workers that have it to one that comes: the list of its
// items (v1::ItemList) and the items, one after the other as one row of bytes, cut into pieces.
// Piece p is asked of the (p mod holders)-th holder, so that all send a stripe; the receiver asks
// for a few at a time and so never gets more than it has room for. Equal heads tell that all have
// the same row.
//
//   holder ──head──▶ receiver ──request i──▶ holder ──piece i of its stripe──▶ receiver
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/frame.h"

namespace ringwood {

struct StateItem {
  std::string name;
  std::span<std::byte> data;
};

inline constexpr uint64_t kStatePieceBytes = 1 << 20;
inline constexpr uint64_t kMaxStateListBytes = 256 << 20;  // as of a checkpoint: a million items
inline constexpr uint64_t kMaxStateBytes = uint64_t{1} << 42;

enum class StateMessage : uint64_t { kHead = 0, kRequest = 1, kPiece = 2 };

// Little endian, as it is in memory.
struct StateHead {
  uint64_t list_bytes = 0;
  uint64_t state_bytes = 0;  // of all items
  uint64_t digest = 0;       // of the list
  bool operator==(const StateHead&) const = default;
};
static_assert(sizeof(StateHead) == 24);

inline MessageName NameOf(StateMessage message, uint64_t piece = 0) {
  return {Lane::kState, static_cast<uint64_t>(message), 0, static_cast<uint32_t>(piece)};
}

// Where the items begin in the row: aligned as a buffer is, whatever the list's length.
inline uint64_t ItemsBegin(const StateHead& head) { return (head.list_bytes + 63) / 64 * 64; }
inline uint64_t RowBytes(const StateHead& head) { return ItemsBegin(head) + head.state_bytes; }

inline uint64_t StatePieces(uint64_t bytes) {
  return (bytes + kStatePieceBytes - 1) / kStatePieceBytes;
}

}  // namespace ringwood

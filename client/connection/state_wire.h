// How the state of a job travels from the workers that have it to one that comes: its items one
// after the other as one row of bytes, cut into pieces. Piece p is asked of the (p mod holders)-th
// holder, so that all send a stripe; the receiver asks for a few at a time and so never gets more
// than it has room for.
//
//   holder ──manifest──▶ receiver ──request i──▶ holder ──piece i of its stripe──▶ receiver
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
inline constexpr size_t kMaxStateManifestBytes = 16 << 20;  // names of 100,000 items fit
inline constexpr uint64_t kMaxStateBytes = uint64_t{1} << 42;

enum class StateMessage : uint64_t { kManifest = 0, kRequest = 1, kPiece = 2 };

inline MessageName NameOf(StateMessage message, uint64_t piece = 0) {
  return {Lane::kState, static_cast<uint64_t>(message), 0, static_cast<uint32_t>(piece)};
}

inline uint64_t StatePieces(uint64_t bytes) {
  return (bytes + kStatePieceBytes - 1) / kStatePieceBytes;
}

}  // namespace ringwood

// What travels on a stream between two gRPC nodes: pieces, each with its kind in front.
//
//   hello  node, MAC                    the caller says who it is (hello.h): first, once
//   start  frame, payload               a message, or its first piece
//   more   payload                      the pieces that follow, before any other message
//   taken  bytes                        of messages that the receiver has moved out, so far
//   ask    0                            for a sign of life (watch.h)
//   life   0                            one, also the answer to a hello
//   farewell  code, text                why the sender closes, where the peer could not know
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringwood {

enum class PieceKind : uint8_t {
  kHello = 1,
  kStart = 2,
  kMore = 3,
  kTaken = 4,
  kAsk = 5,
  kLife = 6,
  kFarewell = 7
};

inline std::vector<std::byte> MakePiece(PieceKind kind, std::span<const std::byte> bytes) {
  std::vector<std::byte> piece(1 + bytes.size());
  piece[0] = static_cast<std::byte>(kind);
  std::copy(bytes.begin(), bytes.end(), piece.begin() + 1);
  return piece;
}
inline std::vector<std::byte> MakePiece(PieceKind kind, uint64_t number) {
  return MakePiece(kind, std::as_bytes(std::span(&number, 1)));
}

inline bool IsPiece(std::span<const std::byte> piece, PieceKind kind) {
  return !piece.empty() && piece[0] == static_cast<std::byte>(kind);
}

}  // namespace ringwood

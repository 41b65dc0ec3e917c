// A manifest as it lies in the database: whole in one row, or, where it is longer than a piece, as
// a head that has the SHA-256 of each of its pieces. Pure.
//
//   format 1   the manifest itself
//   format 2   the manifest without its items; the manifest in format 1, serialised, is cut into
//              pieces, of which all but the last have kManifestPieceBytes; they lie among the
//              checkpoint's chunks, as those of kManifestRank
//
// So no row is larger than a chunk's, and who only asks what there is reads only heads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "ringwood/v1/store.pb.h"

namespace ringwood {

inline constexpr uint32_t kCutManifestFormat = 2;
inline constexpr size_t kManifestPieceBytes = 1 << 20;

// Of a manifest: 7 TiB of full chunks (36 bytes each), or 1.5 million small items with names of
// 60 bytes. Whoever reads one holds about four times as much while it does.
inline constexpr uint64_t kMaxManifestBytes = 256 << 20;

struct ManifestRows {
  v1::CheckpointManifest head;
  std::vector<std::string> pieces;  // none: the head is all of it
};

// Exhausted, with the numbers: it is longer than `max_bytes`.
StatusOr<ManifestRows> RowsOf(const v1::CheckpointManifest& manifest,
                              uint64_t max_bytes = kMaxManifestBytes);

// Whether a head is one: of a format that is known, with as many pieces as its bytes make. `what`
// names it in errors.
Status CheckHead(const v1::CheckpointManifest& head, const std::string& what);

// The next piece, of a head that was checked; `body` is what the pieces before it make.
Status AddPiece(const v1::CheckpointManifest& head, const std::string& piece,
                const std::string& what, std::string* body);

// The manifest of a head and of all its pieces.
StatusOr<v1::CheckpointManifest> WholeManifest(v1::CheckpointManifest head, const std::string& body,
                                               const std::string& what);

}  // namespace ringwood

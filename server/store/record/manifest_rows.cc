#include "server/store/record/manifest_rows.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "server/store/record/manifest.h"
#include "server/store/record/sealed.h"

namespace ringwood {
namespace {

size_t PiecesOf(uint64_t bytes) { return (bytes + kManifestPieceBytes - 1) / kManifestPieceBytes; }

auto NamesOf(const v1::CheckpointManifest& manifest) {
  return std::tuple(manifest.job(), manifest.epoch(), manifest.step(), manifest.world(),
                    manifest.unix_seconds(), manifest.bytes(), HomesOf(manifest),
                    manifest.stored_bytes(), manifest.parts_size(), manifest.part(),
                    manifest.stores());
}

}  // namespace

StatusOr<ManifestRows> RowsOf(const v1::CheckpointManifest& manifest, uint64_t max_bytes) {
  const uint64_t bytes = manifest.ByteSizeLong();
  if (bytes > max_bytes) {
    return Exhausted(absl::StrFormat(
        "the manifest of step %d, with %d items, takes %s of at most %s (about 1.5 million items, "
        "or 7 TiB): save less",
        manifest.step(), manifest.items_size(), FormatBytes(static_cast<double>(bytes)),
        FormatBytes(static_cast<double>(max_bytes))));
  }
  ManifestRows rows;
  if (bytes <= kManifestPieceBytes) {
    rows.head = manifest;
    return rows;
  }
  rows.head.set_format(kCutManifestFormat);
  rows.head.set_job(manifest.job());
  rows.head.set_epoch(manifest.epoch());
  rows.head.set_step(manifest.step());
  rows.head.set_world(manifest.world());
  rows.head.set_unix_seconds(manifest.unix_seconds());
  rows.head.set_bytes(manifest.bytes());
  *rows.head.mutable_homes() = manifest.homes();
  rows.head.set_stored_bytes(manifest.stored_bytes());
  *rows.head.mutable_parts() = manifest.parts();
  rows.head.set_part(manifest.part());
  rows.head.set_stores(manifest.stores());
  rows.head.set_cut_bytes(bytes);
  const std::string body = manifest.SerializeAsString();
  for (size_t at = 0; at < body.size(); at += kManifestPieceBytes) {
    rows.pieces.push_back(body.substr(at, kManifestPieceBytes));
    rows.head.add_cut_sha256(Sha256(rows.pieces.back()));
  }
  return rows;
}

Status CheckHead(const v1::CheckpointManifest& head, const std::string& what) {
  const bool cut = head.format() == kCutManifestFormat;
  if (!cut && head.format() != kManifestFormat) {
    return Refused(absl::StrFormat("%s has format %d, this Ringwood reads %d and %d", what,
                                   head.format(), kManifestFormat, kCutManifestFormat));
  }
  const auto pieces = static_cast<size_t>(head.cut_sha256_size());
  const bool fits = cut ? head.items().empty() && head.cut_bytes() <= kMaxManifestBytes &&
                              head.cut_bytes() > 0 && pieces == PiecesOf(head.cut_bytes())
                        : head.cut_bytes() == 0 && pieces == 0;
  return fits ? OkStatus() : Corrupt(what + " has pieces that make no manifest");
}

Status AddPiece(const v1::CheckpointManifest& head, const std::string& piece,
                const std::string& what, std::string* body) {
  const size_t at = body->size() / kManifestPieceBytes;
  const uint64_t rest = head.cut_bytes() - body->size();
  if (rest == 0 || piece.size() != std::min<uint64_t>(rest, kManifestPieceBytes) ||
      Sha256(piece) != head.cut_sha256(static_cast<int>(at))) {
    return Corrupt(absl::StrFormat("%s: its piece %d of %d is damaged (its SHA-256 differs)", what,
                                   at + 1, head.cut_sha256_size()));
  }
  *body += piece;
  return OkStatus();
}

StatusOr<v1::CheckpointManifest> WholeManifest(v1::CheckpointManifest head, const std::string& body,
                                               const std::string& what) {
  if (head.format() == kManifestFormat) {
    RW_RETURN_IF_ERROR(CheckHomes(head, what));
    return head;
  }
  v1::CheckpointManifest manifest;
  if (body.size() != head.cut_bytes() || !manifest.ParseFromString(body) ||
      manifest.format() != kManifestFormat || NamesOf(manifest) != NamesOf(head)) {
    return Corrupt(what + ": its pieces are another manifest's");
  }
  RW_RETURN_IF_ERROR(CheckHomes(manifest, what));
  return manifest;
}

}  // namespace ringwood

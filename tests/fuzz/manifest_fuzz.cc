// What a store makes of the records that it reads and of the stripes that workers bring: a manifest
// that is accepted covers its items exactly, whatever the numbers in it.
//
// sources: server/store/record/manifest.cc server/store/record/manifest_rows.cc
// sources: server/store/record/sealed.cc server/store/record/parts.cc
// sources: base/tensor_type.cc base/text.cc base/units.cc
// sources: base/status.cc base/check.cc store.pb.cc
// libraries: protobuf libxxhash libcrypto
#include <cstdint>
#include <map>
#include <string>

#include "base/check.h"
#include "server/store/record/manifest.h"
#include "server/store/record/manifest_rows.h"
#include "server/store/record/sealed.h"

#define RINGWOOD_XXHASH <xxhash.h>  // as the build chooses it for base
#include "base/digest.cc"

namespace ringwood {
namespace {

// As it lies in the database: what was sealed comes back, and no other bytes do.
void ReadBack(const std::string& bytes) {
  const auto stranger = Unseal<v1::CheckpointManifest>(bytes, "the manifest");
  RW_CHECK(!stranger.ok() || SealBytes(bytes.substr(sizeof(uint64_t))) == bytes);
  const auto own = Unseal<v1::CheckpointManifest>(SealBytes(bytes), "the manifest");
  if (own.ok()) RW_CHECK(!ToString(*own).empty());
}

// Its items as the stripes of their ranks.
void PutTogether(const std::string& bytes) {
  v1::CheckpointManifest given;
  if (!given.ParseFromString(bytes)) return;
  std::map<uint32_t, Stripe> stripes;
  for (const v1::StoredItem& item : given.items()) stripes[item.rank()].push_back(item);
  HomeSizes homes;
  for (const v1::HomeCheckpoint& home : given.homes()) {
    homes[{home.epoch(), home.step()}] = home.stored_bytes();
  }
  const StatusOr<v1::CheckpointManifest> manifest = Assemble(stripes, homes);
  if (!manifest.ok()) return;
  RW_CHECK(CheckHomes(*manifest, "the manifest").ok());
  for (const CheckpointId& home : HomesOf(*manifest)) RW_CHECK(homes.contains(home));
  RW_CHECK(StoredBytes(*manifest) <= manifest->bytes());
  uint64_t total = 0;
  for (const v1::StoredItem& item : manifest->items()) {
    uint64_t end = 0;
    for (const v1::StoredChunk& chunk : item.chunks()) {
      RW_CHECK(chunk.offset() == end);
      end += chunk.bytes();
    }
    RW_CHECK(end == item.bytes());
    total += item.bytes();
  }
  RW_CHECK(total == manifest->bytes());
}

// A head with any pieces: what is taken for a manifest is what its rows were made of.
void ReadCut(const std::string& bytes) {
  v1::CheckpointManifest head;
  if (!head.ParseFromString(bytes) || !CheckHead(head, "the manifest").ok()) return;
  std::string body;
  for (int i = 0; i < head.cut_sha256_size(); ++i) {
    if (!AddPiece(head, bytes, "the manifest", &body).ok()) return;
  }
  const auto manifest = WholeManifest(head, body, "the manifest");
  if (!manifest.ok()) return;
  RW_CHECK(manifest->format() == kManifestFormat);
  RW_CHECK(HomesOf(*manifest) == HomesOf(head) && CheckHomes(*manifest, "the manifest").ok());
  RW_CHECK(RowsOf(*manifest)->head.cut_bytes() == 0);  // bytes of this size fit into a row
}

void TakeChunk(const std::string& bytes) {
  v1::SaveChunk chunk;
  if (!chunk.ParseFromString(bytes) || !CheckChunk(chunk).ok() || chunk.item().empty()) return;
  RW_CHECK(chunk.data().size() <= kMaxChunkBytes && chunk.item_bytes() <= kMaxItemBytes);
  RW_CHECK(chunk.offset() + chunk.data().size() <= chunk.item_bytes());
  if (!chunk.dtype().empty()) RW_CHECK(*BytesOf(TensorTypeOf(chunk)) == chunk.item_bytes());
}

}  // namespace
}  // namespace ringwood

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  ringwood::ReadBack(bytes);
  ringwood::PutTogether(bytes);
  ringwood::ReadCut(bytes);
  ringwood::TakeChunk(bytes);
  return 0;
}

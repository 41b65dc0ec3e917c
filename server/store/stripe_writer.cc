#include "server/store/stripe_writer.h"

#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>

#include <span>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "base/units.h"
#include "server/store/database.h"
#include "server/store/record/manifest_rows.h"

namespace ringwood {
namespace {

constexpr uint64_t kListedChunkBytes = 36;  // in a manifest
// The kernel begins to write to the disk after so many, while the next ones are on their way.
constexpr uint64_t kBytesPerSync = 8 << 20;

}  // namespace

StripeWriter::StripeWriter(const CheckpointId& id, uint32_t rank, std::string path,
                           rocksdb::Env* env, FindHome find_home)
    : id_(id), rank_(rank), path_(std::move(path)), env_(env), find_home_(std::move(find_home)) {
  rocksdb::Options options = SafeOptions(env);
  options.compression = rocksdb::kNoCompression;  // floats: nothing to gain
  rocksdb::EnvOptions writing;
  writing.bytes_per_sync = kBytesPerSync;
  file_ = std::make_unique<rocksdb::SstFileWriter>(writing, options);
}

StatusOr<std::unique_ptr<StripeWriter>> StripeWriter::Create(const CheckpointId& id, uint32_t rank,
                                                             const std::string& path,
                                                             rocksdb::Env* env,
                                                             FindHome find_home) {
  std::unique_ptr<StripeWriter> writer(new StripeWriter(id, rank, path, env, std::move(find_home)));
  RW_RETURN_IF_ERROR(FromRocks(writer->file_->Open(path), "cannot write " + path));
  return writer;
}

StripeWriter::~StripeWriter() {
  file_.reset();
  env_->DeleteFile(path_);
}

Status StripeWriter::Add(const v1::SaveChunk& chunk) {
  RW_RETURN_IF_ERROR(CheckChunk(chunk));
  if (chunk.item().empty()) return OkStatus();  // the end mark
  if (Digest(std::as_bytes(std::span(chunk.data()))) != chunk.checksum()) {
    return Corrupt(
        absl::StrFormat("item \"%s\" of rank %d at byte %d arrived damaged (its checksum "
                        "differs)",
                        chunk.item(), rank_, chunk.offset()));
  }
  v1::StoredItem& item = items_[{chunk.scope(), chunk.item()}];
  if (item.name().empty()) {
    item.set_name(chunk.item());
    item.set_scope(chunk.scope());
    item.set_rank(rank_);
    item.set_bytes(chunk.item_bytes());
    item.set_dtype(chunk.dtype());
    *item.mutable_shape() = chunk.shape();
    listed_bytes_ += item.ByteSizeLong();
  } else if (item.bytes() != chunk.item_bytes()) {
    return Invalid(
        absl::StrFormat("item \"%s\" of rank %d has %d bytes in one chunk and %d in "
                        "another",
                        chunk.item(), rank_, item.bytes(), chunk.item_bytes()));
  }
  if (listed_bytes_ > kMaxManifestBytes) {
    return Exhausted(absl::StrFormat(
        "rank %d's part of the manifest, with %d items, takes more than the %s of a whole one "
        "(about 1.5 million items, or 7 TiB): save less",
        rank_, items_.size(), FormatBytes(static_cast<double>(kMaxManifestBytes))));
  }
  if (chunk.data().empty()) return OkStatus();  // an item of no bytes, or the end mark with a name
  RW_ASSIGN_OR_RETURN(const ChunkPlace place, Store(chunk));
  v1::StoredChunk* stored = item.add_chunks();
  stored->set_offset(chunk.offset());
  stored->set_bytes(static_cast<uint32_t>(chunk.data().size()));
  stored->set_rank(place.rank);
  stored->set_sequence(place.sequence);
  stored->set_digest(chunk.checksum());
  if (place.home != id_) {
    stored->set_home_epoch(place.home.epoch);
    stored->set_home_step(place.home.step);
  }
  bytes_ += chunk.data().size();
  listed_bytes_ += kListedChunkBytes;
  return OkStatus();
}

StatusOr<ChunkPlace> StripeWriter::Store(const v1::SaveChunk& chunk) {
  if (find_home_) {
    if (const auto home = find_home_(chunk.checksum(), chunk.data())) return *home;
  }
  const ChunkPlace place{id_, rank_, sequence_};
  RW_RETURN_IF_ERROR(Put(chunk.data()));
  written_bytes_ += chunk.data().size();
  return place;
}

Status StripeWriter::Put(const std::string& bytes) {
  if (sequence_ >= kMaxChunksOfStripe) return Exhausted("a stripe has too many chunks");
  return FromRocks(file_->Put(ChunkKey(id_, rank_, sequence_++), bytes), "cannot write " + path_);
}

Status StripeWriter::Finish() {
  if (empty()) return OkStatus();
  return FromRocks(file_->Finish(), "cannot write " + path_);
}

Stripe StripeWriter::TakeItems() {
  Stripe stripe;
  for (auto& [key, item] : items_) stripe.push_back(std::move(item));
  items_.clear();
  return stripe;
}

}  // namespace ringwood

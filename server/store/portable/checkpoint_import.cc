#include "server/store/portable/checkpoint_import.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "proto/item_choice.h"
#include "server/store/checkpoint_store.h"
#include "server/store/portable/safetensors_file.h"
#include "server/store/store_directory.h"

namespace ringwood {
namespace {

constexpr size_t kMaxItemOfClientBytes = 255;  // of a name, in the interface for trainers
constexpr uint32_t kOnlyRank = 0;
// Half of the rounds that a job can have (plan/wire.h).
constexpr uint64_t kMostStep = uint64_t{1} << 39;

// An epoch that no server of this store has been in.
StatusOr<uint64_t> NewEpoch(const CheckpointStore& store, const std::string& store_dir) {
  RW_ASSIGN_OR_RETURN(const auto ids, store.reader().Complete());
  const std::string seen = ReadWitness(store_dir + "/coordinator");  // its newest epoch, as text
  const uint64_t coordinated = std::strtoull(seen.c_str(), nullptr, 10);
  const uint64_t newest = std::max(coordinated, ids.empty() ? 0 : ids.front().epoch);
  if (newest < std::numeric_limits<uint64_t>::max() - 1) return newest + 1;
  return Refused(absl::StrFormat("the store %s has no epoch left after %d", store_dir, newest));
}

Status CheckNames(const Safetensors& content) {
  for (const Safetensor& tensor : content.tensors) {
    if (sizeof kModelPrefix - 1 + tensor.name.size() <= kMaxItemOfClientBytes) continue;
    return Invalid(absl::StrFormat("the tensor '%s': an item's name has at most %d bytes, with %s",
                                   tensor.name, kMaxItemOfClientBytes, kModelPrefix));
  }
  return OkStatus();
}

// No job resumes from what is in a store that only keeps parts of another one's checkpoints.
Status CheckIsMain(const std::string& store) {
  if (PartsFolders(store).empty() || HasDatabase(store + "/checkpoints")) return OkStatus();
  return Refused(store +
                 " has parts of the checkpoints of another store, and none of its own: import into "
                 "the --store of the server that coordinates");
}

// The one stripe of a checkpoint in the making. What was not published is dropped.
class Import {
 public:
  Import(CheckpointStore* store, const CheckpointId& id, uint64_t job)
      : store_(store), id_(id), job_(job) {}
  ~Import() {
    stripe_.reset();
    if (!published_) store_->Drop(id_);
  }
  Import(const Import&) = delete;

  Status Begin() {
    RW_ASSIGN_OR_RETURN(stripe_, store_->NewStripe(id_, kOnlyRank, job_));
    return OkStatus();
  }

  // `next` gives the item's bytes, in order.
  template <typename Next>
  Status Add(const std::string& name, const TensorType& type, uint64_t bytes, Next next) {
    v1::SaveChunk chunk;
    chunk.set_epoch(id_.epoch);
    chunk.set_step(id_.step);
    chunk.set_rank(kOnlyRank);
    chunk.set_item(name);
    chunk.set_scope(v1::SCOPE_SHARED);
    chunk.set_item_bytes(bytes);
    chunk.set_dtype(type.dtype);
    chunk.mutable_shape()->Assign(type.shape.begin(), type.shape.end());
    uint64_t at = 0;
    do {
      RW_ASSIGN_OR_RETURN(std::string data, next(std::min(kMaxChunkBytes, bytes - at)));
      chunk.set_offset(at);
      chunk.set_checksum(Digest(std::as_bytes(std::span(data))));
      at += data.size();
      chunk.set_data(std::move(data));
      RW_RETURN_IF_ERROR(stripe_->Add(chunk));
    } while (at < bytes);
    return OkStatus();
  }

  StatusOr<v1::CheckpointManifest> Publish(const ImportRequest& request) {
    RW_RETURN_IF_ERROR(stripe_->Finish());
    RW_RETURN_IF_ERROR(store_->Ingest({stripe_.get()}));
    RW_ASSIGN_OR_RETURN(auto manifest,
                        Assemble({{kOnlyRank, stripe_->TakeItems()}}, store_->HomesFor(id_)));
    manifest.set_job(job_);
    manifest.set_epoch(id_.epoch);
    manifest.set_step(id_.step);
    manifest.set_world(1);
    manifest.set_unix_seconds(request.unix_seconds);
    RW_RETURN_IF_ERROR(store_->Publish(manifest));
    published_ = true;
    return manifest;
  }

 private:
  CheckpointStore* const store_;
  const CheckpointId id_;
  const uint64_t job_;
  std::unique_ptr<StripeWriter> stripe_;
  bool published_ = false;
};

}  // namespace

StatusOr<v1::CheckpointManifest> ImportCheckpoint(const ImportRequest& request,
                                                  const ReadProgress& progress) {
  if (request.step > kMostStep) {
    return Invalid(
        absl::StrFormat("step %d: a job counts on from 0 to %d", request.step, kMostStep));
  }
  RW_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(request.file));
  RW_RETURN_IF_ERROR(CheckNames(file->content()));
  if (file->content().tensors.empty()) return Invalid(request.file + " has no tensors");
  RW_RETURN_IF_ERROR(CheckIsMain(request.store));
  RW_RETURN_IF_ERROR(PrepareStore(request.store));
  RW_ASSIGN_OR_RETURN(const auto store, CheckpointStore::Open(request.store + "/checkpoints"));
  store->Keep({.newest = std::numeric_limits<size_t>::max()});  // the server's to decide
  RW_ASSIGN_OR_RETURN(const uint64_t epoch, NewEpoch(*store, request.store));
  const CheckpointId id{epoch, request.step};
  Import import(store.get(), id, request.job);
  RW_RETURN_IF_ERROR(import.Begin());
  const std::string& header = file->header();
  size_t shown = 0;
  RW_RETURN_IF_ERROR(
      import.Add(kImportedItem, {}, header.size(), [&](uint64_t bytes) -> StatusOr<std::string> {
        shown += bytes;
        return header.substr(shown - bytes, bytes);
      }));
  uint64_t done = 0;
  const uint64_t all = file->content().DataBytes();
  const auto next = [&](uint64_t bytes) -> StatusOr<std::string> {
    done += bytes;
    if (progress) RW_RETURN_IF_ERROR(progress(id, done, all));
    return file->Next(bytes);
  };
  for (const Safetensor& tensor : file->content().tensors) {  // in the order of the file
    RW_RETURN_IF_ERROR(import.Add(kModelPrefix + tensor.name, tensor.type, tensor.bytes, next));
  }
  return import.Publish(request);
}

}  // namespace ringwood

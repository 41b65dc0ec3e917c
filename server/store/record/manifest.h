// What a checkpoint consists of: values and pure decisions.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "base/tensor_type.h"
#include "ringwood/v1/store.pb.h"
#include "server/store/record/checkpoint_key.h"
#include "server/store/record/homes.h"

namespace ringwood {

inline constexpr uint32_t kManifestFormat = 1;
inline constexpr uint64_t kMaxChunkBytes = 1 << 20;    // of data in one SaveChunk
inline constexpr uint64_t kMaxItemBytes = 1ull << 40;  // 1 TiB, far above any state of today
inline constexpr size_t kMaxItemNameBytes = 1024;
inline constexpr uint32_t kMaxChunksOfStripe = 1 << 22;  // 4 TiB of full chunks a worker

// One worker's items, with the chunks that it brought.
using Stripe = std::vector<v1::StoredItem>;

TensorType TensorTypeOf(const v1::SaveChunk& chunk);
TensorType TensorTypeOf(const v1::StoredItem& item);

// Checks a chunk's numbers before it is used (not its checksum).
Status CheckChunk(const v1::SaveChunk& chunk);

// In whose stripes a chunk of checkpoint `id` lies.
CheckpointId HomeOf(const CheckpointId& id, const v1::StoredChunk& chunk);
// The bytes of the chunks in a checkpoint's own stripes in this store: as its manifest says, and
// counted.
uint64_t BytesHere(const v1::CheckpointManifest& manifest);
uint64_t StoredBytes(const v1::CheckpointManifest& manifest);
std::vector<CheckpointId> HomesOf(const v1::CheckpointManifest& manifest);

// The manifest of all stripes (by rank), or why they do not make a checkpoint: an item with a gap,
// an overlap, or a size or type that two ranks give differently, a chunk whose home is none of
// `homes`. The caller fills in job, epoch, step, world and time. `part`: of some ranks' stripes,
// whose items may have gaps; `bytes` are those of the chunks then.
StatusOr<v1::CheckpointManifest> Assemble(const std::map<uint32_t, Stripe>& stripes,
                                          const HomeSizes& homes = {}, bool part = false);

// The items of several stripes or manifests, as one has them.
class UnitedItems {
 public:
  // `owner`: the rank whose an own item is, or that brings a part of a shared one.
  Status Add(const v1::StoredItem& item, uint32_t owner);
  // Into the manifest, and their bytes into its sum. Takes them.
  Status MoveTo(v1::CheckpointManifest* manifest, bool with_gaps);

 private:
  // Own items are apart for each rank, shared ones join the chunks of all.
  std::map<std::tuple<int, uint32_t, std::string>, v1::StoredItem> items_;
};

// Whether the manifest lists the homes of its chunks, and no others. `what` names it in errors.
Status CheckHomes(const v1::CheckpointManifest& manifest, const std::string& what);

std::string ToString(const v1::CheckpointManifest& manifest);  // for people

// A manifest whose items are loaded: which there are, for whom, and in which order.
class OpenedCheckpoint {
 public:
  // An item's bytes cost less than the call that asks for it.
  static constexpr uint64_t kSmallItemBytes = 16 << 10;

  explicit OpenedCheckpoint(v1::CheckpointManifest manifest);
  OpenedCheckpoint(const OpenedCheckpoint&) = delete;  // it points into itself

  CheckpointId id() const { return {manifest_.epoch(), manifest_.step()}; }
  const v1::CheckpointManifest& manifest() const { return manifest_; }

  // Null: there is none. `rank`: of own items.
  const v1::StoredItem* Find(v1::Scope scope, uint32_t rank, const std::string& name) const;

  // What a rank can load: the shared items, then its own, each by name.
  std::vector<const v1::StoredItem*> Loadable(uint32_t rank) const;

  // Items of the same scope and rank that follow an item of this manifest in the order of names,
  // up to the first that is not small (or empty: there is nothing to load); `most` bytes, about.
  // Without those that lie in further stores.
  std::vector<const v1::StoredItem*> SmallAfter(const v1::StoredItem& item, uint64_t most) const;

 private:
  using Items = std::vector<const v1::StoredItem*>;
  Items::const_iterator From(v1::Scope scope, uint32_t rank, const std::string& name) const;

  const v1::CheckpointManifest manifest_;
  Items items_;  // by (scope, rank of own ones, name): shared ones come first
};

}  // namespace ringwood

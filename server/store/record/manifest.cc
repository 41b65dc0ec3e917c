#include "server/store/record/manifest.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "base/units.h"
#include "server/store/record/parts.h"

namespace ringwood {
namespace {

std::string ItemName(const v1::StoredItem& item) {
  return item.scope() == v1::SCOPE_OWN
             ? absl::StrFormat("item \"%s\" of rank %d", item.name(), item.rank())
             : absl::StrFormat("item \"%s\"", item.name());
}

template <typename Message>
TensorType ReadType(const Message& message) {
  return {message.dtype(), {message.shape().begin(), message.shape().end()}};
}

// Two ranks' parts of a shared item.
Status CheckAlike(const v1::StoredItem& one, const v1::StoredItem& other, uint32_t rank) {
  if (one.bytes() != other.bytes()) {
    return Invalid(absl::StrFormat("%s has %d bytes on rank %d and %d on another", ItemName(one),
                                   other.bytes(), rank, one.bytes()));
  }
  if (TensorTypeOf(one) == TensorTypeOf(other)) return OkStatus();
  return Invalid(absl::StrFormat("%s is %s on rank %d and %s on another", ItemName(one),
                                 ToString(TensorTypeOf(other)), rank, ToString(TensorTypeOf(one))));
}

// The ranks cut the row of all shared items into stripes, each by its own row.
std::string WhatMayDiffer(const v1::StoredItem& item) {
  return item.scope() == v1::SCOPE_OWN
             ? ""
             : ": do all ranks give the same shared items, in name, order and size?";
}

Status SortAndCheckCover(v1::StoredItem* item, bool with_gaps) {
  auto* chunks = item->mutable_chunks();
  std::sort(chunks->begin(), chunks->end(), [](const v1::StoredChunk& a, const v1::StoredChunk& b) {
    return std::tuple(a.offset(), a.bytes()) < std::tuple(b.offset(), b.bytes());
  });
  uint64_t end = 0;
  for (const v1::StoredChunk& chunk : *chunks) {
    if (chunk.offset() < end || (chunk.offset() > end && !with_gaps)) {
      return Invalid(absl::StrFormat("%s has %s at byte %d%s", ItemName(*item),
                                     chunk.offset() > end ? "a gap" : "an overlap", end,
                                     WhatMayDiffer(*item)));
    }
    end = chunk.offset() + chunk.bytes();
  }
  if (end == item->bytes() || (with_gaps && end < item->bytes())) return OkStatus();
  return Invalid(absl::StrFormat("%s ends at byte %d of %d%s", ItemName(*item), end, item->bytes(),
                                 WhatMayDiffer(*item)));
}

bool IsElsewhere(const v1::StoredChunk& chunk) {
  return chunk.home_epoch() != 0 || chunk.home_step() != 0;
}

std::set<CheckpointId> HomesOfChunks(const v1::CheckpointManifest& manifest) {
  std::set<CheckpointId> homes;
  for (const v1::StoredItem& item : manifest.items()) {
    for (const v1::StoredChunk& chunk : item.chunks()) {
      if (chunk.part() != 0) continue;  // homes are in its own store
      if (IsElsewhere(chunk)) homes.insert({chunk.home_epoch(), chunk.home_step()});
    }
  }
  return homes;
}

// Of an item among all of a manifest.
using Place = std::tuple<int, uint32_t, const std::string&>;

Place PlaceOf(v1::Scope scope, uint32_t rank, const std::string& name) {
  return {scope, scope == v1::SCOPE_OWN ? rank : 0, name};
}

Place PlaceOf(const v1::StoredItem& item) {
  return PlaceOf(item.scope(), item.rank(), item.name());
}

bool AreOfOne(const v1::StoredItem& item, const v1::StoredItem& other) {
  return item.scope() == other.scope() &&
         (item.scope() != v1::SCOPE_OWN || item.rank() == other.rank());
}

}  // namespace

TensorType TensorTypeOf(const v1::SaveChunk& chunk) { return ReadType(chunk); }
TensorType TensorTypeOf(const v1::StoredItem& item) { return ReadType(item); }

Status CheckChunk(const v1::SaveChunk& chunk) {
  const uint64_t bytes = chunk.data().size();
  if (bytes > kMaxChunkBytes) {
    return Invalid(
        absl::StrFormat("a chunk of %d bytes is over the limit of %d", bytes, kMaxChunkBytes));
  }
  if (chunk.has_memory() && chunk.memory().bytes() != bytes) {
    return Invalid("a chunk whose bytes were not read");
  }
  if (chunk.item().empty()) {
    return chunk.last() && bytes == 0 ? OkStatus() : Invalid("a chunk without an item's name");
  }
  if (chunk.item().size() > kMaxItemNameBytes) return Invalid("an item's name is too long");
  if (chunk.scope() != v1::SCOPE_SHARED && chunk.scope() != v1::SCOPE_OWN) {
    return Invalid("item \"" + chunk.item() + "\" has no scope");
  }
  if (chunk.item_bytes() > kMaxItemBytes || chunk.offset() > chunk.item_bytes() ||
      bytes > chunk.item_bytes() - chunk.offset()) {
    return Invalid(absl::StrFormat("item \"%s\": a chunk of %d bytes at %d is outside its %d bytes",
                                   chunk.item(), bytes, chunk.offset(), chunk.item_bytes()));
  }
  return CheckType("item \"" + chunk.item() + "\"", TensorTypeOf(chunk), chunk.item_bytes());
}

uint64_t BytesHere(const v1::CheckpointManifest& manifest) {
  uint64_t bytes = 0;
  for (const v1::StoredItem& item : manifest.items()) {
    for (const v1::StoredChunk& chunk : item.chunks()) {
      bytes += chunk.part() != 0 || IsElsewhere(chunk) ? 0 : chunk.bytes();
    }
  }
  return bytes;
}

CheckpointId HomeOf(const CheckpointId& id, const v1::StoredChunk& chunk) {
  return IsElsewhere(chunk) ? CheckpointId{chunk.home_epoch(), chunk.home_step()} : id;
}

uint64_t StoredBytes(const v1::CheckpointManifest& manifest) {
  const bool all = manifest.homes().empty() && manifest.parts().empty();
  return all ? manifest.bytes() : manifest.stored_bytes();
}

std::vector<CheckpointId> HomesOf(const v1::CheckpointManifest& manifest) {
  std::vector<CheckpointId> homes;
  for (const v1::HomeCheckpoint& home : manifest.homes()) {
    homes.push_back({home.epoch(), home.step()});
  }
  return homes;
}

Status CheckHomes(const v1::CheckpointManifest& manifest, const std::string& what) {
  const std::set<CheckpointId> homes = HomesOfChunks(manifest);
  if (HomesOf(manifest) == std::vector(homes.begin(), homes.end())) return OkStatus();
  return Corrupt(what + " lists other homes than its chunks have");
}

Status UnitedItems::Add(const v1::StoredItem& item, uint32_t owner) {
  const uint32_t rank = item.scope() == v1::SCOPE_OWN ? owner : 0;
  auto [found, is_new] = items_.try_emplace({item.scope(), rank, item.name()}, item);
  if (is_new) {
    found->second.set_rank(rank);
    return OkStatus();
  }
  RW_RETURN_IF_ERROR(CheckAlike(found->second, item, owner));
  found->second.mutable_chunks()->MergeFrom(item.chunks());
  return OkStatus();
}

Status UnitedItems::MoveTo(v1::CheckpointManifest* manifest, bool with_gaps) {
  uint64_t total = 0;
  for (auto& [key, item] : items_) {
    RW_RETURN_IF_ERROR(SortAndCheckCover(&item, with_gaps));
    for (const v1::StoredChunk& chunk : item.chunks()) total += chunk.bytes();
    *manifest->add_items() = std::move(item);
  }
  items_.clear();
  manifest->set_bytes(total);
  return OkStatus();
}

StatusOr<v1::CheckpointManifest> Assemble(const std::map<uint32_t, Stripe>& stripes,
                                          const HomeSizes& homes, bool part) {
  UnitedItems items;
  for (const auto& [rank, stripe] : stripes) {
    for (const v1::StoredItem& item : stripe) RW_RETURN_IF_ERROR(items.Add(item, rank));
  }
  v1::CheckpointManifest manifest;
  manifest.set_format(kManifestFormat);
  RW_RETURN_IF_ERROR(items.MoveTo(&manifest, part));
  for (const CheckpointId& id : HomesOfChunks(manifest)) {
    const auto home = homes.find(id);
    if (home == homes.end()) {
      return Invalid(absl::StrFormat("a chunk lies with step %d (epoch %d), which is no home",
                                     id.step, id.epoch));
    }
    v1::HomeCheckpoint* const named = manifest.add_homes();
    named->set_epoch(id.epoch);
    named->set_step(id.step);
    named->set_stored_bytes(home->second);
  }
  if (!manifest.homes().empty()) manifest.set_stored_bytes(BytesHere(manifest));
  return manifest;
}

std::string ToString(const v1::CheckpointManifest& manifest) {
  std::string text =
      absl::StrFormat("step %d of epoch %d, job %016x, world %d, %s in %d items\n", manifest.step(),
                      manifest.epoch(), manifest.job(), manifest.world(),
                      FormatBytes(static_cast<double>(manifest.bytes())), manifest.items_size());
  for (const v1::HomeCheckpoint& home : manifest.homes()) {
    text += absl::StrFormat("  some chunks did not change: they lie with step %d of epoch %d\n",
                            home.step(), home.epoch());
  }
  for (int part = 0; part < manifest.parts_size(); ++part) {
    text += absl::StrFormat("  part %d of %d, %s, is in %s\n", part + 1, manifest.parts_size() + 1,
                            FormatBytes(static_cast<double>(manifest.parts(part).bytes())),
                            PlaceName(manifest.parts(part)));
  }
  for (const v1::StoredItem& item : manifest.items()) {
    text += absl::StrFormat(
        "  %-6s %-44s %12s  %-20s %s\n",
        item.scope() == v1::SCOPE_OWN ? absl::StrFormat("rank %d", item.rank()) : "shared",
        Printable(item.name(), kMaxItemNameBytes), FormatBytes(static_cast<double>(item.bytes())),
        ToString(TensorTypeOf(item)), FormatCount(item.chunks_size(), "chunk"));
  }
  return text;
}

OpenedCheckpoint::OpenedCheckpoint(v1::CheckpointManifest manifest)
    : manifest_(std::move(manifest)) {
  for (const v1::StoredItem& item : manifest_.items()) items_.push_back(&item);
  std::sort(items_.begin(), items_.end(), [](const v1::StoredItem* a, const v1::StoredItem* b) {
    return PlaceOf(*a) < PlaceOf(*b);
  });
}

OpenedCheckpoint::Items::const_iterator OpenedCheckpoint::From(v1::Scope scope, uint32_t rank,
                                                               const std::string& name) const {
  return std::lower_bound(
      items_.begin(), items_.end(), PlaceOf(scope, rank, name),
      [](const v1::StoredItem* item, const Place& place) { return PlaceOf(*item) < place; });
}

const v1::StoredItem* OpenedCheckpoint::Find(v1::Scope scope, uint32_t rank,
                                             const std::string& name) const {
  const auto found = From(scope, rank, name);
  if (found == items_.end() || PlaceOf(**found) != PlaceOf(scope, rank, name)) return nullptr;
  return *found;
}

std::vector<const v1::StoredItem*> OpenedCheckpoint::Loadable(uint32_t rank) const {
  Items loadable;
  for (const v1::StoredItem* const item : items_) {
    if (item->scope() != v1::SCOPE_OWN || item->rank() == rank) loadable.push_back(item);
  }
  return loadable;
}

std::vector<const v1::StoredItem*> OpenedCheckpoint::SmallAfter(const v1::StoredItem& item,
                                                                uint64_t most) const {
  Items small;
  uint64_t bytes = 0;
  for (auto next = From(item.scope(), item.rank(), item.name()) + 1; next != items_.end(); ++next) {
    const v1::StoredItem& other = **next;
    if (!AreOfOne(item, other)) break;
    if (other.chunks_size() == 1 && other.chunks(0).part() != 0) continue;
    if (other.chunks_size() != 1) break;
    bytes += other.bytes() + other.name().size();
    if (other.bytes() > kSmallItemBytes || bytes > most) break;
    small.push_back(&other);
  }
  return small;
}

}  // namespace ringwood

#include "server/store/record/parts.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/store/record/manifest.h"

namespace ringwood {

StatusOr<v1::CheckpointManifest> Unite(v1::CheckpointManifest own, std::vector<StoredPart> parts) {
  v1::CheckpointManifest whole = own;
  whole.clear_items();
  UnitedItems items;
  for (const v1::StoredItem& item : own.items()) RW_RETURN_IF_ERROR(items.Add(item, item.rank()));
  for (uint32_t part = 1; part <= parts.size(); ++part) {
    StoredPart& stored = parts[part - 1];
    for (v1::StoredItem& item : *stored.manifest.mutable_items()) {
      for (v1::StoredChunk& chunk : *item.mutable_chunks()) chunk.set_part(part);
      RW_RETURN_IF_ERROR(items.Add(item, item.rank()));
    }
    *whole.add_parts() = std::move(stored.place);
  }
  RW_RETURN_IF_ERROR(items.MoveTo(&whole, false));
  whole.set_stored_bytes(BytesHere(whole));
  return whole;
}

Status CheckPart(const v1::CheckpointManifest& part, uint64_t job, const CheckpointId& id,
                 uint32_t number, uint32_t stores) {
  const auto is = std::tuple(part.job(), part.epoch(), part.step(), part.part(), part.stores());
  if (is == std::tuple(job, id.epoch, id.step, number, stores)) return OkStatus();
  return Corrupt(absl::StrFormat(
      "the part %d of %d of step %d (epoch %d, job %016x) is part %d of %d of step %d (epoch %d, "
      "job %016x)",
      number, stores, id.step, id.epoch, job, part.part(), part.stores(), part.step(), part.epoch(),
      part.job()));
}

std::vector<CheckpointId> Orphans(const std::vector<CheckpointId>& there,
                                  const std::set<CheckpointId>& complete,
                                  const std::set<CheckpointId>& under_way) {
  std::vector<CheckpointId> orphans;
  std::ranges::copy_if(there, std::back_inserter(orphans), [&](const CheckpointId& id) {
    return !complete.contains(id) && !under_way.contains(id);
  });
  return orphans;
}

std::string PlaceName(const v1::CheckpointPart& place) {
  return absl::StrFormat("the store %016x of server %d (host %s, %s)", place.store(),
                         place.server(), place.host(), place.directory());
}

std::vector<uint32_t> PartsOf(const v1::StoredItem& item) {
  std::set<uint32_t> parts;
  for (const v1::StoredChunk& chunk : item.chunks()) {
    if (chunk.part() != 0) parts.insert(chunk.part());
  }
  return {parts.begin(), parts.end()};
}

}  // namespace ringwood

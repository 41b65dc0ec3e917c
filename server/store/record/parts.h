// A checkpoint that several stores share. Pure.
//
//   the main store    the whole: a manifest of all items and chunks, which says of each chunk in
//                     whose store it is, and lists the parts with the digest of each one's manifest
//   a further store   a part: a checkpoint of its own, of the stripes of some ranks, which says
//                     which part of how many it is
//
// A part is durable before the whole is written, and goes after it. So a whole has all its parts,
// whatever dies when; a part that belongs to no whole is an orphan, and goes when the main store
// next asks what there is.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "ringwood/v1/store.pb.h"
#include "server/store/record/checkpoint_key.h"

namespace ringwood {

struct StoredPart {
  v1::CheckpointPart place;
  v1::CheckpointManifest manifest;  // as it is in that store
};

// The manifest of the whole, of the main store's own part (from Assemble) and the further ones, in
// their order; or why they make none, as Assemble says it.
StatusOr<v1::CheckpointManifest> Unite(v1::CheckpointManifest own, std::vector<StoredPart> parts);

// Whether this part is one of that checkpoint, and of its place in it.
Status CheckPart(const v1::CheckpointManifest& part, uint64_t job, const CheckpointId& id,
                 uint32_t number, uint32_t stores);

// What of the parts that are `there` belongs to nothing: not to a whole that is complete, nor to
// one that is being made. Decided when it is known what is there, never before: a whole may begin
// at any time, and is `under_way` before its part can be there.
std::vector<CheckpointId> Orphans(const std::vector<CheckpointId>& there,
                                  const std::set<CheckpointId>& complete,
                                  const std::set<CheckpointId>& under_way);

// Where a part lies: "the store 0123456789abcdef of server 1 (host h2, /data/store)".
std::string PlaceName(const v1::CheckpointPart& place);

// The parts (numbers in ascending order) in which chunks of this item lie, but for 0.
std::vector<uint32_t> PartsOf(const v1::StoredItem& item);

}  // namespace ringwood

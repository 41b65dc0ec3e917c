#include "sparse/group.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "sparse/chunks.h"
#include "sparse/entries.h"

namespace ringwood {

StatusOr<Merge> ParseMerge(const std::string& name) {
  if (name == "gtopk") return Merge::kGtopk;
  if (name == "union") return Merge::kUnion;
  if (name == "exact") return Merge::kExact;
  return Invalid(absl::StrFormat("unknown merge \"%s\": use gtopk, union or exact", name));
}

StatusOr<TreeShape> ShapeOf(const TreeShape& job, const SparseGroup& group) {
  const uint64_t blocks = std::max<uint64_t>(1, BlocksOf(group.elements));
  const int reducers = std::max(1, job.reducers);
  if (group.elements > kMaxGroupElements) {
    return Invalid(absl::StrFormat("group %d: %d elements; a sparse group has at most %d",
                                   group.group, group.elements, kMaxGroupElements));
  }
  if (group.k < 1 || group.k > group.elements) {
    return Invalid(absl::StrFormat("group %d: %d entries out of %d elements", group.group, group.k,
                                   group.elements));
  }
  if (group.shards < 1 || group.shards > reducers || static_cast<uint64_t>(group.shards) > blocks ||
      group.first < 0 || group.first >= reducers) {
    return Invalid(absl::StrFormat(
        "group %d: %d index ranges from reducer %d on, for %d reducers and %d blocks", group.group,
        group.shards, group.first, job.reducers, blocks));
  }
  TreeShape shape = job;
  shape.shards = group.shards;
  shape.first = group.first;
  return shape;
}

int ChunksOf(const TreeShape& shape, const SparseGroup& group, const Codec& codec) {
  if (shape.workers == 1 || shape.reducers == 0) return 1;
  return ChunkCount(codec, group.k / static_cast<uint64_t>(group.shards));
}

}  // namespace ringwood

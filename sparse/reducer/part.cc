#include "sparse/reducer/part.h"

#include <algorithm>

#include "base/check.h"
#include "sparse/chunks.h"
#include "sparse/global_cut.h"
#include "sparse/merge.h"
#include "sparse/shard.h"

namespace ringwood {
namespace {

constexpr uint64_t kEntryBytes = sizeof(uint32_t) + sizeof(float);

// Entries that `node` sends up at most, when each worker sends `k` of the shard at most.
uint64_t MostSent(const Tree& tree, const TreeShape& shape, int node, const ReducerPart& part,
                  uint64_t k) {
  const uint64_t workers = tree.workers_under(node);
  const uint64_t sum = std::min(part.elements, k * workers);
  if (node < shape.workers || part.merge == Merge::kUnion) return sum;
  return std::min(sum, part.keep);
}

}  // namespace

std::vector<int> RangesOf(const TreeShape& shape, int node, const SparseGroup& group) {
  const StatusOr<TreeShape> sharded = ShapeOf(shape, group);
  return sharded.ok() ? ShardsAt(*sharded, node) : std::vector<int>{0};
}

StatusOr<ReducerPart> PartOf(const TreeShape& shape, int node, const SparseGroup& group,
                             int shard_number) {
  RW_ASSIGN_OR_RETURN(const TreeShape sharded, ShapeOf(shape, group));
  const uint64_t keep = group.result_entries();
  ReducerPart part;
  part.group = group.group;
  part.shape = sharded;
  RW_ASSIGN_OR_RETURN(part.codec, ParseCodec(group.codec));
  RW_ASSIGN_OR_RETURN(part.merge, ParseMerge(group.merge));
  part.chunks = ChunksOf(sharded, group, part.codec);
  part.shard = shard_number;
  part.keep_of_all = keep;
  const Shard shard = ShardsOf(group.elements, keep, group.shards)[part.shard];
  part.elements = shard.elements();
  part.keep = part.merge == Merge::kExact ? std::min(keep, part.elements) : shard.quota;
  const Tree tree(sharded, part.shard);
  part.parent = tree.parent(node);
  part.children = tree.children(node);
  const uint64_t k = std::min(group.k, part.elements);
  for (int child : part.children) {
    part.coarse.push_back(child < shape.workers);
    part.most_sent.push_back(MostSent(tree, shape, child, part, k));
  }
  part.most_up = MostSent(tree, shape, node, part, k);
  part.most_down = MostSent(tree, shape, RootOf(sharded, part.shard), part, k);
  const bool root = !part.idle() && part.parent == -1;
  if (part.merge == Merge::kExact && group.shards > 1 && root) part.agreeing = group.shards;
  return part;
}

size_t ReducerPart::ChildAt(int node) const {
  const auto found = std::lower_bound(children.begin(), children.end(), node);
  RW_CHECK(found != children.end() && *found == node);
  return static_cast<size_t>(found - children.begin());
}

uint64_t ReducerPart::InboxBytes(size_t child) const {
  return MaxChunkBytes(CodecOf(child), elements, most_sent[child], chunks);
}
uint64_t ReducerPart::UpBytes() const {
  return MaxChunkBytes(codec.Exact(), elements, most_up, chunks);
}
uint64_t ReducerPart::DownBytes() const {
  return MaxChunkBytes(codec.Exact(), elements, most_down, chunks);
}

uint64_t ReducerPart::MemoryBytes() const {
  if (idle()) return 0;
  const auto number = static_cast<uint64_t>(chunks);
  uint64_t bytes = 0, total = 0, bits = 0;
  for (size_t c = 0; c < children.size(); ++c) {
    bytes += number * InboxBytes(c) + most_sent[c] * kEntryBytes;
    bits += AcceptedBytes(most_sent[c]);
    total += most_sent[c];
  }
  bytes += total * (kEntryBytes + sizeof(uint32_t));  // the sum, and its keys while it is cut
  // Two answers and two messages up: those of the last round may still be on their way out.
  bytes += 2 * (number * DownBytes() + bits);
  bytes += 2 * number * UpBytes() + most_up + AcceptedBytes(most_up);
  bytes += static_cast<uint64_t>(agreeing) *
           (GlobalCut::kBins * sizeof(uint32_t) + GlobalCut::kMaxPackedBytes);
  return bytes + kBlockElements * sizeof(float) + kBlockElements / 8;
}

uint64_t ReducerMemoryBound(const TreeShape& shape, int node,
                            const std::vector<SparseGroup>& groups) {
  uint64_t bytes = 0;
  for (const SparseGroup& group : groups) {
    for (const int shard : RangesOf(shape, node, group)) {
      const StatusOr<ReducerPart> part = PartOf(shape, node, group, shard);
      if (part.ok()) bytes += part->MemoryBytes();
    }
  }
  return bytes;
}

}  // namespace ringwood

// What one reducer node does for one range of a group: its place in the group's tree, and the
// bounds of every message, from the plan alone. Pure; the reducer runs it and admission asks it for
// memory.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "sparse/codec.h"
#include "sparse/group.h"
#include "sparse/tree.h"

namespace ringwood {

struct ReducerPart {
  uint32_t group = 0;
  TreeShape shape;  // with the group's ranges
  Codec codec;
  Merge merge = Merge::kGtopk;
  int shard = 0;
  int chunks = 1;            // of every message of entries
  uint64_t elements = 0;     // of the shard; its coordinates are those of all messages
  uint64_t keep = 0;         // entries that survive here at most (gtopk, exact)
  uint64_t keep_of_all = 0;  // entries of the result of all shards together
  int parent = -1;
  std::vector<int> children;        // in increasing order, in which they are added
  std::vector<bool> coarse;         // one a child: a worker, which sends the plan's codec
  std::vector<uint64_t> most_sent;  // one a child: entries at most
  uint64_t most_up = 0;             // entries that this node sends up at most
  uint64_t most_down = 0;           // entries of the result at most
  int agreeing = 0;  // exact and sharded, at a root: shards that agree on a threshold; else 0

  bool idle() const { return children.empty(); }
  size_t ChildAt(int node) const;           // its place among the children
  uint64_t InboxBytes(size_t child) const;  // of one chunk
  uint64_t UpBytes() const;                 // of one chunk
  uint64_t DownBytes() const;
  Codec CodecOf(size_t child) const { return coarse[child] ? codec : codec.Exact(); }
  uint64_t MemoryBytes() const;
};

// The ranges of the group that the node may serve; of a group that the plan has wrong the first.
std::vector<int> RangesOf(const TreeShape& shape, int node, const SparseGroup& group);

// An error names what the plan has wrong.
StatusOr<ReducerPart> PartOf(const TreeShape& shape, int node, const SparseGroup& group, int shard);

// Most bytes that a Reducer with these groups holds at any time; 0 for a node that has no children.
uint64_t ReducerMemoryBound(const TreeShape& shape, int node,
                            const std::vector<SparseGroup>& groups);

}  // namespace ringwood

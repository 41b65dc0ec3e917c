// One group of a plan for its sparse exchange: a value that workers and reducers derive alike from
// the plan, so that both know the tree, the index ranges and the bounds of every message.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "sparse/codec.h"
#include "sparse/tree.h"

namespace ringwood {

struct SparseGroup {
  uint32_t group = 0;  // its number in the plan
  uint64_t elements = 0;
  uint64_t k = 0;                      // entries that each worker sends at most
  std::string codec = "block16/fp32";  // workers to first reducer; above and down: its exact form
  // "gtopk": keep the largest of the sum, in each range its share; "union": keep all; "exact": as
  // gtopk, but the ranges agree on one threshold, so the result is that of one server.
  std::string merge = "gtopk";
  uint64_t keep = 0;  // entries of the result of gtopk and exact; 0: k
  int shards = 1;     // index ranges, each with a tree of its own (shard.h)
  int first = 0;      // the reducer that is the root of range 0 (assign.h)

  uint64_t result_entries() const { return keep == 0 ? k : keep; }
};

enum class Merge : uint8_t { kGtopk, kUnion, kExact };
StatusOr<Merge> ParseMerge(const std::string& name);

// The job's shape with the group's ranges; an error when they do not fit its reducers or elements.
StatusOr<TreeShape> ShapeOf(const TreeShape& job, const SparseGroup& group);

// Of every message of entries (chunks.h); 1 where workers exchange among themselves.
int ChunksOf(const TreeShape& shape, const SparseGroup& group, const Codec& codec);

}  // namespace ringwood

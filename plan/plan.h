// The plan: what is merged, which route it takes and how dense it is. A value: it prints, compares,
// hashes and crosses the wire (plan/wire.h); every worker checks the hash before it runs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringwood {

// What the planner and the coordinator know of a tensor. Order in a table = order in which backward
// makes the gradients (reverse order of registration where nothing was measured yet).
struct TensorSpec {
  std::string name;
  uint64_t elements = 0;
  std::string route = "auto";  // "dense" | "sparse" | "auto": what the user asked for
  double density = 0.01;       // the user's lower bound where the route is sparse
  uint32_t element_bytes = 4;  // of its dense sums: 4 (float32) or 2 (bfloat16)
  bool operator==(const TensorSpec&) const = default;
};

// The codec of a ring's group of bfloat16 tensors: their sums travel as bfloat16.
constexpr const char* kOwnType = "native";

// How many groups of a route a job runs at once. In every hop the messages are on their way for the
// network's delay. A lane that began its next group only after that would be idle meanwhile: with a
// long delay for most of a step, with a short one for next to nothing. More groups go up the trees
// at once, because they are short and mostly wait.
constexpr int kRingsAtOnce = 4;
constexpr int kTreesAtOnce = 16;

struct Group {
  std::vector<uint32_t> tensors;  // indices into the table, in ready order
  std::string route;              // "ring" (dense) | "tree" (sparse); a name, not a boolean
  double density = 1;             // k/n up the tree; 1 on a ring
  // tree: what the density warm-up ends with (plan/warm_up.h); 0: density
  double final_density = 0;
  uint64_t k = 0;  // entries each worker sends: sum of EntriesOf over its tensors; 0 on a ring
  // ring: "fp32", "bf16", "int8", …, and kOwnType for tensors that are bfloat16; tree:
  // "block16/fp32", …
  std::string codec = "fp32";
  std::string merge = "gtopk";  // tree: "gtopk" | "union" | "exact"
  double keep = 1;              // gtopk and exact: entries of the result, as a multiple of k
  double start_seconds = 0;     // predicted, from the start of backward
  double end_seconds = 0;
  std::string reason = {};  // "merged: waiting 0.3 ms saves a 0.9 ms start-up"
  bool operator==(const Group&) const = default;
};

struct Plan {
  std::string planner;           // name of the strategy
  std::vector<Group> groups;     // in the order in which each lane runs them
  uint32_t fanout = 8;           // children of a reducer
  double predicted_seconds = 0;  // iteration: forward + end of the last group
  bool operator==(const Plan&) const = default;
};

// Entries selected from a tensor: round(density * elements), at least 1, at most elements.
uint64_t EntriesOf(double density, uint64_t elements);

// Bytes of the tensors at `indices` of the table, as they are: what a ring without codec sends.
double DenseBytes(const std::vector<TensorSpec>& table, const std::vector<uint32_t>& indices);

// Covers everything that changes bytes on the wire or results (not predictions and reasons).
uint64_t Hash(const Plan& plan);

// A table for people, one line a group.
std::string ToString(const Plan& plan, const std::vector<TensorSpec>& tensors);

}  // namespace ringwood

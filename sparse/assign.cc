#include "sparse/assign.h"

#include <algorithm>

#include "sparse/shard.h"

namespace ringwood {
namespace {

// Of one group with `first` = 0. A worker's entries are taken as spread evenly over the ranges.
std::vector<uint64_t> LoadOf(const TreeShape& job, const SparseGroup& group) {
  TreeShape shape = job;
  shape.shards = group.shards;
  shape.first = 0;
  std::vector<uint64_t> load(job.reducers, 0);
  for (int s = 0; s < group.shards; ++s) {
    const Tree tree(shape, s);
    for (int r = 0; r < job.reducers; ++r) {
      load[r] += tree.children(job.workers + r).size() * (group.k / group.shards + 1);
    }
  }
  return load;
}

uint64_t Busiest(const std::vector<uint64_t>& sum, const std::vector<uint64_t>& load, int first) {
  uint64_t most = 0;
  for (size_t r = 0; r < load.size(); ++r) {
    most = std::max(most, sum[(r + first) % load.size()] + load[r]);
  }
  return most;
}

void Add(const std::vector<uint64_t>& load, int first, std::vector<uint64_t>* sum) {
  for (size_t r = 0; r < load.size(); ++r) (*sum)[(r + first) % load.size()] += load[r];
}

}  // namespace

void Assign(const TreeShape& job, std::vector<SparseGroup>* groups) {
  std::vector<uint64_t> sum(job.reducers, 0);
  for (SparseGroup& group : *groups) {
    group.shards = ShardCount(job.reducers, group.elements, group.k);
    group.first = 0;
    const std::vector<uint64_t> load = LoadOf(job, group);
    for (int first = 1; first < job.reducers; ++first) {
      if (Busiest(sum, load, first) < Busiest(sum, load, group.first)) group.first = first;
    }
    Add(load, group.first, &sum);
  }
}

std::vector<uint64_t> EntriesReceived(const TreeShape& job,
                                      const std::vector<SparseGroup>& groups) {
  std::vector<uint64_t> sum(job.reducers, 0);
  for (const SparseGroup& group : groups) Add(LoadOf(job, group), group.first, &sum);
  return sum;
}

}  // namespace ringwood

#include "sparse/assign.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sparse/shard.h"

namespace ringwood {
namespace {

// Of one group that begins at `first`. A worker's entries are taken as spread evenly over the
// ranges.
std::vector<uint64_t> LoadOf(const TreeShape& job, const SparseGroup& group, int first) {
  TreeShape shape = job;
  shape.shards = group.shards;
  shape.first = first;
  std::vector<uint64_t> load(job.reducers, 0);
  for (int s = 0; s < group.shards; ++s) {
    const Tree tree(shape, s);
    for (int r = 0; r < job.reducers; ++r) {
      load[r] += tree.children(job.workers + r).size() * (group.k / group.shards + 1);
    }
  }
  return load;
}

// The loads of a job's groups, for every reducer that they may begin at.
class Loads {
 public:
  explicit Loads(const TreeShape& job) : job_(job), gathers_(Gathers(job)) {}

  // Where no host gathers, trees that begin at another reducer are the same, with reducers
  // renumbered.
  std::vector<uint64_t> Of(const SparseGroup& group, int first) {
    if (gathers_) return Kept(group, first);
    std::vector<uint64_t> load = Kept(group, 0);
    std::rotate(load.begin(), load.end() - first, load.end());
    return load;
  }

 private:
  // Groups with the same numbers of entries and ranges have the same load.
  const std::vector<uint64_t>& Kept(const SparseGroup& group, int first) {
    std::vector<uint64_t>& load = kept_[{group.shards, group.k, first}];
    if (load.empty()) load = LoadOf(job_, group, first);
    return load;
  }

  const TreeShape& job_;
  const bool gathers_;
  std::map<std::tuple<int, uint64_t, int>, std::vector<uint64_t>> kept_;
};

uint64_t Busiest(const std::vector<uint64_t>& sum, const std::vector<uint64_t>& load) {
  uint64_t most = 0;
  for (size_t r = 0; r < load.size(); ++r) most = std::max(most, sum[r] + load[r]);
  return most;
}

void Add(const std::vector<uint64_t>& load, std::vector<uint64_t>* sum) {
  for (size_t r = 0; r < load.size(); ++r) (*sum)[r] += load[r];
}

}  // namespace

void Assign(const TreeShape& job, std::vector<SparseGroup>* groups) {
  std::vector<uint64_t> sum(job.reducers, 0);
  Loads loads(job);
  for (SparseGroup& group : *groups) {
    group.shards = ShardCount(job.reducers, group.elements, group.k);
    group.first = 0;
    uint64_t least = Busiest(sum, loads.Of(group, 0));
    for (int first = 1; first < job.reducers; ++first) {
      const uint64_t busiest = Busiest(sum, loads.Of(group, first));
      if (busiest >= least) continue;
      least = busiest;
      group.first = first;
    }
    Add(loads.Of(group, group.first), &sum);
  }
}

}  // namespace ringwood

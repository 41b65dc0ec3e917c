// The whole sparse engine of a job, over a network that reorders; each round is checked: the mass,
// the agreement of the ranks, and the result against plain recursion over maps and full sorts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "sparse/climb.h"
#include "sparse/merge.h"
#include "sparse/reducer/reducer.h"
#include "sparse/select.h"
#include "sparse/sparse_tensor.h"
#include "tests/sparse/samples.h"
#include "tests/sparse/shuffled_network.h"

namespace ringwood {

struct SparseJob {
  TreeShape shape;
  std::string merge = "gtopk";
  std::string codec = "block16/fp32";
  uint64_t elements = 100;
  SparseOptions options = {};
  Pattern pattern = Pattern::kRandom;
  uint64_t seed = 1;
  int shards = 1;
  int first = 0;      // reducer
  uint64_t keep = 0;  // 0: k
};

inline SparseGroup GroupOf(const SparseJob& job) {
  return {0, job.elements, job.options.k, job.codec, job.merge, job.keep, job.shards, job.first};
}

// The `most` first of the order, by a full sort; zeros too.
inline Entries PlainKeep(const Entries& sum, uint64_t most) {
  std::vector<size_t> order(sum.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return KeyOf(sum.value[a]) > KeyOf(sum.value[b]); });
  order.resize(std::min<uint64_t>(most, order.size()));
  std::sort(order.begin(), order.end());
  Entries kept;
  for (size_t i : order) kept.push_back(sum.index[i], sum.value[i]);
  return kept;
}

// What one range's tree must give, by plain recursion over maps and full sorts.
inline Entries PlainRange(const Tree& tree, int node, uint64_t most,
                          const std::vector<Entries>& ups) {
  if (tree.children(node).empty()) return ups[node];
  std::vector<Entries> children;
  for (int child : tree.children(node)) children.push_back(PlainRange(tree, child, most, ups));
  return PlainKeep(MergeSumPlain(children), most);
}

// And all ranges together: "exact" cuts the roots' sums as one.
inline Entries PlainResult(const SparseJob& job, const std::vector<Entries>& ups) {
  const SparseGroup group = GroupOf(job);
  const TreeShape shape = *ShapeOf(job.shape, group);
  const bool exact = job.merge == "exact";
  Entries result;
  const std::vector<Shard> ranges = ShardsOf(job.elements, group.result_entries(), group.shards);
  for (int s = 0; s < group.shards; ++s) {
    std::vector<Entries> cut;
    for (const Entries& up : ups) cut.push_back(CutOut(up, ranges[s]));
    const Tree tree(shape, s);
    const int root = RootOf(shape, s);
    uint64_t most = job.merge == "union" ? job.elements : ranges[s].quota;
    if (exact) most = group.result_entries();
    if (!exact || group.shards == 1) {
      PutBack(PlainRange(tree, root, most, cut), ranges[s], &result);
      continue;
    }
    std::vector<Entries> children;
    for (int child : tree.children(root)) children.push_back(PlainRange(tree, child, most, cut));
    PutBack(MergeSumPlain(children), ranges[s], &result);
  }
  return exact ? PlainKeep(result, group.result_entries()) : result;
}

// All nodes of a job in this thread.
class Cluster {
 public:
  explicit Cluster(const SparseJob& job)
      : job_(job), network_(job.shape.workers + job.shape.reducers, job.seed) {
    for (int w = 0; w < job.shape.workers; ++w) {
      tensors_.push_back(std::make_unique<SparseTensor>(job.elements, job.options));
    }
    for (int r = 0; r < job.shape.reducers; ++r) {
      const int node = job.shape.workers + r;
      reducers_.push_back(std::make_unique<Reducer>(
          network_.at(node), job.shape, node, std::vector<SparseGroup>{GroupOf(job)},
          [this](Status status) { errors_.push_back(Message(status)); }));
      reducers_.back()->Start(1);
    }
  }

  ~Cluster() {
    reducers_.clear();
    for (int node = 0; node < job_.shape.workers + job_.shape.reducers; ++node) {
      network_.at(node)->Close(Aborted("the test is over"));
    }
  }

  // One round; checks the mass, the agreement of the ranks and the plain result.
  void Step(uint64_t round) {
    std::vector<double> before = Mass();
    ups_.clear();
    descents_.assign(job_.shape.workers, Descent{});
    int answered = 0;
    for (int w = 0; w < job_.shape.workers; ++w) {
      const auto gradient = MakeGradient(job_.pattern, job_.elements, w, job_.seed * 100 + round);
      for (uint64_t i = 0; i < job_.elements; ++i) {
        before[i] += gradient[i] - (1 - job_.options.decay) * tensors_[w]->residual()[i];
      }
      ASSERT_EQ(tensors_[w]->Accumulate(gradient, 1), 0u);
      const StatusOr<Climb> climb = Climb::Of(job_.shape, w, GroupOf(job_));
      ASSERT_TRUE(climb.ok()) << Message(climb.status());
      Entries up = tensors_[w]->picks();
      climb->Round(&up);
      tensors_[w]->SetSent(up.value);
      ups_.push_back(std::move(up));
      climb->Start(network_.at(w), round, ups_.back(), [&, w](StatusOr<Descent> descent) {
        ASSERT_TRUE(descent.ok()) << Message(descent.status());
        descents_[w] = *std::move(descent);
        ++answered;
      });
    }
    network_.Run();
    ASSERT_EQ(errors_, std::vector<std::string>{});
    ASSERT_EQ(answered, job_.shape.workers);
    for (int w = 0; w < job_.shape.workers; ++w) {
      ASSERT_EQ(descents_[w].result, descents_[0].result);
      tensors_[w]->Commit(descents_[w].accepted);
    }
    std::vector<double> after = Mass();
    const Entries& result = descents_[0].result;
    for (size_t j = 0; j < result.size(); ++j) after[result.index[j]] += result.value[j];
    for (uint64_t i = 0; i < job_.elements; ++i) ASSERT_EQ(before[i], after[i]) << "element " << i;
    if (job_.shape.workers > 1 && job_.shape.reducers > 0) {
      ASSERT_EQ(result, PlainResult(job_, ups_));
    }
  }

  const std::vector<Entries>& ups() const { return ups_; }
  const Entries& result() const { return descents_[0].result; }
  SparseTensor& tensor(int worker) { return *tensors_[worker]; }
  ShuffledNetwork& network() { return network_; }

 private:
  std::vector<double> Mass() const {
    std::vector<double> mass(job_.elements, 0);
    for (const auto& tensor : tensors_) {
      for (uint64_t i = 0; i < job_.elements; ++i) mass[i] += tensor->residual()[i];
    }
    return mass;
  }

  const SparseJob job_;
  ShuffledNetwork network_;
  std::vector<std::unique_ptr<SparseTensor>> tensors_;
  std::vector<std::unique_ptr<Reducer>> reducers_;
  std::vector<Entries> ups_;
  std::vector<Descent> descents_;
  std::vector<std::string> errors_;
};

}  // namespace ringwood

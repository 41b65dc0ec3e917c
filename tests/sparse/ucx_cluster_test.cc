// The whole sparse engine over the real data plane: every node a thread with a UCX worker of its
// own on loopback.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "sparse/assign.h"
#include "sparse/chunks.h"
#include "sparse/climb.h"
#include "sparse/reducer/reducer.h"
#include "sparse/sparse_tensor.h"
#include "tests/sparse/samples.h"
#include "tests/transport/world.h"

namespace ringwood {
namespace {

constexpr TreeShape kShape{4, 2, 8};
constexpr uint64_t kClusterElements = 4 * kBlockElements + 777;
constexpr uint64_t kClusterEntries = 5 * kChunkEntries;  // two chunks a range

class UcxCluster {
 public:
  UcxCluster(const std::string& merge, const std::string& codec)
      : world_(Kind::kUcx, kShape.workers + kShape.reducers), reducers_(kShape.reducers) {
    std::vector<SparseGroup> groups = {{0, kClusterElements, kClusterEntries, codec, merge}};
    Assign(kShape, &groups);
    group_ = groups[0];
    for (int w = 0; w < kShape.workers; ++w) {
      tensors_.push_back(
          std::make_unique<SparseTensor>(kClusterElements, SparseOptions{kClusterEntries}));
      climbs_.push_back(*Climb::Of(kShape, w, group_));
    }
    for (int r = 0; r < kShape.reducers; ++r) {
      const int node = kShape.workers + r;
      world_.Run(node, [&, node, r] {
        reducers_[r] =
            std::make_unique<Reducer>(world_.transport(node), kShape, node, groups,
                                      [](Status status) { ADD_FAILURE() << Message(status); });
        reducers_[r]->Start(1);
      });
    }
  }

  ~UcxCluster() {
    for (int r = 0; r < kShape.reducers; ++r) {
      world_.Run(kShape.workers + r, [&, r] { reducers_[r].reset(); });
    }
  }

  int shards() const { return group_.shards; }

  // One round; the mass and the agreement of the workers are checked. Its result.
  Entries Step(uint64_t round) {
    std::vector<double> before = Mass();
    std::vector<Entries> ups;
    for (int w = 0; w < kShape.workers; ++w) {
      const auto gradient = MakeGradient(Pattern::kRandom, kClusterElements, w, round);
      for (uint64_t i = 0; i < kClusterElements; ++i) before[i] += gradient[i];
      tensors_[w]->Accumulate(gradient, 1);
      ups.push_back(tensors_[w]->picks());
      climbs_[w].Round(&ups[w]);
      tensors_[w]->SetSent(ups[w].value);
    }
    std::vector<Descent> descents(kShape.workers);
    world_.RunAll([&](int node, std::function<void()> done) {
      if (node >= kShape.workers) return done();
      climbs_[node].Start(world_.transport(node), round, ups[node],
                          [&descents, node, done](StatusOr<Descent> descent) {
                            EXPECT_TRUE(descent.ok()) << Message(descent.status());
                            if (descent.ok()) descents[node] = *std::move(descent);
                            done();
                          });
    });
    for (int w = 0; w < kShape.workers; ++w) {
      EXPECT_EQ(descents[w].result, descents[0].result);
      tensors_[w]->Commit(descents[w].accepted);
    }
    std::vector<double> after = Mass();
    const Entries& result = descents[0].result;
    for (size_t j = 0; j < result.size(); ++j) after[result.index[j]] += result.value[j];
    EXPECT_EQ(before, after);
    return result;
  }

 private:
  std::vector<double> Mass() const {
    std::vector<double> mass(kClusterElements, 0);
    for (const auto& tensor : tensors_) {
      for (uint64_t i = 0; i < kClusterElements; ++i) mass[i] += tensor->residual()[i];
    }
    return mass;
  }

  World world_;
  SparseGroup group_;
  std::vector<std::unique_ptr<SparseTensor>> tensors_;
  std::vector<Climb> climbs_;
  std::vector<std::unique_ptr<Reducer>> reducers_;
};

TEST(UcxCluster, NothingIsLostForEachMergeAndCodec) {
  struct Case {
    const char* merge;
    const char* codec;
    bool cut;
  };
  for (const Case& c : {Case{"gtopk", "block16/fp32", true}, Case{"union", "rice/bf16", false},
                        Case{"exact", "rice/int8", true}, Case{"gtopk", "block16/int4", true}}) {
    SCOPED_TRACE(testing::Message() << c.merge << " " << c.codec);
    UcxCluster cluster(c.merge, c.codec);
    ASSERT_EQ(cluster.shards(), 2);
    for (uint64_t round = 1; round <= 3; ++round) {
      const Entries result = cluster.Step(round);
      if (c.cut) {
        EXPECT_EQ(result.size(), kClusterEntries);
      } else {
        EXPECT_GT(result.size(), kClusterEntries);
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace ringwood

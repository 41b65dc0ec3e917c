// The whole sparse engine together: P workers, reducers, a network that reorders; nothing is lost.
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "sparse/chunks.h"
#include "sparse/climb.h"
#include "sparse/codec.h"
#include "sparse/merge.h"
#include "sparse/reducer/reducer.h"
#include "sparse/select.h"
#include "sparse/sparse_tensor.h"
#include "tests/sparse/cluster.h"
#include "tests/sparse/samples.h"
#include "tests/sparse/shuffled_network.h"

namespace ringwood {
namespace {

TEST(Mass, NothingIsLostForAnyWorldServersFanOutAndPattern) {
  for (int workers = 1; workers <= 17; ++workers) {
    for (int servers = 0; servers <= 5; ++servers) {
      for (int fanout : {2, 3, 4, 8}) {
        for (const char* merge : {"gtopk", "union"}) {
          for (int pattern = 0; pattern < static_cast<int>(Pattern::kCount); ++pattern) {
            SparseJob job{{workers, servers, fanout}, merge};
            job.pattern = static_cast<Pattern>(pattern);
            job.elements = 60;
            job.options.k = 1 + (workers + pattern) % 7;
            job.seed = workers * 100 + servers * 10 + fanout;
            SCOPED_TRACE(testing::Message()
                         << workers << " workers " << servers << " servers fan-out " << fanout
                         << " " << merge << " pattern " << pattern);
            Cluster cluster(job);
            for (uint64_t round = 1; round <= 3; ++round) cluster.Step(round);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(Mass, NothingIsLostWhenIndexRangesHaveTreesOfTheirOwn) {
  for (int workers : {1, 2, 3, 8, 17}) {
    for (int servers : {2, 3, 5}) {
      for (const char* merge : {"gtopk", "union", "exact"}) {
        SparseJob job{{workers, servers, 2 + workers % 3}, merge};
        job.shards = workers % 2 == 0 ? 2 : servers;
        job.first = workers % servers;
        job.elements = (job.shards + 1) * kBlockElements - 1000;
        job.options.k = 1 + workers * 10;
        job.pattern = static_cast<Pattern>((workers + servers) % static_cast<int>(Pattern::kCount));
        job.seed = workers * 10 + servers;
        SCOPED_TRACE(testing::Message() << workers << " workers " << servers << " servers "
                                        << job.shards << " shards " << merge);
        Cluster cluster(job);
        for (uint64_t round = 1; round <= 2; ++round) cluster.Step(round);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// Two or three workers a host, a server on each or on some.
TEST(Mass, NothingIsLostWhereHostsGather) {
  for (int workers : {3, 4, 6, 9}) {
    for (int servers : {2, 3}) {
      for (const char* merge : {"gtopk", "union", "exact"}) {
        for (const uint64_t keep : {0, 50}) {
          SparseJob job{{workers, servers, 8}, merge, workers == 4 ? "rice/int4" : "block16/fp32"};
          const int ranks = 2 + workers % 2;
          for (int w = 0; w < workers; ++w) job.shape.hosts.push_back(w / ranks);
          for (int s = 0; s < servers; ++s) job.shape.hosts.push_back(s);
          ASSERT_TRUE(Gathers(job.shape));
          job.shards = servers;
          job.first = workers % servers;
          job.elements = (servers + 1) * kBlockElements - 1000;
          job.options.k = 1 + workers * 10;
          job.keep = keep;
          job.pattern = static_cast<Pattern>(workers % static_cast<int>(Pattern::kCount));
          job.seed = workers * 10 + servers;
          SCOPED_TRACE(testing::Message() << workers << " workers " << servers << " servers "
                                          << merge << " keep " << keep);
          Cluster cluster(job);
          for (uint64_t round = 1; round <= 2; ++round) cluster.Step(round);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Traffic, EachSenderBeginsWithAnotherReceiver) {
  SparseJob job{{3, 3, 8}};
  job.shards = 3;
  job.elements = 3 * kBlockElements;
  job.options.k = 1000;
  Cluster cluster(job);
  cluster.Step(1);
  std::set<int> servers, workers;
  for (int node = 0; node < 3; ++node) servers.insert(cluster.network().receivers(node).at(0));
  for (int node = 3; node < 6; ++node) workers.insert(cluster.network().receivers(node).at(0));
  EXPECT_EQ(servers, (std::set<int>{3, 4, 5}));
  EXPECT_EQ(workers, (std::set<int>{0, 1, 2}));
}

TEST(Mass, HoldsToTheBitWithCoarseValuesWhenSharded) {
  for (const char* codec : {"block16/bf16", "rice/int8", "rice/int4", "rice/int2"}) {
    SparseJob job{{5, 3, 8}, "exact", codec};
    job.shards = 3;
    job.elements = 3 * kBlockElements;
    job.options.k = 700;
    Cluster cluster(job);
    for (uint64_t round = 1; round <= 3; ++round) cluster.Step(round);
  }
}

TEST(Mass, HoldsWhenTheResultHasAnotherNumberOfEntriesThanAWorkerSends) {
  for (uint64_t keep : {3, 40}) {
    for (const char* merge : {"gtopk", "exact"}) {
      for (int servers : {0, 1, 3}) {
        SparseJob job{{6, servers, 3}, merge};
        job.options.k = 11;
        job.keep = keep;
        Cluster cluster(job);
        cluster.Step(1);
        EXPECT_EQ(cluster.result().size(), keep);
        for (uint64_t round = 2; round <= 3; ++round) cluster.Step(round);
      }
    }
  }
}

TEST(Mass, HoldsAcrossBlocksOf65536) {
  SparseJob job{{5, 3, 2}};
  job.elements = 200000;
  job.options.k = 3000;
  Cluster cluster(job);
  for (uint64_t round = 1; round <= 3; ++round) cluster.Step(round);
}

TEST(Mass, HoldsWhenMessagesTravelInChunks) {
  for (const char* codec : {"block16/fp32", "rice/int4"}) {
    for (const char* merge : {"gtopk", "union", "exact"}) {
      SparseJob job{{4, 3, 2}, merge, codec};
      job.elements = 2 * kBlockElements + 5000;
      job.options.k = 4 * kChunkEntries + 17;
      job.shards = std::string(merge) == "exact" ? 2 : 1;
      SCOPED_TRACE(testing::Message() << codec << " " << merge);
      Cluster cluster(job);
      cluster.Step(1);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Mass, HoldsWhenTheLastChunkIsShorterThanAPowerOfTwo) {
  for (const char* merge : {"gtopk", "union", "exact"}) {
    for (int servers : {0, 1, 3}) {
      SparseJob job{{2, servers, 2}, merge, "rice/fp32"};
      job.elements = 4'200'000;
      job.options.k = 16748;  // chunks of 8448 and 8300 entries, with a mean gap of 512 between
      SCOPED_TRACE(testing::Message() << merge << " " << servers << " servers");
      Cluster cluster(job);
      cluster.Step(1);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Mass, HoldsToTheBitWithValuesThatRoundBecauseTheWorkerKeepsTheError) {
  for (const char* value : {"bf16", "int8", "int4", "int2"}) {
    for (const char* merge : {"gtopk", "union"}) {
      for (int servers : {0, 1, 4}) {
        SparseJob job{{7, servers, 3}, merge, std::string("rice/") + value};
        job.elements = 1000;
        job.options.k = 90;
        SCOPED_TRACE(testing::Message() << value << " " << merge << " " << servers);
        Cluster cluster(job);
        for (uint64_t round = 1; round <= 4; ++round) cluster.Step(round);
      }
    }
  }
}

TEST(Mass, HoldsToTheBitWithCoarseValuesInAllWorldsUpTo33) {
  for (int workers = 1; workers <= 33; ++workers) {
    for (const char* value : {"int8", "int4", "int2"}) {
      SparseJob job{{workers, 1 + workers % 4, 2 + workers % 5},
                    workers % 2 == 0 ? "gtopk" : "union",
                    std::string("rice/") + value};
      job.elements = 500;
      job.options.k = 70;
      job.seed = static_cast<uint64_t>(workers);
      SCOPED_TRACE(testing::Message() << value << " " << workers << " workers");
      Cluster cluster(job);
      for (uint64_t round = 1; round <= 3; ++round) cluster.Step(round);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Mass, HoldsWhenEachChunkIsSelectedByItself) {
  SparseJob job{{6, 3, 2}};
  job.elements = 1000;
  job.options = {37, 0, 1, 64};
  Cluster cluster(job);
  for (uint64_t round = 1; round <= 3; ++round) cluster.Step(round);
}

TEST(Mass, HoldsWithEveryMethodOfSelection) {
  for (const char* name : {"exact", "threshold", "gaussian"}) {
    for (int pattern = 0; pattern < static_cast<int>(Pattern::kCount); ++pattern) {
      SparseJob job{{6, 3, 2}, "gtopk", pattern % 2 == 0 ? "block16/fp32" : "rice/int8"};
      job.elements = 1000;
      job.options.k = 60;
      job.options.method = *ParseMethod(name);
      job.pattern = static_cast<Pattern>(pattern);
      SCOPED_TRACE(testing::Message() << name << " pattern " << pattern);
      Cluster cluster(job);
      for (uint64_t round = 1; round <= 5; ++round) cluster.Step(round);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Mass, HoldsWhenTheResidualDecays) {
  SparseJob job{{6, 2, 8}};
  job.options = {5, 0,
                 0.5f};  // halves of integers of this size are exact for the rounds of the test
  Cluster cluster(job);
  for (uint64_t round = 1; round <= 3; ++round) cluster.Step(round);
}

TEST(Gtopk, WithOneServerIsTheKLargestOfTheTrueSumOverTheUnionOfPicks) {
  for (int workers = 2; workers <= 17; ++workers) {
    SparseJob job{{workers, 1, 8}};
    job.options.k = 8;
    job.seed = workers;
    Cluster cluster(job);
    cluster.Step(1);
    std::vector<float> dense(job.elements, 0);
    for (const Entries& up : cluster.ups()) {
      for (size_t j = 0; j < up.size(); ++j) dense[up.index[j]] += up.value[j];
    }
    EXPECT_EQ(cluster.result(), SelectPlain(dense, job.options.k));
  }
}

TEST(Exact, ShardedOverAllServersGivesWhatOneServerGives) {
  for (int pattern = 0; pattern < static_cast<int>(Pattern::kCount); ++pattern) {
    SparseJob job{{6, 4, 8}, "exact"};
    job.pattern = static_cast<Pattern>(pattern);
    job.shards = 4;
    job.elements = 4 * kBlockElements;
    job.options.k = 500;
    Cluster sharded(job);
    sharded.Step(1);
    job.shape.reducers = job.shards = 1;
    Cluster single(job);
    single.Step(1);
    EXPECT_EQ(sharded.result(), single.result()) << "pattern " << pattern;
  }
}

// gTop-k as published: pairs merge and cut; rank 0's k are everyone's; a worker puts its picks back
// whose indices are not among them, and clears those that are. Returns applied + residuals.
std::vector<double> PublishedScheme(std::vector<std::vector<float>> acc, uint64_t k) {
  std::vector<Entries> picks;
  for (auto& values : acc) picks.push_back(SelectPlain(values, k));
  std::vector<Entries> level = picks;
  while (level.size() > 1) {
    std::vector<Entries> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) {
      next.push_back(MergeSumPlain(std::vector<Entries>{level[i], level[i + 1]}));
      KeepLargest(k, &next.back());
    }
    level = next;
  }
  std::vector<double> mass(acc[0].size(), 0);
  for (size_t w = 0; w < acc.size(); ++w) {
    const auto in_result = AcceptedOf(picks[w].index, level[0].index);
    for (size_t j = 0; j < picks[w].size(); ++j) {
      if (in_result[j] != 0) acc[w][picks[w].index[j]] = 0;
    }
    for (size_t i = 0; i < mass.size(); ++i) mass[i] += acc[w][i];
  }
  for (size_t j = 0; j < level[0].size(); ++j) mass[level[0].index[j]] += level[0].value[j];
  return mass;
}

TEST(Gtopk, ThePublishedSchemeLosesMassWhereOursDoesNot) {
  // Worker 1's 9 at index 1 falls to worker 0's 10 in their pair; index 1 wins through the other
  // pair; so worker 1 clears a value that nobody applied.
  const std::vector<std::vector<float>> acc = {{10, 0}, {0, 9}, {0, 20}, {0, 20}};
  const std::vector<double> published = PublishedScheme(acc, 1);
  EXPECT_EQ(published, (std::vector<double>{10, 40}));  // 49 went in

  const TreeShape shape{4, 3, 2};
  ASSERT_EQ(Tree(shape).children(5), (std::vector<int>{0, 1}));
  ShuffledNetwork network(7, 1);
  std::vector<std::unique_ptr<Reducer>> reducers;
  for (int node = 4; node < 7; ++node) {
    reducers.push_back(std::make_unique<Reducer>(
        network.at(node), shape, node, std::vector<SparseGroup>{{0, 2, 1, "block16/fp32", "gtopk"}},
        [](Status status) { ADD_FAILURE() << Message(status); }));
    reducers.back()->Start(0);
  }
  std::vector<double> mass(2, 0);
  for (int w = 0; w < 4; ++w) {
    const Entries up = SelectPlain(acc[w], 1);
    const Climb climb = *Climb::Of(shape, w, {0, 2, 1, "block16/fp32", "gtopk"});
    climb.Start(network.at(w), 0, up, [&, w, up](StatusOr<Descent> descent) {
      ASSERT_TRUE(descent.ok());
      EXPECT_EQ(descent->result.index, (std::vector<uint32_t>{1}));
      if (w == 0) mass[1] += descent->result.value[0];
      if (descent->accepted[0] == 0) mass[up.index[0]] += up.value[0];
    });
  }
  network.Run();
  EXPECT_EQ(mass, (std::vector<double>{10, 49}));
  reducers.clear();
  for (int node = 4; node < 7; ++node) network.at(node)->Close(Aborted("the test is over"));
}

TEST(Reducer, StopsWithAnErrorThatNamesTheNodeWhenAChildSendsGarbage) {
  ShuffledNetwork network(3, 1);
  const TreeShape shape{2, 1, 8};
  Status failure;
  Reducer reducer(network.at(2), shape, 2, {{4, 1000, 10, "block16/fp32", "gtopk"}},
                  [&](Status status) { failure = status; });
  reducer.Start(1);
  const std::vector<std::byte> garbage(20, std::byte{0xff});
  network.at(0)->Send(2, {Lane::kSparse, 1, 4, 0, 0}, {1, 0x11, 3}, garbage, [](Status) {});
  network.Run();
  ASSERT_FALSE(failure.ok());
  EXPECT_NE(Message(failure).find("from node 0"), std::string::npos) << Message(failure);
  EXPECT_NE(Message(failure).find("group 4"), std::string::npos);
  network.at(2)->Close(Aborted("over"));
}

TEST(Reducer, MayBeDestroyedWhileTheTransportStillOwesItAnswers) {
  ShuffledNetwork network(3, 1);
  const TreeShape shape{2, 1, 8};
  int failures = 0;
  auto reducer = std::make_unique<Reducer>(
      network.at(2), shape, 2, std::vector<SparseGroup>{{0, 1000, 10, "block16/fp32", "gtopk"}},
      [&](Status) { ++failures; });
  reducer->Start(1);
  StatusOr<Descent> heard = Internal("nothing yet");
  const Climb climb = *Climb::Of(shape, 0, {0, 1000, 10, "block16/fp32", "gtopk"});
  climb.Start(network.at(0), 1, RandomEntries(1000, 10, 1),
              [&](StatusOr<Descent> descent) { heard = std::move(descent); });
  network.Run();
  reducer.reset();
  network.at(2)->Close(Unavailable("node 2 left"));
  network.at(0)->Close(Unavailable("the epoch ended"));
  network.Run();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(heard.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(Message(heard.status()).find("round 1"), std::string::npos);
}

}  // namespace
}  // namespace ringwood

// Sessions with bf16 on the wire of dense groups: what is rounded away is kept, and only commit
// makes it real.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/digest.h"
#include "base/random.h"
#include "client/session.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

constexpr size_t kElements = 100'000;  // long enough for a ring

// Multiples of 1/16 below 2^11: with bf16's errors, sums of a few are exact in fp32.
void Fill(Random& random, std::vector<float>* gradient) {
  for (float& value : *gradient) value = static_cast<float>(random.Below(1 << 16)) / 16 - 2048;
}

std::vector<float> ResidualOf(const Session& session, const Gradient& gradient) {
  std::vector<float> residual(gradient.data.size());
  EXPECT_TRUE(session.Residual(gradient.id, residual).ok());
  return residual;
}

bool Step(Session& session, const Gradient& gradient) {
  return session.Ready(gradient.id).ok() && session.FinishStep().ok();
}

TEST(Wire, WhatWasAppliedAndTheErrorsMakeWhatCameInExactly) {
  for (int world : {1, 2, 4, 8}) {  // averages that divide without rounding
    std::vector<std::vector<double>> in(world, std::vector<double>(kElements, 0.0));
    std::vector<std::vector<float>> left(world);
    std::vector<double> applied(kElements, 0.0);
    RunJob({.world = world, .wire = "bf16"}, [&](Session& session, GatheringCoordinator&) {
      const int rank = session.rank();
      Gradient gradient(session, "w", kElements, "dense");
      Random random(rank);
      for (int step = 0; step < 3; ++step) {
        Fill(random, &gradient.data);
        for (size_t i = 0; i < kElements; ++i) in[rank][i] += gradient.data[i];
        ASSERT_TRUE(Step(session, gradient));
        if (rank != 0) continue;
        for (size_t i = 0; i < kElements; ++i) applied[i] += double{gradient.data[i]} * world;
      }
      left[rank] = ResidualOf(session, gradient);
      EXPECT_TRUE(session.Close("").ok());
    });
    for (size_t i = 0; i < kElements; ++i) {
      double came = 0, kept = 0;
      for (int r = 0; r < world; ++r) {
        came += in[r][i];
        kept += left[r][i];
      }
      ASSERT_EQ(came, applied[i] + kept) << "world " << world << " element " << i;
    }
    const bool rounded =
        std::any_of(left[0].begin(), left[0].end(), [](float e) { return e != 0; });
    EXPECT_EQ(rounded, world > 1);
  }
}

TEST(Wire, HalfOfTheBytesTravel) {
  RunJob({.world = 2, .wire = "bf16"}, [](Session& session, GatheringCoordinator&) {
    Gradient gradient(session, "w", kElements, "dense");
    ASSERT_TRUE(session.Ready(gradient.id).ok());
    const auto result = session.FinishStep();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->dense_bytes * 2, result->dense_equivalent_bytes);
    EXPECT_TRUE(session.Close("").ok());
  });
}

TEST(Wire, ASkippedStepLeavesTheErrorsAsTheyWere) {
  RunJob({.world = 2, .wire = "bf16"}, [](Session& session, GatheringCoordinator&) {
    Gradient gradient(session, "w", kElements, "dense");
    Random random(session.rank());
    Fill(random, &gradient.data);
    ASSERT_TRUE(Step(session, gradient));
    const auto before = ResidualOf(session, gradient);
    // Finite everywhere, but the rounded sum is not.
    std::fill(gradient.data.begin(), gradient.data.end(), std::numeric_limits<float>::max() / 2);
    ASSERT_TRUE(session.Ready(gradient.id).ok());
    const auto result = session.FinishStep();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->skipped);
    EXPECT_EQ(ResidualOf(session, gradient), before);
    EXPECT_TRUE(session.Close("").ok());
  });
}

TEST(Wire, AFailedStepLeavesTheErrorsAsTheyWere) {
  RunJob({.world = 2, .wire = "bf16"}, [](Session& session, GatheringCoordinator& coordinator) {
    Gradient gradient(session, "w", kElements, "dense");
    Random random(session.rank());
    Fill(random, &gradient.data);
    ASSERT_TRUE(Step(session, gradient));
    const auto before = ResidualOf(session, gradient);
    const auto average = gradient.data;
    // Exchanged on both, perhaps; never committed.
    (void)session.Ready(gradient.id);
    if (session.rank() == 1) {
      coordinator.Fail(Unavailable("rank 1 (host localhost) failed in epoch 1 at step 2: gone"));
      return;
    }
    EXPECT_EQ(session.FinishStep().status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(ResidualOf(session, gradient), before);
    EXPECT_EQ(gradient.data, average);
  });
}

// Steps base+1 … base+steps; the digest of the last average and the errors, by rank.
std::vector<uint64_t> Train(uint64_t base, uint64_t steps, MemoryStore* store) {
  std::vector<uint64_t> digests(2);
  const Job job{.base_step = base, .has_checkpoint = base > 0, .store = store, .wire = "bf16"};
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    Gradient gradient(session, "w", kElements, "dense");
    for (uint64_t step = base; step < base + steps; ++step) {
      Random random(step * 10 + session.rank());
      Fill(random, &gradient.data);
      ASSERT_TRUE(Step(session, gradient));
    }
    ASSERT_TRUE(session.Checkpoint({}).ok());
    ASSERT_TRUE(session.CheckpointWait().ok());
    const auto residual = ResidualOf(session, gradient);
    digests[session.rank()] = Combine(Digest(std::as_bytes(std::span(gradient.data))),
                                      Digest(std::as_bytes(std::span(residual))));
    EXPECT_TRUE(session.Close("").ok());
  });
  return digests;
}

TEST(Wire, AResumedRunGoesOnWithTheErrorsOfItsCheckpoint) {
  MemoryStore unused, store;
  const auto whole = Train(0, 5, &unused);
  Train(0, 3, &store);
  EXPECT_EQ(Train(3, 2, &store), whole);
}

}  // namespace
}  // namespace ringwood

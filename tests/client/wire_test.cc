// Sessions with few bits on the wire of dense groups: what is rounded away or held back is kept,
// and only commit makes it real.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/random.h"
#include "client/session.h"
#include "dense/arithmetic/half.h"
#include "plan/model/cost.h"
#include "plan/strategy/planner.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

constexpr size_t kWireElements = 100'000;  // long enough for a ring

// Multiples of 1/16 below 2^11: with bf16's errors, sums of a few are exact in fp32.
void Fill(Random& random, std::vector<float>* gradient) {
  for (float& value : *gradient) value = static_cast<float>(random.Below(1 << 16)) / 16 - 2048;
}

std::vector<float> ResidualOf(const Session& session, const Gradient& gradient) {
  std::vector<float> residual(gradient.data.size());
  EXPECT_TRUE(session.Residual(gradient.id, residual).ok());
  return residual;
}

bool StepOnce(Session& session, const Gradient& gradient) {
  return session.Ready(gradient.id).ok() && session.FinishStep().ok();
}

class WireOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Formats, WireOf, testing::Values("bf16", "int8", "int4"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(WireOf, WhatWasAppliedAndTheErrorsMakeWhatCameInExactly) {
  for (int world : {1, 2, 4, 8}) {  // averages that divide without rounding
    std::vector<std::vector<double>> in(world, std::vector<double>(kWireElements, 0.0));
    std::vector<std::vector<float>> left(world);
    std::vector<double> applied(kWireElements, 0.0);
    RunJob({.world = world, .wire = GetParam()}, [&](Session& session, GatheringCoordinator&) {
      const int rank = session.rank();
      Gradient gradient(session, "w", kWireElements, "dense");
      Random random(rank);
      for (int step = 0; step < 3; ++step) {
        Fill(random, &gradient.data);
        for (size_t i = 0; i < kWireElements; ++i) in[rank][i] += gradient.data[i];
        ASSERT_TRUE(StepOnce(session, gradient));
        if (rank != 0) continue;
        for (size_t i = 0; i < kWireElements; ++i) applied[i] += double{gradient.data[i]} * world;
      }
      left[rank] = ResidualOf(session, gradient);
      EXPECT_TRUE(session.Close("").ok());
    });
    for (size_t i = 0; i < kWireElements; ++i) {
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
    Gradient gradient(session, "w", kWireElements, "dense");
    ASSERT_TRUE(session.Ready(gradient.id).ok());
    const auto result = session.FinishStep();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->dense_bytes * 2, result->dense_equivalent_bytes);
    EXPECT_TRUE(session.Close("").ok());
  });
}

TEST_P(WireOf, ASkippedStepLeavesTheErrorsAsTheyWere) {
  RunJob({.world = 2, .wire = GetParam()}, [](Session& session, GatheringCoordinator&) {
    Gradient gradient(session, "w", kWireElements, "dense");
    Random random(session.rank());
    Fill(random, &gradient.data);
    ASSERT_TRUE(StepOnce(session, gradient));
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

TEST_P(WireOf, AFailedStepLeavesTheErrorsAsTheyWere) {
  RunJob({.world = 2, .wire = GetParam()}, [](Session& session, GatheringCoordinator& coordinator) {
    Gradient gradient(session, "w", kWireElements, "dense");
    Random random(session.rank());
    Fill(random, &gradient.data);
    ASSERT_TRUE(StepOnce(session, gradient));
    const auto before = ResidualOf(session, gradient);
    const auto average = gradient.data;
    // Exchanged on both, perhaps; never committed.
    (void)session.Ready(gradient.id);
    if (session.rank() == 1) {
      coordinator.Fail(Unavailable("rank 1 (host localhost) failed in epoch 1 at step 2: gone"));
    }
    // On rank 1, too: its exchange reads the gradient until then.
    EXPECT_EQ(session.FinishStep().status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(ResidualOf(session, gradient), before);
    EXPECT_EQ(gradient.data, average);
  });
}

// Steps base+1 … base+steps; the digest of the last average and the errors, by rank.
std::vector<uint64_t> Train(const char* wire, uint64_t base, uint64_t steps, MemoryStore* store) {
  std::vector<uint64_t> digests(2);
  const Job job{.base_step = base, .has_checkpoint = base > 0, .store = store, .wire = wire};
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    Gradient gradient(session, "w", kWireElements, "dense");
    for (uint64_t step = base; step < base + steps; ++step) {
      Random random(step * 10 + session.rank());
      Fill(random, &gradient.data);
      ASSERT_TRUE(StepOnce(session, gradient));
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

TEST_P(WireOf, AResumedRunGoesOnWithTheErrorsOfItsCheckpoint) {
  MemoryStore unused, store;
  const auto whole = Train(GetParam(), 0, 5, &unused);
  Train(GetParam(), 0, 3, &store);
  EXPECT_EQ(Train(GetParam(), 3, 2, &store), whole);
}

// Five steps of tensors of many sizes; of all averages, and of every rank's residuals.
using Planned = std::function<void(GatheringCoordinator&, int world)>;
constexpr size_t kSizes[] = {1, 300, 20'000, 255, 3000};

uint64_t DigestOfTraining(const char* wire, int world, const std::string& planner,
                          const Planned& planned = nullptr) {
  std::vector<uint64_t> digests(world);
  const Job job{.world = world, .wire = wire, .options = [&](SessionOptions* options) {
                  options->planner = planner;
                }};
  RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
    if (planned) planned(coordinator, world);
    std::vector<std::unique_ptr<Gradient>> gradients;
    for (size_t t = 0; t < std::size(kSizes); ++t) {
      gradients.push_back(
          std::make_unique<Gradient>(session, "t" + std::to_string(t), kSizes[t], "dense"));
    }
    uint64_t digest = 0;
    for (uint64_t step = 0; step < 5; ++step) {
      Random random(step * 10 + session.rank());
      for (const auto& gradient : gradients) {
        Fill(random, &gradient->data);
        ASSERT_TRUE(session.Ready(gradient->id).ok());
      }
      ASSERT_TRUE(session.FinishStep().ok());
      for (const auto& gradient : gradients) {
        const auto residual = ResidualOf(session, *gradient);
        digest = Combine(digest, Digest(std::as_bytes(std::span(gradient->data))));
        digest = Combine(digest, Digest(std::as_bytes(std::span(residual))));
      }
    }
    digests[session.rank()] = digest;
    EXPECT_TRUE(session.Close("").ok());
  });
  uint64_t all = 0;
  for (const uint64_t digest : digests) all = Combine(all, digest);
  return all;
}

// After the second step to one group, after the third to one a tensor.
void MergeAndSplit(const char* wire, GatheringCoordinator& coordinator, int world) {
  PlanInput input;
  for (size_t t = std::size(kSizes); t-- > 0;) {
    input.tensors.push_back({"t" + std::to_string(t), kSizes[t], "dense", 0.1});
  }
  input.world = world;
  input.ring_codecs = {RingCodec(wire, world)};
  coordinator.ChangePlanAfter(2, *MakePlan("single", input));
  coordinator.ChangePlanAfter(3, *MakePlan("wfbp", input));
}

TEST(Wire, WithCodesNoBitDependsOnThePlanOrItsChanges) {
  for (const int world : {1, 2, 3, 5, 9}) {
    for (const char* wire : {"int8", "int4"}) {
      const uint64_t single = DigestOfTraining(wire, world, "single");
      EXPECT_EQ(DigestOfTraining(wire, world, "wfbp"), single) << wire << " " << world;
      const auto changes = [wire](GatheringCoordinator& coordinator, int of) {
        MergeAndSplit(wire, coordinator, of);
      };
      EXPECT_EQ(DigestOfTraining(wire, world, "hybrid", changes), single) << wire << " " << world;
    }
  }
}

TEST(Wire, WithCodesAQuarterAndAnEighthOfTheBytesTravel) {
  for (const auto& [wire, bits] : {std::pair{"int8", 8.0}, std::pair{"int4", 4.0}}) {
    RunJob({.world = 2, .wire = wire}, [bits = bits](Session& session, GatheringCoordinator&) {
      Gradient gradient(session, "w", kWireElements, "dense");
      ASSERT_TRUE(session.Ready(gradient.id).ok());
      const auto result = session.FinishStep();
      ASSERT_TRUE(result.ok()) << result.status();
      // Both send each other their codes (recursive doubling), and a byte for every 64 elements.
      const double expected = (bits + 8.0 / 64) / 32;
      EXPECT_NEAR(static_cast<double>(result->dense_bytes) /
                      static_cast<double>(result->dense_equivalent_bytes),
                  expected, 0.005);
      EXPECT_TRUE(session.Close("").ok());
    });
  }
}

// ---- gradients in their own type ----

constexpr size_t kNarrowElements = 5000;

// Whole numbers: bfloat16 holds them, what they are multiplied with, and their sums.
float WholeNumber(size_t i, int rank, int step) {
  return static_cast<float>((i + 3 * static_cast<size_t>(rank) + static_cast<size_t>(step)) % 9) -
         4;
}

TEST(OwnType, BFloat16IsAveragedBesideFloat32InHalfOfTheBytes) {
  for (const int world : {1, 2, 3, 4}) {
    for (const char* planner : {"hybrid", "single", "wfbp"}) {
      const Job job{.world = world,
                    .wire = "native",
                    .options = [planner](SessionOptions* options) { options->planner = planner; }};
      RunJob(job, [&](Session& session, GatheringCoordinator&) {
        NarrowGradient first(session, "first", kNarrowElements);
        Gradient wide(session, "wide", kNarrowElements, "dense");
        NarrowGradient last(session, "last", kNarrowElements);
        for (int step = 0; step < 2; ++step) {
          const int rank = session.rank();
          for (size_t i = 0; i < kNarrowElements; ++i) {
            wide.data[i] = WholeNumber(i, rank, step);
            (*first.data)[i] = (*last.data)[i] = ToBFloat16(wide.data[i]);
          }
          ASSERT_TRUE(session.BeginStep(rank + 1).ok());
          for (const int id : {last.id, wide.id, first.id}) ASSERT_TRUE(session.Ready(id).ok());
          const auto result = session.FinishStep();
          ASSERT_TRUE(result.ok()) << result.status();
          const uint64_t all = kNarrowElements * (2 + 4 + 2);
          EXPECT_EQ(result->dense_equivalent_bytes, all * 2 * (world - 1) / world);
          EXPECT_EQ(world == 2 ? result->dense_bytes : all, all);
          for (size_t i = 0; i < kNarrowElements; ++i) {
            float sum = 0, total = 0;
            for (int r = 0; r < world; ++r) {
              sum += static_cast<float>(r + 1) * WholeNumber(i, r, step);
              total += static_cast<float>(r + 1);
            }
            ASSERT_EQ(wide.data[i], sum / total);
            ASSERT_EQ((*first.data)[i], ToBFloat16(sum / total));
            ASSERT_EQ((*last.data)[i], ToBFloat16(sum / total));
          }
        }
        EXPECT_TRUE(session.Close("").ok());
      });
    }
  }
}

TEST(OwnType, ASkippedStepLeavesBFloat16AsItWasAndWithoutWeightItIsZero) {
  for (const int world : {1, 2}) {
    RunJob({.world = world, .wire = "native"}, [](Session& session, GatheringCoordinator&) {
      NarrowGradient gradient(session, "w", 10);
      const std::vector<uint16_t> bad(10, ToBFloat16(std::numeric_limits<float>::infinity()));
      *gradient.data = bad;
      ASSERT_TRUE(session.Ready(gradient.id).ok());
      auto result = session.FinishStep();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(result->skipped);
      EXPECT_EQ(*gradient.data, bad);
      ASSERT_TRUE(session.BeginStep(0).ok());
      ASSERT_TRUE(session.Ready(gradient.id).ok());
      result = session.FinishStep();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_FALSE(result->skipped);
      EXPECT_EQ(*gradient.data, std::vector<uint16_t>(10));
      EXPECT_TRUE(session.Close("").ok());
    });
  }
}

TEST(OwnType, ASumThatBFloat16DoesNotHoldIsSkipped) {
  RunJob({.world = 3, .wire = "native"}, [](Session& session, GatheringCoordinator&) {
    NarrowGradient gradient(session, "w", 10);
    const uint16_t large = ToBFloat16(std::numeric_limits<float>::max() / 2);
    std::ranges::fill(*gradient.data, large);
    ASSERT_TRUE(session.Ready(gradient.id).ok());
    const auto result = session.FinishStep();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->skipped);
    EXPECT_EQ(gradient.data->front(), large);
    EXPECT_TRUE(session.Close("").ok());
  });
}

TEST(OwnType, WhatWasRoundedAwayBeforeIsAddedToTheFirstSum) {
  MemoryStore store;
  std::vector<std::vector<float>> owed(2);
  RunJob({.store = &store, .wire = "bf16"}, [&](Session& session, GatheringCoordinator&) {
    Gradient gradient(session, "w", kNarrowElements, "dense");
    Random random(session.rank());
    Fill(random, &gradient.data);
    ASSERT_TRUE(StepOnce(session, gradient));
    owed[session.rank()] = ResidualOf(session, gradient);
    ASSERT_TRUE(session.Checkpoint({}).ok());
    ASSERT_TRUE(session.CheckpointWait().ok());
    EXPECT_TRUE(session.Close("").ok());
  });
  const Job resumed{.base_step = 1, .has_checkpoint = true, .store = &store, .wire = "native"};
  RunJob(resumed, [&](Session& session, GatheringCoordinator&) {
    NarrowGradient gradient(session, "w", kNarrowElements);
    for (int step = 0; step < 2; ++step) {
      std::ranges::fill(*gradient.data, ToBFloat16(1));
      ASSERT_TRUE(session.Ready(gradient.id).ok());
      ASSERT_TRUE(session.FinishStep().ok());
      for (size_t i = 0; i < kNarrowElements; ++i) {
        const float mine = FromBFloat16(ToBFloat16(1 + owed[0][i]));
        const float theirs = FromBFloat16(ToBFloat16(1 + owed[1][i]));
        const float sum = step == 0 ? FromBFloat16(ToBFloat16(mine + theirs)) : 2;
        ASSERT_EQ((*gradient.data)[i], ToBFloat16(sum / 2)) << step;
      }
    }
    EXPECT_TRUE(session.Close("").ok());
  });
}

TEST(OwnType, BFloat16IsDenseAndNeedsTheWireNative) {
  const auto refused = [](const char* wire, const char* route, const char* why) {
    RunJob({.world = 1, .wire = wire}, [&](Session& session, GatheringCoordinator&) {
      uint16_t data[4] = {};
      Tensor tensor{.spec = {"w", 4, route}, .data = data, .type = DataType::kBFloat16};
      EXPECT_THAT(Message(session.Register(tensor).status()), testing::HasSubstr(why));
      EXPECT_TRUE(session.Close("").ok());
    });
  };
  refused("native", "sparse",
          "tensor 'w' is bfloat16, and what is sparse is float32: make it float32 before ready");
  refused("int8", "dense",
          "tensor 'w' is bfloat16, which travels as it is, and --wire is int8: "
          "leave that at native, or make it float32 before ready");
}

// ---- steps that are skipped one after the other ----

constexpr size_t kSkippedElements = 64;

// Steps from the job's base on, in which `fill` says what each rank brings; what was logged.
struct SkippingJob {
  Job job = {};
  std::string route = "dense";
  int steps = 10;
  std::function<void(int rank, int step, std::vector<float>*)> fill = nullptr;
  std::function<void(int step, const StepResult&, const std::vector<float>&)> ended = nullptr;

  std::string Logged() const {
    testing::internal::CaptureStderr();
    RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
      Gradient other(session, "other", kSkippedElements, "dense");
      Gradient gradient(session, "large", kSkippedElements, route, 1.0 / kSkippedElements);
      for (int step = 0; step < steps; ++step) {
        fill(session.rank(), step, &gradient.data);
        ASSERT_TRUE(session.Ready(other.id).ok());
        ASSERT_TRUE(session.Ready(gradient.id).ok());
        const StatusOr<StepResult> result = session.FinishStep();
        ASSERT_TRUE(result.ok()) << result.status();
        if (ended) coordinator.Alone([&] { ended(step, *result, gradient.data); });
      }
      if (job.store != nullptr) {
        ASSERT_TRUE(session.Checkpoint({}).ok());
        ASSERT_TRUE(session.CheckpointWait().ok());
      }
      EXPECT_TRUE(session.Close("").ok());
    });
    return testing::internal::GetCapturedStderr();
  }
};

TEST(SkippedSteps, AResidualThatNoSumOfCodesHoldsIsNamedWithTheWayOut) {
  MemoryStore store;
  const auto nothing = [](int, int, std::vector<float>* data) { std::ranges::fill(*data, 0.0f); };
  SkippingJob sparse{.job = {.store = &store}, .route = "sparse", .steps = 1};
  sparse.fill = [](int, int, std::vector<float>* data) {
    (*data)[5] = 2e36f;  // is sent
    (*data)[3] = 1e36f;  // stays
  };
  EXPECT_THAT(sparse.Logged(), testing::Not(testing::HasSubstr("in a row")));

  SkippingJob coded{.job = {.base_step = 1, .has_checkpoint = true, .store = &store}};
  coded.job.wire = "int8";
  coded.fill = nothing;
  coded.ended = [](int, const StepResult& result, const std::vector<float>&) {
    EXPECT_TRUE(result.skipped);
  };
  EXPECT_THAT(
      coded.Logged(),
      testing::HasSubstr("10 steps in a row were skipped: the residual of tensor large is up to "
                         "1e+36, too much for a sum of 2 ranks with --wire int8: gradients of "
                         "earlier steps were as large. Resume from a checkpoint before those, or "
                         "with --wire fp32, which applies it"));

  SkippingJob full{.job = {.base_step = 11, .has_checkpoint = true, .store = &store}, .steps = 1};
  full.fill = nothing;
  full.ended = [](int, const StepResult& result, const std::vector<float>& average) {
    EXPECT_FALSE(result.skipped);
    EXPECT_EQ(average[3], 1e36f);
    EXPECT_EQ(average[5], 0);
  };
  EXPECT_EQ(full.Logged(), "");
}

TEST(SkippedSteps, ANumberThatIsNoneIsNamedByItsRankAndTheFirstRankSaysThatItIsAnothers) {
  SkippingJob job{.job = {.world = 3}, .steps = 99};
  job.fill = [](int rank, int, std::vector<float>* data) { (*data)[7] = rank == 1 ? NAN : 1.0f; };
  const std::string logged = job.Logged();
  EXPECT_THAT(logged,
              testing::HasSubstr("10 steps in a row were skipped: the gradient of tensor large has "
                                 "a NaN or Inf"));
  EXPECT_THAT(logged,
              testing::HasSubstr("10 steps in a row were skipped: nothing that this rank brings is "
                                 "the cause: see the lines of other ranks"));
  EXPECT_EQ(std::ranges::count(logged, '\n'), 2) << logged;
}

TEST(SkippedSteps, AStepInBetweenThatWasAppliedEndsTheRow) {
  SkippingJob job{.steps = 19};
  job.fill = [](int rank, int step, std::vector<float>* data) {
    (*data)[0] = step != 9 && rank == 0 ? INFINITY : 1.0f;
  };
  EXPECT_EQ(job.Logged(), "");
}

}  // namespace
}  // namespace ringwood

// The density warm-up in sessions: when densities fall, on which ranks, and after a resume.
#include "plan/warm_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

constexpr size_t kWarmUpElements = 4000;
constexpr double kDensity = 0.001;
constexpr int kWarmUpSteps = 12;  // of a job
constexpr int kWarmUp = 8;        // of them
constexpr int kResumed = 3;       // in the middle of the second stage

struct Trained {
  std::vector<std::vector<float>> averages;  // of each step, as rank 0 had them
  std::vector<double> densities;             // in each step
  std::vector<float> residual;               // rank 1's at the end
};

double DensityOf(const Session& session) {
  for (const Group& group : session.plan().groups) {
    if (group.route == "tree") return group.density;
  }
  return 0;
}

// Steps `from` to `to` of a job of three ranks with momentum; what it keeps goes to `store`.
Trained TrainWarmUp(int from, int to, MemoryStore* store, bool reducer = false,
                    int warm_up = kWarmUp) {
  Trained trained;
  Job job{.world = 3,
          .momentum = 0.9,
          .base_step = static_cast<uint64_t>(from),
          .has_checkpoint = from > 0,
          .store = store,
          .reducer = reducer};
  job.options = [warm_up](SessionOptions* options) { options->warmup_steps = warm_up; };
  RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
    Gradient sparse(session, "sparse", kWarmUpElements, "sparse", kDensity);
    Gradient dense(session, "dense", 50, "dense");
    ASSERT_TRUE(session.Agree().ok());
    for (int step = from; step < to; ++step) {
      const double density = DensityOf(session);
      coordinator.Alone([&] {
        if (session.rank() == 0) trained.densities.push_back(density);
        // The other ranks were told the same.
        EXPECT_EQ(density, WarmUpDensity(WarmUpStage(step, warm_up), kDensity)) << step;
      });
      Random random(100 * step + session.rank());
      for (Gradient* gradient : {&dense, &sparse}) {
        for (float& value : gradient->data) value = static_cast<float>(random.Unit()) - 0.5f;
        ASSERT_TRUE(session.Ready(gradient->id).ok());
      }
      const auto result = session.FinishStep();
      ASSERT_TRUE(result.ok()) << result.status();
      coordinator.Alone([&] {
        if (session.rank() == 0) trained.averages.push_back(sparse.data);
      });
    }
    if (session.rank() == 1) {
      trained.residual.resize(kWarmUpElements);
      ASSERT_TRUE(session.Residual(sparse.id, trained.residual).ok());
    }
    ASSERT_TRUE(session.Checkpoint({}).ok());
    EXPECT_TRUE(session.Close("").ok());
  });
  return trained;
}

class SessionWarmUp : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(WithAReducer, SessionWarmUp, testing::Bool());

TEST_P(SessionWarmUp, DensitiesFallAtTheirStepsOnAllRanksAndRunsRepeat) {
  const Trained once = TrainWarmUp(0, kWarmUpSteps, nullptr, GetParam());
  ASSERT_EQ(once.densities.size(), kWarmUpSteps);
  EXPECT_EQ(once.densities.front(), kWarmUpDensity);
  EXPECT_EQ(once.densities.back(), kDensity);
  const Trained again = TrainWarmUp(0, kWarmUpSteps, nullptr, GetParam());
  EXPECT_EQ(once.averages, again.averages);
  EXPECT_EQ(once.residual, again.residual);
}

TEST(SessionWarmUp, AResumedJobGoesOnInItsStageBitForBit) {
  const Trained whole = TrainWarmUp(0, kWarmUpSteps, nullptr);
  MemoryStore store;
  const Trained before = TrainWarmUp(0, kResumed, &store);
  const Trained after = TrainWarmUp(kResumed, kWarmUpSteps, &store);
  EXPECT_EQ(after.densities.front(), before.densities.back());
  EXPECT_EQ(after.averages, std::vector(whole.averages.begin() + kResumed, whole.averages.end()));
  EXPECT_EQ(after.residual, whole.residual);
}

TEST(SessionWarmUp, ACheckpointOfTheWarmUpResumedWithoutItHasTheFinalDensity) {
  MemoryStore store;
  TrainWarmUp(0, kResumed, &store);
  EXPECT_THAT(TrainWarmUp(kResumed, kResumed + 2, &store, false, 0).densities,
              testing::Each(kDensity));
}

TEST(SessionWarmUp, AnAdaptiveJobFallsAllTheSame) {
  Job job{.world = 2};
  job.options = [](SessionOptions* options) {
    options->adapt = true;
    options->warmup_steps = 40;
  };
  uint64_t reviews = 0;
  RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
    Gradient sparse(session, "sparse", kWarmUpElements, "sparse", kDensity);
    ASSERT_TRUE(session.Agree().ok());
    for (int step = 0; step < 60; ++step) {
      // The planner may raise what hides; it never falls below the stage's.
      EXPECT_GE(DensityOf(session), WarmUpDensity(WarmUpStage(step, 40), kDensity)) << step;
      std::fill(sparse.data.begin(), sparse.data.end(), 1.0f);
      ASSERT_TRUE(session.Ready(sparse.id).ok());
      ASSERT_TRUE(session.FinishStep().ok());
    }
    EXPECT_TRUE(session.Close("").ok());
    if (session.rank() == 0) coordinator.Alone([&] { reviews = coordinator.reviews(); });
  });
  EXPECT_GE(reviews, 2u);  // counted by both ranks
}

TEST(SessionWarmUp, AFrozenPlanIsRefusedByName) {
  SessionOptions options;
  options.coordinator = "127.0.0.1:1";
  options.rank = 0;
  options.world = 1;
  options.warmup_steps = 10;
  EXPECT_TRUE(Check(options).ok());
  options.freeze_plan = "plan.json";
  EXPECT_THAT(Message(Check(options)), testing::HasSubstr("--density-warmup"));
}

}  // namespace
}  // namespace ringwood

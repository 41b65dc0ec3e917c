// What users choose for tensors, in sessions: clipping, momentum masking, how much comes down;
// turns, and residuals that decay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "tests/client/elastic_job.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr size_t kOptionElements = 64;

// A norm of 16 clipped to 16 / sqrt(4): every gradient counts half, exactly, and what counts is
// applied or owed.
TEST(SparseOptions, AClippedGradientIsAllThatIsAppliedAndOwed) {
  constexpr int kWorld = 4;
  Job job{.world = kWorld};
  job.options = [](SessionOptions* options) { options->clip_norm = 16; };
  std::vector<double> in(kOptionElements, 0.0), out(kOptionElements, 0.0);
  RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
    Gradient gradient(session, "sparse", kOptionElements, "sparse", 0.1);
    for (int step = 0; step < 5; ++step) {
      std::fill(gradient.data.begin(), gradient.data.end(), 0.0f);
      for (int i = 0; i < 4; ++i) gradient.data[(7 * step + 13 * i + session.rank()) % 64] = 8;
      coordinator.Alone([&] {
        for (size_t i = 0; i < kOptionElements; ++i) in[i] += 0.5 * gradient.data[i];
      });
      ASSERT_TRUE(session.Ready(gradient.id).ok());
      ASSERT_TRUE(session.FinishStep().ok());
      if (session.rank() != 0) continue;
      for (size_t i = 0; i < kOptionElements; ++i) out[i] += kWorld * gradient.data[i];
    }
    std::vector<float> owed(kOptionElements);
    ASSERT_TRUE(session.Residual(gradient.id, owed).ok());
    coordinator.Alone([&] {
      for (size_t i = 0; i < kOptionElements; ++i) out[i] += owed[i];
    });
    EXPECT_TRUE(session.Close("").ok());
  });
  EXPECT_EQ(in, out);
}

// Four take part in the first epoch of a job that was started with two ranks and two spares. Each
// clips a gradient of norm 16 to 16 / sqrt(4).
TEST(SparseOptions, ClippingCountsTheRanksOfTheEpochAndNotThoseOfTheStart) {
  ElasticJob job{.world = 4};
  job.options = [](SessionOptions* options) {
    options->world = 2;
    options->clip_norm = 16;
  };
  InProcessNetwork network;
  RunElasticJob(job, &network, [&](std::unique_ptr<Session> session, int, ElasticCoordinator&) {
    Gradient gradient(*session, "sparse", kOptionElements, "sparse", 1);
    gradient.data[5] = 16;
    ASSERT_TRUE(session->Ready(gradient.id).ok());
    ASSERT_TRUE(session->FinishStep().ok());
    EXPECT_EQ(gradient.data[5], 8);
    EXPECT_TRUE(session->Close("").ok());
  });
}

TEST(SparseOptions, ATensorsOwnClipNormGoesBeforeTheSessions) {
  Job job{.world = 1};
  job.options = [](SessionOptions* options) { options->clip_norm = 1; };
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    std::vector<std::unique_ptr<std::vector<float>>> memory;
    const auto add = [&](const char* name, std::optional<double> clip_norm) {
      memory.push_back(std::make_unique<std::vector<float>>(kOptionElements, 1.0f));  // norm 8
      Tensor tensor;
      tensor.spec = {name, kOptionElements, "sparse", 1};
      tensor.data = memory.back()->data();
      tensor.clip_norm = clip_norm;
      ASSERT_TRUE(session.Register(tensor).ok());
    };
    add("session's", std::nullopt);
    add("own", 4);
    add("none", 0);
    Tensor wrong;
    wrong.spec = {"wrong", kOptionElements, "sparse", 1};
    wrong.data = memory[0]->data();
    wrong.clip_norm = -1;
    EXPECT_THAT(Message(session.Register(wrong).status()), testing::HasSubstr("clip_norm = -1"));
    for (int id = 0; id < 3; ++id) ASSERT_TRUE(session.Ready(id).ok());
    ASSERT_TRUE(session.FinishStep().ok());
    EXPECT_THAT(*memory[0], testing::Each(0.125f));
    EXPECT_THAT(*memory[1], testing::Each(0.5f));
    EXPECT_THAT(*memory[2], testing::Each(1.0f));
    EXPECT_TRUE(session.Close("").ok());
  });
}

// The first entry is applied in step 1; in step 2 its gradient is 0.
std::vector<float> SecondStep(bool masking, double density) {
  std::vector<float> second;
  Job job{.world = 1, .momentum = 0.5};
  job.options = [&](SessionOptions* options) { options->momentum_masking = masking; };
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    Gradient gradient(session, "sparse", kOptionElements, "sparse", density);
    for (const float value : {8.0f, 0.0f}) {
      std::fill(gradient.data.begin(), gradient.data.end(), 0.0f);
      gradient.data[0] = value;
      ASSERT_TRUE(session.Ready(gradient.id).ok());
      ASSERT_TRUE(session.FinishStep().ok());
    }
    second = gradient.data;
    EXPECT_TRUE(session.Close("").ok());
  });
  return second;
}

TEST(SparseOptions, MaskingClearsTheVelocityOfWhatWasAppliedWhereFewEntriesAre) {
  EXPECT_EQ(SecondStep(true, 0.02)[0], 0);
  EXPECT_EQ(SecondStep(false, 0.02)[0], 4);
  EXPECT_EQ(SecondStep(true, 0.25)[0], 4);  // a dense stage: the velocity goes on
}

TEST(SparseOptions, AResultOfMoreOrFewerEntriesLosesNothing) {
  for (const double keep : {0.5, 3.0, 1000.0}) {
    for (const bool reducer : {false, true}) {
      constexpr int kWorld = 3;
      constexpr uint64_t kEntries = 6;  // a tenth of 64
      std::vector<double> in(kOptionElements, 0.0), out(kOptionElements, 0.0);
      size_t most = 0;
      Job job{.world = kWorld, .reducer = reducer};
      job.options = [&](SessionOptions* options) { options->sparse_keep = keep; };
      RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
        Gradient gradient(session, "sparse", kOptionElements, "sparse", 0.1);
        for (int step = 0; step < 6; ++step) {
          Random random(step * 10 + session.rank());
          for (float& value : gradient.data) value = static_cast<float>(random.Below(201)) - 100;
          coordinator.Alone([&] {
            for (size_t i = 0; i < kOptionElements; ++i) in[i] += gradient.data[i];
          });
          ASSERT_TRUE(session.Ready(gradient.id).ok());
          ASSERT_TRUE(session.FinishStep().ok());
          if (session.rank() != 0) continue;
          for (size_t i = 0; i < kOptionElements; ++i)
            out[i] += std::rint(kWorld * gradient.data[i]);
          most = std::max<size_t>(
              most, kOptionElements - std::count(gradient.data.begin(), gradient.data.end(), 0.0f));
        }
        std::vector<float> owed(kOptionElements);
        ASSERT_TRUE(session.Residual(gradient.id, owed).ok());
        coordinator.Alone([&] {
          for (size_t i = 0; i < kOptionElements; ++i) out[i] += owed[i];
        });
        EXPECT_TRUE(session.Close("").ok());
      });
      EXPECT_EQ(in, out) << keep;
      EXPECT_LE(most, keep * kEntries);
      if (keep < 1) {
        EXPECT_EQ(most, kEntries / 2);
      } else {
        EXPECT_GT(most, kEntries);
      }
    }
  }
}

// All that four workers send is less than 1 % of the tensor: the default gives a union's bits.
TEST(SparseOptions, ByDefaultAllIsKeptOfFewEntries) {
  constexpr size_t kElements = 20000;
  const auto trained = [](const char* merge, double keep) {
    std::vector<float> seen;
    Job job{.world = 4};
    job.options = [&](SessionOptions* options) {
      options->sparse_merge = merge;
      options->sparse_keep = keep;
      options->warmup_steps = 4;
      options->momentum = 0.9;
    };
    RunJob(job, [&](Session& session, GatheringCoordinator&) {
      Gradient gradient(session, "sparse", kElements, "sparse", 0.001);
      for (int step = 0; step < 8; ++step) {
        Random random(step * 10 + session.rank());
        for (float& value : gradient.data) value = static_cast<float>(random.Below(20001)) - 10000;
        ASSERT_TRUE(session.Ready(gradient.id).ok());
        ASSERT_TRUE(session.FinishStep().ok());
        if (session.rank() == 0) {
          seen.insert(seen.end(), gradient.data.begin(), gradient.data.end());
        }
      }
      EXPECT_TRUE(session.Close("").ok());
    });
    return seen;
  };
  const std::vector<float> kept = trained("gtopk", 0);
  EXPECT_TRUE(kept == trained("union", 0));
  EXPECT_FALSE(kept == trained("gtopk", 1));
}

constexpr int kTurns = 3;
constexpr size_t kFragment = 3000;
constexpr uint64_t kRounds = 9;

struct Fragment {
  Fragment(Session& session, const std::string& name, const std::string& route, uint32_t turn,
           uint32_t turns = kTurns, double decay = 1)
      : turn(turn), data(kFragment, 0.0f) {
    Tensor tensor;
    tensor.spec = {name, kFragment, route, 0.02};
    tensor.data = data.data();
    tensor.turn = turn;
    tensor.turns = turns;
    tensor.decay = decay;
    const StatusOr<int> registered = session.Register(tensor);
    status = registered.status();
    id = registered.value_or(-1);
  }
  std::vector<float> Residual(Session& session) const {
    std::vector<float> residual(kFragment);
    EXPECT_TRUE(session.Residual(id, residual).ok());
    return residual;
  }
  void Fill(Random* random) {  // integers: sums are exact
    for (float& value : data) value = static_cast<float>(random->Below(41)) - 20;
  }
  const uint32_t turn;
  std::vector<float> data;
  int id = -1;
  Status status;
};

std::vector<Fragment> FragmentsOf(Session& session, const std::string& route) {
  std::vector<Fragment> fragments;
  fragments.reserve(kTurns);  // registered memory stays where it is
  for (uint32_t turn = 0; turn < kTurns; ++turn) {
    fragments.emplace_back(session, "t" + std::to_string(turn), route, turn);
  }
  return fragments;
}

// What each tensor was given in its turns, what was applied and what is owed at the end.
struct Ledger {
  std::vector<double> given, applied, owed;
  Ledger() : given(kFragment), applied(kFragment), owed(kFragment) {}
};

// A rank's rounds: those that rest hold what must not be read, become 0 and keep their residuals.
void Rounds(Session& session, GatheringCoordinator& coordinator, int world,
            const std::string& route, std::vector<Ledger>* ledgers) {
  std::vector<Fragment> fragments = FragmentsOf(session, route);
  Random random(session.rank());
  for (uint64_t round = 1; round <= kRounds; ++round) {
    std::vector<std::vector<float>> before;
    for (Fragment& fragment : fragments) {
      before.push_back(round > 1 ? fragment.Residual(session) : std::vector<float>(kFragment));
      fragment.Fill(&random);
      if (round % kTurns != fragment.turn) {
        fragment.data[5] = std::numeric_limits<float>::quiet_NaN();
      } else {
        coordinator.Alone([&] {
          Ledger& ledger = (*ledgers)[fragment.turn];
          for (size_t i = 0; i < kFragment; ++i) ledger.given[i] += fragment.data[i];
        });
      }
      ASSERT_TRUE(session.Ready(fragment.id).ok());
    }
    const auto result = session.FinishStep();
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_FALSE(result->skipped);
    for (Fragment& fragment : fragments) {
      if (round % kTurns != fragment.turn) {
        EXPECT_THAT(fragment.data, Each(0.0f));
        EXPECT_EQ(fragment.Residual(session), before[fragment.turn]) << round;
      } else if (session.rank() == 0) {
        coordinator.Alone([&] {
          Ledger& ledger = (*ledgers)[fragment.turn];
          for (size_t i = 0; i < kFragment; ++i) {
            ledger.applied[i] += std::rint(fragment.data[i] * world);
          }
        });
      }
    }
  }
  for (const Fragment& fragment : fragments) {
    const std::vector<float> residual = fragment.Residual(session);
    coordinator.Alone([&] {
      for (size_t i = 0; i < kFragment; ++i) (*ledgers)[fragment.turn].owed[i] += residual[i];
    });
  }
  EXPECT_TRUE(session.Close("").ok());
}

class SessionTurns
    : public testing::TestWithParam<std::tuple<int, std::string, std::string, bool>> {};
INSTANTIATE_TEST_SUITE_P(
    Routes, SessionTurns,
    testing::Values(std::tuple(1, "dense", "fp32", false), std::tuple(3, "dense", "fp32", false),
                    std::tuple(3, "dense", "bf16", false), std::tuple(1, "sparse", "fp32", false),
                    std::tuple(3, "sparse", "fp32", false), std::tuple(3, "sparse", "fp32", true)));

TEST_P(SessionTurns, ATensorIsExchangedInItsRoundsAndRestsInTheOthers) {
  const auto& [world, route, wire, reducer] = GetParam();
  std::vector<Ledger> ledgers(kTurns);
  RunJob({.world = world, .wire = wire, .reducer = reducer},
         [&, world = world, route = route](Session& session, GatheringCoordinator& coordinator) {
           Rounds(session, coordinator, world, route, &ledgers);
         });
  for (const Ledger& ledger : ledgers) {
    for (size_t i = 0; i < kFragment; ++i) {
      ASSERT_EQ(ledger.given[i], ledger.applied[i] + ledger.owed[i]) << i;
    }
  }
}

TEST(Turns, OnlyThoseWhoseTurnItIsCostBytes) {
  RunJob({.world = 2}, [](Session& session, GatheringCoordinator&) {
    Fragment first(session, "first", "dense", 1, 2), second(session, "second", "dense", 0, 2);
    for (int round = 1; round <= 2; ++round) {
      ASSERT_TRUE(session.Ready(first.id).ok());
      ASSERT_TRUE(session.Ready(second.id).ok());
      const auto result = session.FinishStep();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_GT(result->dense_bytes, 0u);
      EXPECT_LT(result->dense_bytes, result->dense_equivalent_bytes * 3 / 4) << round;
    }
    EXPECT_TRUE(session.Close("").ok());
  });
}

TEST(Turns, AResidualDecays) {
  constexpr double kDecay = 0.5;
  constexpr int kWorld = 2;
  std::vector<double> expected(kFragment), owed(kFragment);
  RunJob({.world = kWorld}, [&](Session& session, GatheringCoordinator& coordinator) {
    Fragment sparse(session, "sparse", "sparse", 0, 1, kDecay);
    Random random(session.rank());
    for (int round = 0; round < 4; ++round) {
      const std::vector<float> before =
          round > 0 ? sparse.Residual(session) : std::vector<float>(kFragment);
      sparse.Fill(&random);
      coordinator.Alone([&] {
        for (size_t i = 0; i < kFragment; ++i) {
          expected[i] += kDecay * before[i] + sparse.data[i];
        }
      });
      ASSERT_TRUE(session.Ready(sparse.id).ok());
      ASSERT_TRUE(session.FinishStep().ok());
      const std::vector<float> after = sparse.Residual(session);
      coordinator.Alone([&] {
        for (size_t i = 0; i < kFragment; ++i) {
          owed[i] += after[i];
          if (session.rank() == 0) owed[i] += kWorld * static_cast<double>(sparse.data[i]);
        }
      });
    }
    EXPECT_TRUE(session.Close("").ok());
  });
  for (size_t i = 0; i < kFragment; ++i) ASSERT_EQ(expected[i], owed[i]) << i;
}

TEST(Turns, WhatMakesNoSenseIsRefused) {
  RunJob({.world = 1}, [](Session& session, GatheringCoordinator&) {
    EXPECT_THAT(Message(Fragment(session, "a", "dense", 3, 3).status), HasSubstr("turn 3 of 3"));
    EXPECT_THAT(Message(Fragment(session, "a", "auto", 0, 3).status), HasSubstr("takes turns"));
    for (const double decay : {0.0, -1.0, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
      EXPECT_THAT(Message(Fragment(session, "a", "sparse", 0, 1, decay).status),
                  HasSubstr("residual_decay"));
    }
    EXPECT_TRUE(session.Close("").ok());
  });
}

}  // namespace
}  // namespace ringwood

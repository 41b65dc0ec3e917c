// What the tensors of an elastic job owe (residuals) is lost with nobody but a process that dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>

#include "base/random.h"
#include "tests/client/elastic_job.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

constexpr int kDebtSlots = 3;
constexpr int kDebtDoomed = 1;
constexpr uint64_t kDebtSteps = 6;
constexpr uint64_t kDebtFatal = 3;  // the step in which a rank dies, or is late

// Whole numbers, each rank's own in each step. Returns their sum.
double Fill(std::vector<float>* gradient, uint64_t step, int slot) {
  Random random(10 * step + slot);
  for (float& value : *gradient) value = static_cast<float>(random.Below(21)) - 10;
  return std::accumulate(gradient->begin(), gradient->end(), 0.0);
}

// What a tensor owes goes with it into the next epoch, whatever the wire. Integers: their sums are
// exact, and the averages of three are not, so that they are rounded. Sums of codes need not be
// whole.
void ExpectNothingLost(const std::string& route, const std::string& wire) {
  const bool whole = route == "sparse";
  std::vector<double> given(kDebtSlots), owed(kDebtSlots), applied(kDebtSlots);
  InProcessNetwork network;
  RunElasticJob({.world = kDebtSlots, .wire = wire}, &network,
                [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
                  Gradient gradient(*session, "w", 400, route, 0.05);
                  while (session->step() < kDebtSteps) {
                    const uint64_t step = session->step() + 1;
                    if (slot == kDebtDoomed && step == kDebtFatal) {
                      std::vector<float> residual(400);
                      ASSERT_TRUE(session->Residual(gradient.id, residual).ok());
                      for (const float value : residual) owed[slot] += value;
                      return;
                    }
                    given[slot] += Fill(&gradient.data, step, slot);
                    ASSERT_TRUE(session->Ready(gradient.id).ok());
                    const auto result = session->FinishStep();
                    ASSERT_TRUE(result.ok()) << result.status();
                    for (const float value : gradient.data) {
                      const double sum = value * result->total_weight;
                      applied[slot] += whole ? std::round(sum) : sum;
                    }
                  }
                  std::vector<float> residual(400);
                  ASSERT_TRUE(session->Residual(gradient.id, residual).ok());
                  for (const float value : residual) owed[slot] += value;
                  EXPECT_TRUE(session->Close("").ok());
                });
  EXPECT_EQ(applied[0], applied[2]);
  EXPECT_NE(applied[0], 0);
  if (wire != "auto") {  // which may choose fp32, and that owes nothing
    EXPECT_NE(owed[kDebtDoomed], 0);
  }
  EXPECT_NEAR(given[0] + given[1] + given[2], applied[0] + owed[0] + owed[1] + owed[2],
              whole ? 0 : 0.01);
}

TEST(Debt, NothingIsLostButWhatTheDeadRankOwed) { ExpectNothingLost("sparse", "fp32"); }

TEST(Debt, NothingThatCodesHeldBackIsLostButWhatTheDeadRankOwed) {
  for (const char* wire : {"int8", "int4", "auto"}) ExpectNothingLost("dense", wire);
}

// It has not voted, so nothing of its last round can be committed: what it owed stays owed.
TEST(Debt, ALateRankComesBackWithWhatItOwes) {
  std::vector<double> given(kDebtSlots), owed(kDebtSlots), applied(kDebtSlots);
  double owed_when_late = 0;
  InProcessNetwork network;
  const Script script{.regroup_after = {kDebtFatal + 1}, .late = kDebtDoomed};
  RunElasticJob(
      {.world = kDebtSlots, .script = script}, &network,
      [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator& coordinator) {
        Gradient gradient(*session, "w", 400, "sparse", 0.05);
        std::vector<float> residual(400);
        const auto owes = [&] {
          EXPECT_TRUE(session->Residual(gradient.id, residual).ok());
          return std::accumulate(residual.begin(), residual.end(), 0.0);
        };
        uint64_t state = 0;
        ASSERT_TRUE(
            session->RegisterState("state", std::as_writable_bytes(std::span(&state, 1))).ok());
        int received = 0;
        while (session->step() < kDebtSteps) {
          const uint64_t step = session->step() + 1;
          if (slot == kDebtDoomed && step == kDebtFatal) {
            owed_when_late = owes();
            coordinator.SetAside();
          }
          const double sum = Fill(&gradient.data, step, slot);
          ASSERT_TRUE(session->Ready(gradient.id).ok());
          const auto result = session->FinishStep();
          ASSERT_TRUE(result.ok()) << result.status();
          received += result->received;
          const auto& brought = result->contributors;
          if (std::find(brought.begin(), brought.end(), slot) != brought.end()) {
            given[slot] += sum;
          }
          for (const float value : gradient.data) {
            applied[slot] += std::round(value * result->total_weight);
          }
        }
        EXPECT_EQ(received, slot == kDebtDoomed ? 1 : 0);
        owed[slot] = owes();
        EXPECT_TRUE(session->Close("").ok());
      });
  EXPECT_EQ(applied[0], applied[2]);
  EXPECT_NE(owed_when_late, 0);
  EXPECT_EQ(given[0] + given[1] + given[2], applied[0] + owed[0] + owed[1] + owed[2]);
}

TEST(Debt, ARankThatLeavesInOrderHandsItOver) {
  for (const std::string wire : {"fp32", "bf16"}) {
    std::vector<double> given(kDebtSlots), owed(kDebtSlots), applied(kDebtSlots);
    double handed = 0;
    InProcessNetwork network;
    RunElasticJob({.world = kDebtSlots, .wire = wire}, &network,
                  [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
                    Gradient gradient(*session, "w", 400, "sparse", 0.05);
                    const auto owes = [&] {
                      std::vector<float> residual(400);
                      EXPECT_TRUE(session->Residual(gradient.id, residual).ok());
                      return std::accumulate(residual.begin(), residual.end(), 0.0);
                    };
                    while (session->step() < kDebtSteps) {
                      const uint64_t step = session->step() + 1;
                      const bool last = slot == kDebtDoomed && step == kDebtFatal;
                      given[slot] += Fill(&gradient.data, step, slot);
                      ASSERT_TRUE(session->Ready(gradient.id).ok());
                      if (last) {
                        ASSERT_TRUE(session->LeaveAfterStep().ok());
                      }
                      const auto result = session->FinishStep();
                      ASSERT_TRUE(result.ok()) << result.status();
                      EXPECT_EQ(result->members.size(), step <= kDebtFatal ? 3u : 2u);
                      for (const float value : gradient.data) {
                        applied[slot] += std::round(value * result->total_weight);
                      }
                      if (!last) continue;
                      handed = owes();
                      const Status after = session->Ready(gradient.id);
                      EXPECT_THAT(Message(after),
                                  HasSubstr("rank 1 has left the job after step 3"));
                      EXPECT_TRUE(session->Close("").ok());
                      return;
                    }
                    owed[slot] = owes();
                    EXPECT_EQ(session->epoch(), 2u);
                    EXPECT_TRUE(session->Close("").ok());
                  });
    EXPECT_EQ(applied[0], applied[2]);
    EXPECT_NE(handed, 0);
    EXPECT_EQ(given[0] + given[1] + given[2], applied[0] + owed[0] + owed[2]) << wire;
  }
}

// Another rank dies in the last step of one that leaves: before all know that it is committed, or
// as they hand over, the heir among them. The dead rank brings nothing, so that nothing is lost.
TEST(Debt, ARankThatLeavesHandsItOverAlsoWhereAnotherDiesInItsLastStep) {
  constexpr int kLeaver = 1, kWorld = 4;
  for (const auto& [moment, dead] :
       {std::pair(Moment::kPrepared, 3), std::pair(Moment::kVoted, 3),
        std::pair(Moment::kAnswerLost, 3), std::pair(Moment::kCommitted, 3),
        std::pair(Moment::kVoted, 0), std::pair(Moment::kCommitted, 0)}) {
    std::vector<double> given(kWorld), owed(kWorld), applied(kWorld);
    InProcessNetwork network;
    const Script script{.doomed = dead, .round = kDebtFatal, .moment = moment};
    RunElasticJob(
        {.world = kWorld, .script = script}, &network,
        [&, dead = dead](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
          Gradient gradient(*session, "w", 400, "sparse", 0.05);
          while (session->step() < kDebtSteps) {
            const uint64_t step = session->step() + 1;
            given[slot] += Fill(&gradient.data, step, slot);
            if (slot == dead) std::fill(gradient.data.begin(), gradient.data.end(), 0.0f);
            ASSERT_TRUE(session->Ready(gradient.id).ok());
            const bool last = slot == kLeaver && step == kDebtFatal;
            if (last) {
              ASSERT_TRUE(session->LeaveAfterStep().ok());
            }
            const auto result = session->FinishStep();
            if (slot == dead && step == kDebtFatal) return;
            ASSERT_TRUE(result.ok()) << result.status();
            EXPECT_EQ(result->members.size(), step <= kDebtFatal ? 4u : 2u) << step;
            for (const float value : gradient.data) {
              applied[slot] += std::round(value * result->total_weight);
            }
            std::vector<float> residual(400);
            ASSERT_TRUE(session->Residual(gradient.id, residual).ok());
            owed[slot] = std::accumulate(residual.begin(), residual.end(), 0.0);
            if (!last) continue;
            EXPECT_THAT(Message(session->Ready(gradient.id)),
                        HasSubstr("rank 1 has left the job after step 3"));
            EXPECT_TRUE(session->Close("").ok());
            return;
          }
          EXPECT_EQ(session->epoch(), 3u);
          EXPECT_EQ(session->world(), 2);
          EXPECT_TRUE(session->Close("").ok());
        });
    const int heir = dead == 0 ? 2 : 0, other = dead == 0 ? 3 : 2;
    const std::string what = absl::StrFormat("moment %d, dead %d", static_cast<int>(moment), dead);
    EXPECT_EQ(applied[heir], applied[other]) << what;
    EXPECT_NE(owed[kLeaver], 0) << what;
    EXPECT_EQ(given[heir] + given[other] + given[kLeaver], applied[heir] + owed[heir] + owed[other])
        << what;
  }
}

// Between two steps, as after a SIGTERM. The heir leaves as well, a step later.
TEST(Debt, RanksThatLeaveBetweenStepsHandItOver) {
  for (const auto& [route, wire] : {std::pair("sparse", "fp32"), std::pair("dense", "int8")}) {
    const bool whole = std::string(route) == "sparse";
    const std::vector<uint64_t> last = {kDebtFatal + 1, kDebtFatal, kDebtSteps};  // by slot
    std::vector<double> given(kDebtSlots), owed(kDebtSlots), applied(kDebtSlots);
    InProcessNetwork network;
    RunElasticJob(
        {.world = kDebtSlots, .wire = wire}, &network,
        [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
          Gradient gradient(*session, "w", 400, route, 0.05);
          while (session->step() < kDebtSteps) {
            const uint64_t step = session->step() + 1;
            given[slot] += Fill(&gradient.data, step, slot);
            ASSERT_TRUE(session->Ready(gradient.id).ok());
            const auto result = session->FinishStep();
            ASSERT_TRUE(result.ok()) << result.status();
            const size_t there =
                std::count_if(last.begin(), last.end(), [&](uint64_t end) { return step <= end; });
            EXPECT_EQ(result->members.size(), there) << "step " << step;
            for (const float value : gradient.data) {
              const double sum = value * result->total_weight;
              applied[slot] += whole ? std::round(sum) : sum;
            }
            std::vector<float> residual(400);
            ASSERT_TRUE(session->Residual(gradient.id, residual).ok());
            owed[slot] = std::accumulate(residual.begin(), residual.end(), 0.0);
            if (step + 1 == kDebtFatal || step >= kDebtFatal) {
              ASSERT_TRUE(session->Leave(step == last[slot] && slot != 2).ok());
            }
            if (step != last[slot]) continue;
            if (slot == 2) break;
            EXPECT_NE(owed[slot], 0);
            EXPECT_THAT(Message(session->Ready(gradient.id)),
                        HasSubstr(absl::StrFormat("has left the job after step %d", step)));
            EXPECT_TRUE(session->Close("").ok());
            return;
          }
          EXPECT_EQ(session->epoch(), 3u);
          // The others follow in their calls of all, at once and with the numbers of the epoch.
          EXPECT_EQ(session->world(), 1);
          std::vector<std::byte> alone(4);
          EXPECT_TRUE(session->Broadcast(alone, 0).ok());
          EXPECT_TRUE(session->Close("").ok());
        });
    EXPECT_NEAR(given[0] + given[1] + given[2], applied[2] + owed[2], whole ? 0 : 0.02) << route;
  }
}

TEST(Debt, WhereNoneOrAllLeaveNothingHappens) {
  InProcessNetwork network;
  RunElasticJob({.world = kDebtSlots}, &network,
                [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
                  Gradient gradient(*session, "w", 400, "sparse", 0.05);
                  for (const bool leaves : {false, true, false}) {
                    ASSERT_TRUE(session->Ready(gradient.id).ok());
                    ASSERT_TRUE(session->FinishStep().ok());
                    ASSERT_TRUE(session->Leave(leaves).ok()) << slot;
                  }
                  EXPECT_EQ(session->epoch(), 1u);
                  EXPECT_TRUE(session->Close("").ok());
                });
}

// One dies in the call: nobody has left, or those have that said so.
TEST(Debt, ADeathUnderTheCallLeavesNobodyBehind) {
  for (const bool before : {true, false}) {
    InProcessNetwork network;
    RunElasticJob({.world = kDebtSlots}, &network,
                  [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
                    Gradient gradient(*session, "w", 400, "sparse", 0.05);
                    ASSERT_TRUE(session->Ready(gradient.id).ok());
                    ASSERT_TRUE(session->FinishStep().ok());
                    if (slot == 2 && before) return;  // dies
                    Status left = session->Leave(slot == 1);
                    if (slot == 2) return;  // dies while the others are on their way
                    if (before) {
                      EXPECT_EQ(left.code(), StatusCode::kAborted) << left;
                      EXPECT_EQ(session->world(), 2);
                      left = session->Leave(slot == 1);
                    }
                    EXPECT_TRUE(left.ok()) << left;
                    if (slot == 0) {
                      ASSERT_TRUE(session->Ready(gradient.id).ok());
                      const auto result = session->FinishStep();
                      ASSERT_TRUE(result.ok()) << result.status();
                      EXPECT_EQ(result->members, std::vector<int>{0});
                    }
                    EXPECT_TRUE(session->Close("").ok());
                  });
  }
}

}  // namespace
}  // namespace ringwood

// Sessions of an elastic job: whoever dies, and whenever, those that are left go on with what the
// undisturbed job would have, to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "base/digest.h"
#include "base/random.h"
#include "tests/client/elastic_job.h"

namespace ringwood {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kSlots = 3;
constexpr int kDoomed = 1;
constexpr uint64_t kSteps = 6;
constexpr uint64_t kFatal = 3;  // the step in which a rank dies
constexpr size_t kElements = 2000;

// A trainer's two tensors and weights; what a slot brings depends on nothing but slot, step and
// weights.
struct Trainer {
  Trainer(Session& session, const std::string& route)
      : first(session, "first", kElements, route, 0.02, 0.9),
        second(session, "second", kElements / 2, route, 0.02),
        weights(kElements, 1.0f) {}

  void Backward(int slot, uint64_t step) {
    Random random(step * 100 + slot);
    for (Gradient* gradient : {&second, &first}) {
      for (size_t i = 0; i < gradient->data.size(); ++i) {
        gradient->data[i] = static_cast<float>(random.Unit() - 0.5) + 0.01f * weights[i];
      }
    }
  }
  void Update() {
    for (size_t i = 0; i < kElements; ++i) {
      weights[i] -= 0.1f * (first.data[i] + second.data[i / 2]);
    }
  }
  uint64_t DigestOf(Session& session) {
    uint64_t digest = Digest(std::as_bytes(std::span(weights)));
    for (const Gradient* gradient : {&first, &second}) {
      std::vector<float> residual(gradient->data.size());
      EXPECT_TRUE(session.Residual(gradient->id, residual).ok());
      digest = Combine(digest, Digest(std::as_bytes(std::span(residual))));
    }
    return digest;
  }

  Gradient first, second;
  std::vector<float> weights;
};

struct ElasticOutcome {
  std::map<int, uint64_t> digests;  // of the slots at the end
  uint64_t last_of_all = 0;         // the last step with the gradients of all slots
  int exchanged_again = 0;          // on slot 0
  uint64_t epoch = 0;
};

// The undisturbed job: `all` steps with all slots, then the others go on without the doomed one,
// restarted from a checkpoint as ranks 0 and 1.
std::map<int, uint64_t> Reference(const std::string& route, const std::string& wire, uint64_t all) {
  std::map<int, uint64_t> digests;
  MemoryStore whole, rest;
  absl::Mutex mutex;
  const auto part = [&](Job job, const std::vector<int>& slots, uint64_t until) {
    job.wire = wire;
    RunJob(job, [&](Session& session, GatheringCoordinator&) {
      const int slot = slots[session.rank()];
      Trainer trainer(session, route);
      const auto bytes = std::as_writable_bytes(std::span(trainer.weights));
      if (job.has_checkpoint) {
        ASSERT_TRUE(session.RestoreItem("weights", true, bytes).ok());
      }
      while (session.step() < until) {
        trainer.Backward(slot, session.step() + 1);
        ASSERT_TRUE(session.BeginStep(slot + 1).ok());
        ASSERT_TRUE(session.Ready(trainer.second.id).ok());
        ASSERT_TRUE(session.Ready(trainer.first.id).ok());
        ASSERT_TRUE(session.FinishStep().ok());
        trainer.Update();
      }
      ASSERT_TRUE(session.Checkpoint({{"weights", true, bytes}}).ok());
      ASSERT_TRUE(session.CheckpointWait().ok());
      const uint64_t digest = trainer.DigestOf(session);
      absl::MutexLock lock(&mutex);
      digests[slot] = digest;
      EXPECT_TRUE(session.Close("").ok());
    });
  };
  part({.world = kSlots, .store = &whole}, {0, 1, 2}, all);
  for (const auto& [name, bytes] : whole.items) {
    if (name.first == kDoomed || name.second == "ringwood/plan") continue;
    if (name.second.find("/reach/") != std::string::npos) continue;  // begin anew with an epoch
    rest.items[{name.first == 2 ? 1 : name.first, name.second}] = bytes;
  }
  if (all < kSteps) {
    digests.clear();
    part({.world = kSlots - 1, .base_step = all, .has_checkpoint = all > 0, .store = &rest}, {0, 2},
         kSteps);
  }
  return digests;
}

enum class Instant { kNowhere, kBeforeReady, kBetween, kAfterReady };

struct Death {
  std::string name;
  Instant place = Instant::kNowhere;  // in the trainer, in step kFatal
  Moment moment = Moment::kNever;
  std::optional<uint64_t> last_of_all = std::nullopt;  // where only one is possible
};

ElasticOutcome Train(const std::string& route, const std::string& wire, const Death& death) {
  ElasticOutcome outcome;
  absl::Mutex mutex;
  InProcessNetwork network;
  Script script{.round = kFatal, .moment = death.moment};
  if (death.moment != Moment::kNever) script.doomed = kDoomed;
  RunElasticJob({.world = kSlots, .script = script, .wire = wire}, &network,
                [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
                  Trainer trainer(*session, route);
                  while (session->step() < kSteps) {
                    const uint64_t step = session->step() + 1;
                    const bool fatal = slot == kDoomed && step == kFatal;
                    trainer.Backward(slot, step);
                    if (fatal && death.place == Instant::kBeforeReady) return;
                    const Status begun = session->BeginStep(slot + 1);
                    ASSERT_TRUE(begun.ok()) << begun;
                    ASSERT_TRUE(session->Ready(trainer.second.id).ok());
                    if (fatal && death.place == Instant::kBetween) return;
                    ASSERT_TRUE(session->Ready(trainer.first.id).ok());
                    if (fatal && death.place == Instant::kAfterReady) return;
                    const auto result = session->FinishStep();
                    if (fatal && death.moment != Moment::kNever) {
                      EXPECT_THAT(Message(result.status()), HasSubstr("killed"));
                      return;
                    }
                    ASSERT_TRUE(result.ok()) << result.status();
                    EXPECT_EQ(result->step, step);
                    trainer.Update();
                    absl::MutexLock lock(&mutex);
                    if (result->members.size() == kSlots) {
                      EXPECT_EQ(result->total_weight, 6);
                      outcome.last_of_all = std::max(outcome.last_of_all, step);
                    } else {
                      EXPECT_THAT(result->members, ElementsAre(0, 2));
                      EXPECT_THAT(result->contributors, ElementsAre(0, 2));
                      EXPECT_EQ(result->total_weight, 4);
                    }
                    if (slot == 0) outcome.exchanged_again += result->exchanged_again;
                  }
                  const uint64_t digest = trainer.DigestOf(*session);
                  absl::MutexLock lock(&mutex);
                  outcome.digests[slot] = digest;
                  outcome.epoch = session->epoch();
                  EXPECT_EQ(session->world(), session->epoch() == 1 ? 3 : 2);
                  EXPECT_EQ(session->rank(), session->epoch() == 2 && slot == 2 ? 1 : slot);
                  EXPECT_TRUE(session->Close("").ok());
                });
  return outcome;
}

class ElasticDeath : public ::testing::TestWithParam<std::tuple<std::string, std::string, Death>> {
};

TEST_P(ElasticDeath, TheOthersGoOnWithTheBitsOfTheUndisturbedJob) {
  const auto& [route, wire, death] = GetParam();
  const ElasticOutcome outcome = Train(route, wire, death);
  EXPECT_EQ(outcome.digests, Reference(route, wire, outcome.last_of_all));
  EXPECT_EQ(outcome.epoch, death.name == "Nobody" ? 1u : 2u);
  if (death.last_of_all) {
    EXPECT_EQ(outcome.last_of_all, *death.last_of_all);
  }
  EXPECT_LE(outcome.exchanged_again, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Every, ElasticDeath,
    ::testing::Combine(
        ::testing::Values("dense", "sparse"), ::testing::Values("fp32"),
        ::testing::Values(
            Death{"Nobody", Instant::kNowhere, Moment::kNever, kSteps},
            Death{"BeforeItsGradients", Instant::kBeforeReady, Moment::kNever, kFatal - 1},
            Death{"BetweenItsGradients", Instant::kBetween, Moment::kNever, kFatal - 1},
            // Whether its last messages arrive decides which of two outcomes it is.
            Death{"WhileItExchanges", Instant::kAfterReady, Moment::kNever},
            // All that are left have prepared the step, so it counts.
            Death{"BeforeItsVote", Instant::kNowhere, Moment::kPrepared, kFatal},
            Death{"AfterItsVote", Instant::kNowhere, Moment::kVoted, kFatal},
            Death{"WithTheAnswersOfOthersLost", Instant::kNowhere, Moment::kAnswerLost, kFatal})),
    [](const auto& param) { return std::get<0>(param.param) + std::get<2>(param.param).name; });

// What codes hold back goes on, too; their scales begin anew.
INSTANTIATE_TEST_SUITE_P(
    Codes, ElasticDeath,
    ::testing::Combine(::testing::Values("dense"), ::testing::Values("int8", "int4"),
                       ::testing::Values(Death{"BetweenItsGradients", Instant::kBetween,
                                               Moment::kNever, kFatal - 1},
                                         Death{"AfterItsVote", Instant::kNowhere, Moment::kVoted,
                                               kFatal},
                                         Death{"WithTheAnswersOfOthersLost", Instant::kNowhere,
                                               Moment::kAnswerLost, kFatal})),
    [](const auto& param) { return std::get<1>(param.param) + std::get<2>(param.param).name; });

// The weights that all ranks end with, when the doomed one comes again after `moment`.
class ElasticReturn : public ::testing::TestWithParam<std::tuple<std::string, Moment>> {};

TEST_P(ElasticReturn, ARankThatDiedComesAgainAndGetsTheStateOfTheOthers) {
  const auto& [route, moment] = GetParam();
  constexpr uint64_t kLast = 9;
  std::map<int, uint64_t> weights;
  int came = 0;
  absl::Mutex mutex;
  InProcessNetwork network;
  const Script script{.doomed = kDoomed,
                      .round = kFatal,
                      .moment = moment,
                      .regroup_after = {kFatal + 2},
                      .restart = true};
  RunElasticJob({.world = kSlots, .script = script}, &network,
                [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
                  Trainer trainer(*session, route);
                  const auto bytes = std::as_writable_bytes(std::span(trainer.weights));
                  ASSERT_TRUE(session->RegisterState("weights", bytes).ok());
                  if (session->receiving()) {
                    std::ranges::fill(trainer.weights, NAN);
                    EXPECT_EQ(session->AllGather(bytes, DataType::kFloat32).code(),
                              StatusCode::kFailedPrecondition);
                    const auto first = session->FinishStep();
                    ASSERT_TRUE(first.ok()) << first.status();
                    EXPECT_TRUE(first->received);
                    EXPECT_THAT(first->members, ElementsAre(0, 1, 2));
                    EXPECT_THAT(first->contributors, ElementsAre(0, 2));
                    EXPECT_FALSE(session->receiving());
                    ++came;
                    trainer.Update();
                  }
                  while (session->step() < kLast) {
                    trainer.Backward(slot, session->step() + 1);
                    ASSERT_TRUE(session->BeginStep(slot + 1).ok());
                    ASSERT_TRUE(session->Ready(trainer.second.id).ok());
                    ASSERT_TRUE(session->Ready(trainer.first.id).ok());
                    const auto result = session->FinishStep();
                    if (!result.ok()) {
                      EXPECT_EQ(slot, kDoomed) << result.status();
                      return;
                    }
                    EXPECT_FALSE(result->received);
                    if (result->step == kLast) {
                      EXPECT_EQ(result->total_weight, 6);
                    }
                    trainer.Update();
                  }
                  absl::MutexLock lock(&mutex);
                  weights[slot] = Digest(bytes);
                  EXPECT_TRUE(session->Close("").ok());
                });
  EXPECT_EQ(came, 1);
  EXPECT_EQ(weights[1], weights[0]);
  EXPECT_EQ(weights[2], weights[0]);
}

INSTANTIATE_TEST_SUITE_P(Every, ElasticReturn,
                         ::testing::Combine(::testing::Values("dense", "sparse"),
                                            ::testing::Values(Moment::kPrepared, Moment::kVoted,
                                                              Moment::kAnswerLost)));

using AfterStep = std::function<void(int slot, uint64_t step, ElasticCoordinator&)>;

// What all slots end with when an epoch ends for a reason of its own.
std::map<int, uint64_t> TrainThrough(const Script& script, InProcessNetwork* network, int* epochs,
                                     const AfterStep& after_step = nullptr) {
  std::map<int, uint64_t> digests;
  absl::Mutex mutex;
  RunElasticJob({.world = kSlots, .script = script}, network,
                [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator& coordinator) {
                  Trainer trainer(*session, "sparse");
                  while (session->step() < kSteps) {
                    trainer.Backward(slot, session->step() + 1);
                    ASSERT_TRUE(session->BeginStep(slot + 1).ok());
                    ASSERT_TRUE(session->Ready(trainer.second.id).ok());
                    ASSERT_TRUE(session->Ready(trainer.first.id).ok());
                    const auto result = session->FinishStep();
                    ASSERT_TRUE(result.ok()) << result.status();
                    EXPECT_EQ(result->total_weight, 6);
                    trainer.Update();
                    if (after_step) after_step(slot, result->step, coordinator);
                  }
                  const uint64_t digest = trainer.DigestOf(*session);
                  absl::MutexLock lock(&mutex);
                  digests[slot] = digest;
                  *epochs = static_cast<int>(session->epoch());
                  EXPECT_TRUE(session->Close("").ok());
                });
  return digests;
}

TEST(Elastic, AnEpochThatEndsWithACommitChangesNoBit) {
  int epochs = 0;
  InProcessNetwork network;
  EXPECT_EQ(TrainThrough({.regroup_after = {1, 2, 4, kSteps}}, &network, &epochs),
            Reference("sparse", "fp32", kSteps));
  EXPECT_EQ(epochs, 4);  // nobody finishes a step after the last one
}

TEST(Elastic, TheDeathOfAServerChangesNoBit) {
  int epochs = 0;
  InProcessNetwork network;
  JobReducer reducer(&network, kSlots);
  const auto die = [](int slot, uint64_t step, ElasticCoordinator& coordinator) {
    if (slot == 1 && step == kFatal) coordinator.FailEpoch("server 0 (host h) failed");
  };
  EXPECT_EQ(TrainThrough({.reducer = &reducer}, &network, &epochs, die),
            Reference("sparse", "fp32", kSteps));
  EXPECT_EQ(epochs, 2);
}

// One dies in a step, another one later or while the next epoch is entered; slot 0 is left.
void TrainOn(const Script& script, uint64_t second_death, const std::vector<int>& worlds) {
  InProcessNetwork network;
  RunElasticJob({.world = kSlots, .script = script}, &network,
                [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
                  Trainer trainer(*session, "dense");
                  std::vector<int> seen;
                  while (session->step() < kSteps) {
                    const uint64_t step = session->step() + 1;
                    if (slot == 1 && step == kFatal) return;
                    if (slot == 2 && step == second_death) return;
                    trainer.Backward(slot, step);
                    ASSERT_TRUE(session->Ready(trainer.second.id).ok());
                    ASSERT_TRUE(session->Ready(trainer.first.id).ok());
                    const auto result = session->FinishStep();
                    if (slot == script.dies_entering && !result.ok()) return;
                    ASSERT_TRUE(result.ok()) << result.status();
                    EXPECT_EQ(result->step, step);
                    seen.push_back(static_cast<int>(result->members.size()));
                    trainer.Update();
                  }
                  EXPECT_EQ(slot, 0);
                  EXPECT_EQ(seen, worlds);
                  EXPECT_EQ(session->world(), 1);
                  EXPECT_TRUE(session->Close("").ok());
                });
}

TEST(Elastic, TwoDeathsOneAfterTheOtherLeaveOneRankThatGoesOn) {
  TrainOn({}, kFatal + 2, {3, 3, 2, 2, 1, 1});
}

TEST(Elastic, TwoDeathsAtOnceAreOneOrTwoChanges) { TrainOn({}, kFatal, {3, 3, 1, 1, 1, 1}); }

TEST(Elastic, ADeathOnTheWayIntoTheNextEpochIsFollowedByAnother) {
  TrainOn({.dies_entering = 2}, kSteps + 1, {3, 3, 1, 1, 1, 1});
}

// Else one of them would save alone.
TEST(Elastic, WhatACommitAsksForIsAskedOfThoseThatDoNotHearIt) {
  InProcessNetwork network;
  const Script script{.doomed = kDoomed, .round = kFatal, .moment = Moment::kAnswerLost};
  RunElasticJob({.script = script}, &network,
                [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
                  Gradient gradient(*session, "w", 10, "dense");
                  while (session->step() < kSteps) {
                    const bool fatal = session->step() + 1 == kFatal;
                    if (fatal && slot == kDoomed) session->AskToEnd();
                    ASSERT_TRUE(session->Ready(gradient.id).ok());
                    const auto result = session->FinishStep();
                    if (fatal && slot == kDoomed) return;
                    ASSERT_TRUE(result.ok()) << result.status();
                    EXPECT_EQ(result->ending, fatal) << "slot " << slot;
                    EXPECT_EQ(result->checkpoint_due, fatal) << "slot " << slot;
                  }
                  EXPECT_TRUE(session->Close("").ok());
                });
}

// The coordinator's word is final.
TEST(Elastic, AFailureThatDoesNotRecoverEndsTheSession) {
  InProcessNetwork network;
  RunElasticJob({.world = kSlots, .script = {.doomed = 1, .round = 1, .moment = Moment::kPrepared}},
                &network, [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
                  Gradient gradient(*session, "w", 10, "dense");
                  ASSERT_TRUE(session->Ready(gradient.id).ok());
                  const auto first = session->FinishStep();
                  if (slot != 1) {
                    EXPECT_TRUE(first.ok()) << first.status();
                    EXPECT_TRUE(session->Close("").ok());
                    return;
                  }
                  EXPECT_THAT(Message(first.status()), HasSubstr("killed"));
                  EXPECT_EQ(session->FinishStep().status(), first.status());
                  EXPECT_EQ(session->BeginStep(1), first.status());
                  EXPECT_EQ(session->Ready(gradient.id), first.status());
                });
}

TEST(Elastic, WhatIsExchangedAgainCountsAsReadyInItsNewEpoch) {
  InProcessNetwork network;
  RunElasticJob(
      {.world = 2}, &network,
      [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator& coordinator) {
        Gradient first(*session, "first", 40, "dense", 1);
        Gradient second(*session, "second", 40, "dense", 1);
        ASSERT_TRUE(session->BeginStep(1).ok());
        ASSERT_TRUE(session->Ready(second.id).ok());
        if (slot == 0) {  // the other one may hear of the failure before its first gradient
          const v1::Beat before = coordinator.BeatOf(slot);
          EXPECT_EQ(before.loaded(), 1);
          EXPECT_EQ(before.progress(), 1);
          EXPECT_TRUE(before.has_missing());
          coordinator.FailEpoch("a trial");
        }
        ASSERT_TRUE(session->Ready(first.id).ok());
        const auto result = session->FinishStep();
        ASSERT_TRUE(result.ok()) << result.status();
        const v1::Beat beat = coordinator.BeatOf(slot);
        EXPECT_EQ(beat.step(), 1);
        EXPECT_EQ(beat.progress(), 2);
        EXPECT_FALSE(beat.has_missing());
        EXPECT_TRUE(session->Close("").ok());
      });
}

TEST(Elastic, ACheckpointWhoseEpochEndsUnderItEndsAlikeOnAllRanks) {
  for (const Status& ended : {OkStatus(), Unavailable("rank 7 is gone")}) {
    absl::Notification ends;
    MemoryStore store;
    store.ends = &ends;
    store.ended = ended;
    InProcessNetwork network;
    RunElasticJob(
        {.world = kSlots, .store = &store}, &network,
        [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator& coordinator) {
          Gradient gradient(*session, "w", 10, "dense");
          ASSERT_TRUE(session->Ready(gradient.id).ok());
          ASSERT_TRUE(session->FinishStep().ok());
          ASSERT_TRUE(session->Checkpoint({}).ok());
          std::thread change([&, slot] {
            if (slot != 0) return;
            coordinator.FailEpoch("a trial");
            while (coordinator.epoch() < 2)
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            ends.Notify();
          });
          const Status told = session->CheckpointWait();
          change.join();
          EXPECT_EQ(told.code(), ended.code()) << told;
          EXPECT_EQ(session->epoch(), 2u);
          int32_t sum = 1;
          const auto bytes = std::as_writable_bytes(std::span(&sum, 1));
          EXPECT_TRUE(session->AllReduce(bytes, DataType::kInt32, ReduceOp::kSum).ok());
          EXPECT_EQ(sum, kSlots) << "the calls after it are not told of the change a second time";
          EXPECT_TRUE(session->Close("").ok());
        });
  }
}

TEST(Elastic, ACollectiveThatAChangeInterruptsIsRepeatedByTheTrainer) {
  InProcessNetwork network;
  RunElasticJob({.world = kSlots}, &network,
                [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
                  int32_t sum = 1;
                  const auto bytes = std::as_writable_bytes(std::span(&sum, 1));
                  ASSERT_TRUE(session->AllReduce(bytes, DataType::kInt32, ReduceOp::kSum).ok());
                  EXPECT_EQ(sum, kSlots);
                  if (slot == 0) return;  // dies
                  const Status changed =
                      session->AllReduce(bytes, DataType::kInt32, ReduceOp::kSum);
                  EXPECT_EQ(changed.code(), StatusCode::kAborted) << changed;
                  EXPECT_THAT(Message(changed), HasSubstr("repeat the calls"));
                  EXPECT_EQ(session->rank(), slot - 1);
                  EXPECT_EQ(session->world(), kSlots - 1);
                  sum = 1;
                  ASSERT_TRUE(session->AllReduce(bytes, DataType::kInt32, ReduceOp::kSum).ok());
                  EXPECT_EQ(sum, kSlots - 1);
                  EXPECT_TRUE(session->Close("").ok());
                });
}

}  // namespace
}  // namespace ringwood

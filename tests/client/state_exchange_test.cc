// How the state of a training comes to a rank that joins later: items of any size, given when they
// are wanted, and what is refused.
#include "client/state_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/client/elastic_job.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

constexpr int kNewcomer = 1;
constexpr uint64_t kStepOfDeath = 2;
constexpr uint64_t kLast = 6;

using StateBytes = std::vector<std::byte>;

StateBytes Pattern(size_t size, int seed) {
  StateBytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + i / 999 + seed));
  return bytes;
}

// Slot 1 dies in step 2 and comes again; `prepare` is called on every session, `survive` for each
// step of a rank that has the state, `come` for the first one of the rank that has not.
struct NewcomerTrainer {
  std::function<void(Session&)> prepare = [](Session&) {};
  std::function<StatusOr<StepResult>(Session&)> survive = [](Session& s) { return s.FinishStep(); };
  std::function<bool(Session&)> come;  // false: it gives up
};

void RunWithNewcomer(const NewcomerTrainer& trainer) {
  InProcessNetwork network;
  const Script script{.doomed = kNewcomer,
                      .round = kStepOfDeath,
                      .moment = Moment::kPrepared,
                      .regroup_after = {kStepOfDeath + 1},
                      .restart = true};
  RunElasticJob({.world = 3, .script = script}, &network,
                [&](std::unique_ptr<Session> session, int slot, ElasticCoordinator&) {
                  Gradient gradient(*session, "w", 10, "dense");
                  trainer.prepare(*session);
                  if (session->receiving() && !trainer.come(*session)) return;
                  while (session->step() < kLast) {
                    ASSERT_TRUE(session->Ready(gradient.id).ok());
                    const auto result = trainer.survive(*session);
                    if (!result.ok()) {
                      EXPECT_EQ(slot, kNewcomer) << result.status();
                      return;
                    }
                  }
                  EXPECT_TRUE(session->Close("").ok());
                });
}

TEST(StateExchange, ItemsOfEverySizeArriveWhole) {
  // Nothing, one byte, a whole piece, several pieces and a part.
  const std::vector<size_t> sizes = {0, 1, kStatePieceBytes, 5 * kStatePieceBytes + 12345, 7};
  NewcomerTrainer trainer;
  std::vector<std::vector<StateBytes>> memory;  // stays to the end
  absl::Mutex mutex;
  trainer.prepare = [&](Session& session) {
    absl::MutexLock lock(&mutex);
    std::vector<StateBytes>& items = memory.emplace_back();
    for (size_t i = 0; i < sizes.size(); ++i) {
      items.push_back(session.receiving() ? StateBytes(sizes[i]) : Pattern(sizes[i], i));
      ASSERT_TRUE(session.RegisterState("item " + std::to_string(i), items[i]).ok());
    }
  };
  int came = 0;
  trainer.come = [&](Session& session) {
    const auto result = session.FinishStep();
    EXPECT_TRUE(result.ok() && result->received) << result.status();
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto item = session.ReceivedState("item " + std::to_string(i));
      EXPECT_TRUE(item.ok() && std::ranges::equal(*item, Pattern(sizes[i], i))) << i;
    }
    EXPECT_EQ(session.ReceivedState("none").status().code(), StatusCode::kNotFound);
    ++came;
    return true;
  };
  memory.reserve(4);
  RunWithNewcomer(trainer);
  EXPECT_EQ(came, 1);
  for (const std::vector<StateBytes>& items : memory) {
    for (size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(items[i], Pattern(sizes[i], i)) << i;
  }
}

TEST(StateExchange, AListOfSeveralPiecesArrivesToo) {
  constexpr int kItems = 20'000;
  const std::string prefix(200, 'n');
  std::vector<int> values(kItems);
  std::iota(values.begin(), values.end(), 0);
  const auto own = std::as_writable_bytes(std::span(values));
  NewcomerTrainer trainer;
  std::vector<StateBytes> memory(4);  // of those that come; stays to the end
  std::atomic<size_t> sessions{0};
  trainer.prepare = [&](Session& session) {
    StateBytes& here = memory[sessions++];
    here.resize(own.size());
    for (int i = 0; i < kItems; ++i) {
      const auto all = session.receiving() ? std::span(here) : own;
      ASSERT_TRUE(session.RegisterState(prefix + std::to_string(i), all.subspan(4 * i, 4)).ok());
    }
  };
  int came = 0;
  trainer.come = [&](Session& session) {
    const auto result = session.FinishStep();
    EXPECT_TRUE(result.ok() && result->received) << result.status();
    for (int i = 0; i < kItems; i += 997) {
      const auto item = session.ReceivedState(prefix + std::to_string(i));
      EXPECT_TRUE(item.ok() && std::ranges::equal(*item, own.subspan(4 * i, 4))) << i;
    }
    return ++came == 1;
  };
  RunWithNewcomer(trainer);
  EXPECT_EQ(came, 1);
}

TEST(StateExchange, ItemsAreGivenWhenTheyAreWantedAndForgottenAfterwards) {
  NewcomerTrainer trainer;
  trainer.prepare = [](Session& session) { session.GiveStateOnRequest(true); };
  std::atomic<int> given{0};
  StateBytes old = Pattern(100, 99);  // given for a rank that was lost before it got it
  trainer.survive = [&](Session& session) -> StatusOr<StepResult> {
    if (session.step() == 0) {
      EXPECT_TRUE(session.RegisterState("now", old).ok());
    }
    StatusOr<StepResult> result = session.FinishStep();
    if (!session.state_wanted()) return result;
    EXPECT_EQ(result.status().code(), StatusCode::kFailedPrecondition);
    StateBytes text = Pattern(100, static_cast<int>(session.step()));
    EXPECT_TRUE(session.RegisterState("now", text).ok());
    ++given;
    result = session.FinishStep();
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(session.state_wanted());
    return result;
  };
  trainer.come = [](Session& session) {
    const auto result = session.FinishStep();
    EXPECT_TRUE(result.ok() && result->received) << result.status();
    const auto item = session.ReceivedState("now");
    EXPECT_TRUE(item.ok());
    EXPECT_TRUE(std::ranges::equal(*item, Pattern(100, static_cast<int>(session.step() - 1))));
    return true;
  };
  RunWithNewcomer(trainer);
  EXPECT_EQ(given, 2);
}

TEST(StateExchange, WhatCameIsHeldUntilTheNextStep) {
  NewcomerTrainer trainer;
  StateBytes own = Pattern(100, 1), other(100);
  trainer.prepare = [&](Session& session) {
    EXPECT_TRUE(session.RegisterState("weights", session.receiving() ? other : own).ok());
  };
  int came = 0;
  trainer.come = [&](Session& session) {
    EXPECT_TRUE(session.FinishStep().ok());
    EXPECT_TRUE(session.ReceivedState("weights").ok());
    return ++came == 1;
  };
  trainer.survive = [](Session& session) {
    const auto result = session.FinishStep();
    EXPECT_EQ(session.ReceivedState("weights").status().code(), StatusCode::kNotFound);
    return result;
  };
  RunWithNewcomer(trainer);
  EXPECT_EQ(came, 1);
}

TEST(StateExchange, WithoutItemsTheOthersGoOnAndTheNewcomerIsToldWhy) {
  NewcomerTrainer trainer;
  trainer.come = [](Session& session) {
    const auto result = session.FinishStep();
    EXPECT_EQ(result.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(result.status()), HasSubstr("register them on every rank"));
    return false;
  };
  RunWithNewcomer(trainer);
}

TEST(StateExchange, AnItemOfAnotherSizeIsNamed) {
  NewcomerTrainer trainer;
  static StateBytes own(10), other(11);
  trainer.prepare = [](Session& session) {
    EXPECT_TRUE(session.RegisterState("weights", session.receiving() ? other : own).ok());
  };
  trainer.come = [](Session& session) {
    EXPECT_THAT(Message(session.FinishStep().status()),
                HasSubstr("'weights' has 11 bytes here, 10 on other ranks"));
    return false;
  };
  RunWithNewcomer(trainer);
}

}  // namespace
}  // namespace ringwood

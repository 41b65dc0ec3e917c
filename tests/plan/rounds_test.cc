#include "plan/strategy/rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

// 25 million elements, 100 ms a step, 1 Gbit/s.
RoundsInput Typical() {
  RoundsInput input;
  input.plan.tensors = {{"a", 20000000}, {"b", 5000000}};
  input.plan.ready_seconds = {0.05, 0.07};
  input.plan.forward_seconds = 0.03;
  input.plan.world = 4;
  return input;
}

const RoundsChoice& Chosen(const std::vector<RoundsChoice>& choices) {
  const auto is_chosen = [](const RoundsChoice& choice) { return choice.chosen; };
  EXPECT_EQ(std::count_if(choices.begin(), choices.end(), is_chosen), 1);
  return *std::find_if(choices.begin(), choices.end(), is_chosen);
}

TEST(Rounds, TheFewestStepsThatReachTheUtilisationAreFound) {
  Random random(1);
  for (int trial = 0; trial < 200; ++trial) {
    RoundsInput input = Typical();
    input.plan.forward_seconds = 0.001 + random.Unit();
    input.plan.network.beta = 1e-9 * (1 + 80 * random.Unit());
    input.plan.world = 2 + static_cast<int>(random.Below(15));
    input.utilisation = 0.5 + 0.49 * random.Unit();
    input.fragments = 1 + static_cast<int>(random.Below(4));
    input.delay = static_cast<int>(random.Below(4));
    input.most_every = 1000;
    const auto choices = PlanRounds(input);
    ASSERT_TRUE(choices.ok()) << choices.status();
    for (const RoundsChoice& choice : *choices) {
      EXPECT_EQ(choice.every % input.fragments, 0);
      EXPECT_GE(choice.every, input.delay * input.fragments);
      EXPECT_LE(choice.every, input.most_every);
      EXPECT_EQ(choice.reaches, choice.utilisation >= input.utilisation * (1 - 1e-9));
      const int fewer = choice.every - input.fragments;
      if (!choice.reaches || fewer < std::max(1, input.delay) * input.fragments) continue;
      const double training = fewer * StepSeconds(input.plan);
      const double others = choice.every * StepSeconds(input.plan) * (1 / choice.utilisation - 1);
      EXPECT_LT(training / (training + others), input.utilisation);
    }
    for (const RoundsChoice& choice : *choices) {
      if (choice.reaches) {
        EXPECT_LE(Chosen(*choices).every, choice.every);
      }
    }
  }
}

TEST(Rounds, AFastNetworkNeedsNoSecondStepAndNoCode) {
  RoundsInput input = Typical();
  input.plan.network = {1e-6, 1e-13, 0};
  input.outer_seconds_per_element = 1e-12;
  const auto choices = PlanRounds(input);
  ASSERT_TRUE(choices.ok()) << choices.status();
  EXPECT_EQ(Chosen(*choices).codec, "fp32");
  EXPECT_EQ(Chosen(*choices).every, 1);
}

TEST(Rounds, ASlowNetworkIsAnsweredWithFewEntriesRatherThanManySteps) {
  RoundsInput input = Typical();
  input.plan.network.beta *= 10;  // 100 Mbit/s
  const auto choices = PlanRounds(input);
  ASSERT_TRUE(choices.ok()) << choices.status();
  const RoundsChoice& chosen = Chosen(*choices);
  EXPECT_LT(chosen.density, 1);
  EXPECT_GE(chosen.utilisation, input.utilisation);
  EXPECT_GT(chosen.fewer_bytes, 200);
  EXPECT_GT(choices->front().every, chosen.every);
}

TEST(Rounds, ADelayHidesTheExchange) {
  RoundsInput input = Typical();
  const auto without = PlanRounds(input);
  input.delay = 4;
  const auto with = PlanRounds(input);
  ASSERT_TRUE(without.ok() && with.ok());
  for (size_t i = 0; i < with->size(); ++i) {
    const double hidden = 4 * StepSeconds(input.plan);
    EXPECT_NEAR((*with)[i].exposed_seconds, std::max(0.0, (*without)[i].exposed_seconds - hidden),
                1e-12);
    EXPECT_LE((*with)[i].every, std::max(4, (*without)[i].every));
  }
}

TEST(Rounds, WhereNothingReachesItTheNearestIsChosenAndSaysSo) {
  RoundsInput input = Typical();
  input.plan.network.beta = 1e-3;
  const auto choices = PlanRounds(input);
  ASSERT_TRUE(choices.ok()) << choices.status();
  EXPECT_FALSE(Chosen(*choices).reaches);
  for (const RoundsChoice& choice : *choices) {
    EXPECT_LE(choice.utilisation, Chosen(*choices).utilisation);
  }
}

TEST(Rounds, TheChosenOneIsShownAsPythonHasIt) {
  RoundsInput input = Typical();
  input.fragments = 2;
  input.delay = 1;
  input.plan.network.beta *= 10;
  const auto choices = PlanRounds(input);
  ASSERT_TRUE(choices.ok()) << choices.status();
  const std::string text = ToTable(*choices, input), json = ToJson(*choices, input);
  EXPECT_THAT(text, HasSubstr("\n* rw.LocalSteps(model, optimizer, every=" +
                              std::to_string(Chosen(*choices).every) + ", density="));
  EXPECT_THAT(text, HasSubstr(", chunk=4096, fragments=2, delay=1)"));
  EXPECT_THAT(json, HasSubstr("\"chosen\": true"));
}

TEST(Rounds, WrongNumbersAreNamed) {
  RoundsInput input = Typical();
  input.utilisation = 1;
  EXPECT_THAT(Message(PlanRounds(input).status()), HasSubstr("utilisation"));
  input = Typical();
  input.fragments = 0;
  EXPECT_THAT(Message(PlanRounds(input).status()), HasSubstr("0 fragments"));
  input = Typical();
  input.delay = 300;
  input.fragments = 2;
  EXPECT_THAT(Message(PlanRounds(input).status()), HasSubstr("delay of 300"));
  input = Typical();
  input.plan.forward_seconds = 0;
  input.plan.ready_seconds = {0, 0};
  EXPECT_THAT(Message(PlanRounds(input).status()), HasSubstr("forward"));
}

}  // namespace
}  // namespace ringwood

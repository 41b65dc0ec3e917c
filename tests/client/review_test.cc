#include "client/replan/review.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "client/replan/adapter.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

constexpr double kForward = 0.02;

// Twenty equal tensors, a millisecond apart.
PlanInput Table(uint64_t elements) {
  PlanInput input;
  input.world = 4;
  input.servers = 1;
  for (int t = 0; t < 20; ++t) {
    input.tensors.push_back({"t" + std::to_string(t), elements, "dense", 0.01});
  }
  return input;
}

// What a network of this ring cost would show of the plan, all exactly as predicted.
Measured Reality(const PlanInput& table, const Plan& plan, const AffineFit& ring) {
  Measured measured;
  for (size_t t = 0; t < table.tensors.size(); ++t) {
    measured.ready_seconds.push_back(kForward + 1e-3 * static_cast<double>(t));
  }
  PlanInput input = table;
  for (size_t t = 0; t < table.tensors.size(); ++t) {
    input.ready_seconds.push_back(1e-3 * static_cast<double>(t));
  }
  input.forward_seconds = kForward;
  input.ring_cost = ring.cost();
  for (const Group& group : plan.groups) {
    double bytes = 0;
    for (uint32_t t : group.tensors) bytes += 4.0 * static_cast<double>(table.tensors[t].elements);
    measured.group_seconds.push_back(ring.cost().Seconds(bytes));
    measured.pack_seconds.push_back(0);
  }
  measured.tail_seconds = 1e-3;
  measured.round_seconds = Predict(input, plan) + measured.tail_seconds;
  return measured;
}

Plan Made(const std::string& planner, const PlanInput& table) {
  StatusOr<Plan> plan = MakePlan(planner, table);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

TEST(Review, FindsThePlanThatTheNetworkAsksFor) {
  const PlanInput table = Table(100'000);
  // A start-up as long as all bytes: messages must be merged. And none: they must not be.
  const AffineFit slow_start{0.05, 1e-9, 0}, slow_bytes{1e-6, 5e-8, 0};
  const Plan apart = Made("wfbp", table), merged = Made("single", table);
  PlanQuestion question{"exact", table, apart, 0, slow_start};
  const Measured at_first = Reality(table, apart, slow_start);
  StatusOr<PlanAnswer> answer = Review(question, at_first);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_TRUE(answer->plan.has_value()) << answer->reason;
  EXPECT_LE(answer->plan->groups.size(), 2u);
  EXPECT_LT(answer->promised, at_first.round_seconds / 5);
  EXPECT_THAT(answer->reason, HasSubstr("first measurement"));
  // The promise holds on the network that it was made for.
  const Measured kept = Reality(table, *answer->plan, slow_start);
  EXPECT_NEAR(Drift(answer->promised, kept), 0, 1e-6);

  question.plan = merged;
  question.ring = slow_bytes;
  question.promised = 0.03 - kForward;
  const Measured later = Reality(table, merged, slow_bytes);
  EXPECT_GT(Drift(question.promised, later), kDriftLimit);
  answer = Review(question, later);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_TRUE(answer->plan.has_value()) << answer->reason;
  EXPECT_GT(answer->plan->groups.size(), 1u);
  EXPECT_THAT(answer->reason, HasSubstr("where 30 ms was predicted"));
}

TEST(Review, LeavesTheBestPlanAndPromisesWhatWasMeasured) {
  const PlanInput table = Table(100'000);
  const AffineFit ring{1e-3, 1e-8, 0};
  PlanQuestion question{"exact", table, Made("single", table), 0, ring};
  StatusOr<PlanAnswer> answer = Review(question, Reality(table, question.plan, ring));
  ASSERT_TRUE(answer.ok() && answer->plan) << answer->reason;
  question.plan = *answer->plan;
  question.promised = 0.5 * answer->promised;
  const Measured measured = Reality(table, question.plan, ring);
  answer = Review(question, measured);
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(answer->plan.has_value());
  EXPECT_NEAR(answer->promised, measured.round_seconds - kForward, 1e-9);
  EXPECT_THAT(answer->reason, HasSubstr("it stays"));
}

TEST(Review, WhatTheTrainerDoesBetweenStepsIsNoDrift) {
  const PlanInput table = Table(100'000);
  const AffineFit ring{1e-3, 1e-8, 0};
  const Plan plan = Made("single", table);
  Measured measured = Reality(table, plan, ring);
  const double promised = measured.round_seconds - OwnSeconds(measured);
  EXPECT_NEAR(Drift(promised, measured), 0, 1e-9);
  constexpr double kLoading = 0.5;  // samples come late now
  for (double& ready : measured.ready_seconds) ready += kLoading;
  measured.round_seconds += kLoading;
  EXPECT_NEAR(OwnSeconds(measured), kForward + kLoading, 1e-9);
  EXPECT_NEAR(Drift(promised, measured), 0, 1e-9);
  measured.round_seconds *= 1.2;  // and the exchange slower
  EXPECT_NEAR(Drift(promised, measured), 0.2, 1e-9);
}

TEST(Review, PlansInTheOrderInWhichGradientsWereReady) {
  const PlanInput table = Table(100'000);
  PlanQuestion question{"wfbp", table, Made("single", table), 0, AffineFit{1e-5, 1e-8, 0}};
  Measured measured = Reality(table, question.plan, question.ring);
  std::reverse(measured.ready_seconds.begin(), measured.ready_seconds.end());
  const StatusOr<PlanAnswer> answer = Review(question, measured);
  ASSERT_TRUE(answer.ok() && answer->plan) << answer.status();
  EXPECT_EQ(answer->plan->groups.front().tensors, std::vector<uint32_t>{19});
  EXPECT_TRUE(Validate(*answer->plan, table.tensors).ok());
}

// A network that is ten times as fast as the first plan believed hides more: LAGS makes its layers
// denser though no step gets shorter, says which and why, and back again when it is slow.
TEST(Review, LagsFitsTheDensitiesToWhatWasMeasured) {
  PlanInput table = Table(1'000'000);
  for (TensorSpec& tensor : table.tensors) tensor.route = "sparse";
  const auto reality = [&](const Plan& plan, const AffineFit& ring, double byte) {
    Measured measured = Reality(table, plan, ring);
    measured.group_seconds.clear();
    for (const Group& group : plan.groups) {
      measured.group_seconds.push_back(1e-5 + byte * table.entry_bytes * group.k);
    }
    return measured;
  };
  const AffineFit ring{1e-5, 1e-9, 0};
  const Plan first = Made("lags", table);
  const PlanQuestion question{"lags", table, first, 0, ring};
  const auto denser = Review(question, reality(first, ring, 1e-9));
  ASSERT_TRUE(denser.ok()) << denser.status();
  ASSERT_TRUE(denser->plan) << denser->reason;
  EXPECT_THAT(denser->reason, HasSubstr("densities: t"));
  EXPECT_THAT(denser->reason, HasSubstr("(hides: "));
  const PlanQuestion then{"lags", table, *denser->plan, denser->promised, {1e-5, 1e-7, 0}};
  const auto sparser = Review(then, reality(*denser->plan, then.ring, 1e-7));
  ASSERT_TRUE(sparser.ok()) << sparser.status();
  ASSERT_TRUE(sparser->plan) << sparser->reason;
  EXPECT_THAT(sparser->reason, HasSubstr("→ 0.01 ("));
}

// An adapter whose first review was asked for, on a network whose rings take what `ring` says.
struct Adapting {
  const PlanInput table = Table(100'000);
  const AffineFit ring;
  const Plan first;
  const Measured before = Reality(table, first, ring);
  Adapter adapter{{"exact", table, first, 0, ring}};

  Adapting(const char* planner, const AffineFit& cost) : ring(cost), first(Made(planner, table)) {
    adapter.Adopted(first, kWarmUpStages);
    const Adapter::Request request = adapter.Next(Profile::kWindow);
    EXPECT_TRUE(request.review && request.probe) << "nothing is known yet";
  }

  // The plan that the review leads to, and that runs from then on.
  Plan Change() {
    adapter.Reviewed(before, Adapter::Probed{ring, 0});
    Adapter::Request request;
    for (int wait = 0; !request.plan && wait < 60'000; ++wait) {
      request = adapter.Next(0);
      absl::SleepFor(absl::Milliseconds(1));
    }
    RW_CHECK(request.plan.has_value());
    adapter.Adopted(*request.plan, kWarmUpStages);
    return *request.plan;
  }
};

// On a network that never does what was predicted.
TEST(Adapter, ProbesTakeABoundedShareOfTheTime) {
  Adapting adapting("exact", {1e-3, 1e-9, 0});
  Adapter& adapter = adapting.adapter;
  Measured measured = adapting.before;
  const double seconds = 100 * measured.round_seconds;  // such delays
  adapter.Reviewed(measured, Adapter::Probed{adapting.ring, seconds});
  Adapter::Request request;
  int rounds = 0, reviews = 0;
  for (;; ++rounds) {
    ASSERT_LT(rounds, 1'000'000) << "the network is never probed again";
    request = adapter.Next(Profile::kWindow);
    if (request.plan) adapter.Adopted(*request.plan, kWarmUpStages);
    if (request.probe) break;
    absl::SleepFor(absl::Microseconds(1));  // a plan may be in the making
    if (!request.review) continue;
    ++reviews;
    measured.round_seconds *= 1.5;
    adapter.Reviewed(measured, std::nullopt);
  }
  EXPECT_GE(rounds, 100 / Adapter::kProbeShare - 1);
  EXPECT_GT(reviews, 0);
}

// Where delays are long a review takes as long as half a step.
TEST(Adapter, ReviewsTakeABoundedShareOfTheTime) {
  Adapting adapting("exact", {1e-3, 1e-9, 0});
  Adapter& adapter = adapting.adapter;
  const Measured measured = Reality(adapting.table, adapting.Change(), adapting.ring);
  const auto rounds_to_review = [&] {
    for (int rounds = 1; rounds < 1'000'000; ++rounds) {
      if (adapter.Next(Profile::kWindow).review) return rounds;
    }
    return 0;
  };
  EXPECT_EQ(rounds_to_review(), static_cast<int>(Adapter::kReviewEvery));
  adapter.Reviewed(measured, std::nullopt, 0.5 * measured.round_seconds);
  EXPECT_GE(rounds_to_review(), 0.5 / Adapter::kReviewShare);
  adapter.Reviewed(measured, std::nullopt, 1e-6 * measured.round_seconds);
  EXPECT_LE(rounds_to_review(), static_cast<int>(Adapter::kReviewEvery));
}

// Groups that take no more than the delay of hops cost their lane nothing: they stay apart.
TEST(Review, ADelayIsNoReasonToMerge) {
  PlanInput table = Table(1'000);
  table.tensors.resize(kRingsAtOnce);
  const Plan apart = Made("wfbp", table);
  Measured measured = Reality(table, apart, {1e-6, 1e-12, 0});
  measured.round_seconds += 0.1;                                     // two hops
  PlanQuestion question{"exact", table, apart, 0, {0.3, 1e-12, 0}};  // six hops
  question.delay = 0.05;
  const auto far = Review(question, measured);
  ASSERT_TRUE(far.ok()) << far.status();
  EXPECT_FALSE(far->plan) << far->reason;
  question.delay = 0;
  const auto slow = Review(question, Reality(table, apart, {0.3, 1e-12, 0}));
  ASSERT_TRUE(slow.ok()) << slow.status();
  ASSERT_TRUE(slow->plan) << slow->reason;
  EXPECT_EQ(slow->plan->groups.size(), 1u) << slow->reason;
}

// One host whose clock has seen no time pass: the fit is {0, 0}, and so is what was measured.
TEST(Review, WhatWasFreeAndIsHasACost) {
  const AffineFit free{0, 0, 0};
  EXPECT_EQ(Refine(free, {{1024, 0}}).startup_seconds, 0);
  EXPECT_EQ(Refine(free, {{1024, 0}}).seconds_per_byte, 0);
  const PlanInput table = Table(100'000);
  const Plan plan = Made("single", table);
  const auto answer = Review({"exact", table, plan, 0, free}, Reality(table, plan, free));
  EXPECT_TRUE(answer.ok()) << answer.status();
}

TEST(Review, WhatIsNoCostIsAnError) {
  PlanInput table = Table(100'000);
  for (const char* lane : {"ring", "tree"}) {
    if (std::string(lane) == "tree") {
      for (TensorSpec& tensor : table.tensors) tensor.route = "sparse";
    }
    const Plan plan = Made("omgs", table);
    const AffineFit ring{1e-3, 1e-9, 0};
    Measured measured = Reality(table, plan, ring);
    measured.group_seconds[0] = std::numeric_limits<double>::infinity();
    const auto answer = Review({"exact", table, plan, 0, ring}, measured);
    ASSERT_FALSE(answer.ok());
    EXPECT_THAT(Message(answer.status()), HasSubstr(absl::StrCat("measured of the ", lane)));
  }
}

// From groups apart to another plan, on a network where messages should be merged.
struct Changing : Adapting {
  const Plan other = Change();

  Changing() : Adapting("wfbp", {0.05, 1e-9, 0}) {}

  // What is asked for in the next review's votes, if the other plan took so many times as long.
  Adapter::Request After(double times) {
    Adapter::Request request;
    while (!request.review) request = adapter.Next(Profile::kWindow);
    Measured measured = Reality(table, other, ring);
    measured.round_seconds =
        OwnSeconds(measured) + times * (before.round_seconds - OwnSeconds(before));
    adapter.Reviewed(measured, std::nullopt);
    return adapter.Next(0);
  }
};

TEST(Adapter, APlanWhoseStepsAreLongerIsTakenBack) {
  Changing changing;
  const Adapter::Request back = changing.After(1.2);
  ASSERT_TRUE(back.plan.has_value());
  EXPECT_EQ(Hash(*back.plan), Hash(changing.first));
  EXPECT_THAT(back.reason, HasSubstr("is taken back: by it a step took"));
  changing.adapter.Adopted(*back.plan, kWarmUpStages);
  for (int round = 0; round < 100; ++round) {  // and it stays
    const Adapter::Request request = changing.adapter.Next(Profile::kWindow);
    EXPECT_FALSE(request.plan || request.probe);
    if (request.review) changing.adapter.Reviewed(changing.before, std::nullopt);
  }
}

TEST(Adapter, APlanWhoseStepsAreShorterStays) {
  Changing changing;
  EXPECT_FALSE(changing.After(0.5).plan.has_value());
}

TEST(Review, MeasurementsOfAnotherPlanAreRefused) {
  const PlanInput table = Table(10);
  const PlanQuestion question{"exact", table, Made("wfbp", table), 0, AffineFit()};
  const Measured other = Reality(table, Made("single", table), AffineFit());
  EXPECT_EQ(Review(question, other).status().code(), StatusCode::kInternal);
}

TEST(Refine, TellsTheStartUpFromTheBytesWhereSizesDiffer) {
  const AffineFit before{1, 1, 0};
  const AffineFit fit = Refine(before, {{1e3, 2e-3}, {1e5, 2.99e-3}, {1e6, 11.99e-3}});
  EXPECT_NEAR(fit.startup_seconds, 1.99e-3, 1e-6);
  EXPECT_NEAR(fit.seconds_per_byte, 1e-8, 1e-11);
}

TEST(Refine, KeepsTheStartUpWhereSizesAreAlike) {
  const AffineFit before{1e-3, 1e-8, 0};
  const AffineFit slower = Refine(before, {{1e6, 51e-3}, {1e6, 51e-3}});
  EXPECT_EQ(slower.startup_seconds, before.startup_seconds);
  EXPECT_NEAR(slower.seconds_per_byte, 5e-8, 1e-12);
  const AffineFit faster = Refine(before, {{1e6, 0.5e-3}});
  EXPECT_NEAR(faster.cost().Seconds(1e6), 0.5e-3, 1e-9);
  EXPECT_EQ(Refine(before, {}).seconds_per_byte, before.seconds_per_byte);
}

}  // namespace
}  // namespace ringwood

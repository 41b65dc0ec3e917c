// Networks with a delay: a group that was sent is on its way, and the next one follows it.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "plan/strategy/nic.h"
#include "plan/strategy/problem.h"
#include "tests/plan/random_input.h"

namespace ringwood {
namespace {

double EarliestEnd(const LaneInput& lane) {
  const size_t n = lane.bytes.size();
  double least = 1e300;
  for (unsigned mask = 0; mask < 1u << (n - 1); ++mask) {
    least = std::min(least, EndOf(Play(lane, LastsOf(mask, n))));
  }
  return least;
}

TEST(Delay, TheNextGroupFollowsWhileOneIsOnItsWay) {
  LaneInput lane;
  lane.ready_seconds = {0, 0, 0, 0};
  lane.bytes = {10, 10, 10, 1000};
  lane.cost = Cost::Affine(1, 0);
  lane.delay = {.seconds = 10, .short_bytes = 100, .short_seconds = 4};
  lane.window = 2;
  const Grouping sent = Play(lane, {0, 1, 2, 3});
  EXPECT_EQ(sent[0].start_seconds, 0);
  EXPECT_EQ(sent[0].end_seconds, 5);
  EXPECT_EQ(sent[1].start_seconds, 1) << "sent, and the first is still on its way";
  EXPECT_EQ(sent[1].end_seconds, 6);
  EXPECT_EQ(sent[2].start_seconds, 5) << "two were on their way";
  EXPECT_EQ(sent[3].start_seconds, 6);
  EXPECT_EQ(sent[3].end_seconds, 17) << "a long one takes more hops";
  EXPECT_EQ(EndOf(sent), 17);
}

TEST(Delay, ExactIsTheBestWhereTheWindowHasRoom) {
  Random random(21);
  for (int round = 0; round < 1000; ++round) {
    LaneInput lane = RandomLane(random, 1 + random.Below(9), true);
    lane.delay.seconds = 0.1 * random.Unit();
    lane.window = 16;
    EXPECT_NEAR(EndOf(Play(lane, Exact(lane))), EarliestEnd(lane), 1e-12);
  }
}

TEST(Delay, ExactComesCloseWhereTheWindowIsFullOrShortGroupsArriveSooner) {
  Random random(22);
  double worst = 1, sum = 0;
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    LaneInput lane = RandomLane(random, 2 + random.Below(10), true);
    lane.delay.seconds = 0.1 * random.Unit() * random.Unit();
    lane.window = 1 + static_cast<int>(random.Below(4));
    if (round % 2 == 0) {
      lane.delay.short_bytes = static_cast<double>(1 + random.Below(1 << 18));
      lane.delay.short_seconds = lane.delay.seconds * random.Unit();
    }
    const double ratio = EndOf(Play(lane, Exact(lane))) / EarliestEnd(lane);
    EXPECT_GE(ratio, 1 - 1e-12);
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  RecordProperty("worst", absl::StrCat(worst));
  RecordProperty("mean", absl::StrCat(sum / kRounds));
  EXPECT_LT(worst, 1.25);
  EXPECT_LT(sum / kRounds, 1.01);
}

// Each group hides behind the next tensor's backward and is on its way for forty of them.
TEST(Delay, SparseGroupsOfLagsAndOmgsWaitForTheirPlaceInTheWindow) {
  PlanInput input;
  for (int t = 0; t < 40; ++t) {
    input.tensors.push_back({absl::StrCat("t", t), 100'000, "auto", 0.001});
    input.ready_seconds.push_back(0.01 * (t + 1));
  }
  input.world = 4;
  input.max_density = 0.001;
  input.network = {.alpha = 1e-4, .beta = 1e-9, .delay = 0.2};
  for (const char* planner : {"lags", "omgs"}) {  // omgs-exact would merge them
    const StatusOr<Plan> plan = MakePlan(planner, input);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(plan->groups.size(), 40u) << planner;
    for (size_t g = kTreesAtOnce; g < plan->groups.size(); ++g) {
      EXPECT_GE(plan->groups[g].start_seconds, plan->groups[g - kTreesAtOnce].end_seconds)
          << planner << ", group " << g;
    }
  }
}

PlanInput RandomFarInput(Random& random, size_t n) {
  PlanInput input = RandomInput(random, n);
  input.world = 2 + static_cast<int>(random.Below(7));
  input.servers = 1 + static_cast<int>(random.Below(4));
  return input;
}

// The plan's groups as they are, on another network.
double EndOn(const PlanInput& input, const Plan& plan) {
  const Problem problem = MakeProblem(input);
  Nic nic(problem);
  for (Group group : plan.groups) {
    double ready = 0;
    for (const uint32_t t : group.tensors) {
      const bool tree = group.route == "tree";
      ready = std::max(ready, problem.ready[t] + (tree ? SelectionSeconds(problem, t) : 0));
    }
    nic.Send(ready, &group);
  }
  return nic.end();
}

// The search without delay is one of those that compete.
TEST(Delay, HybridEndsNoLaterThanThePlanOfANetworkWithoutOne) {
  Random random(23);
  int better = 0;
  for (int round = 0; round < 200; ++round) {
    PlanInput input = RandomFarInput(random, 1 + random.Below(30));
    input.max_density = 0.01;  // both at the least density
    input.epsilon = 0;
    input.fanout = 8;
    const Plan near = *MakePlan("hybrid", input);
    input.network.delay = 0.05 * random.Unit();
    const StatusOr<Plan> far = MakePlan("hybrid", input);
    ASSERT_TRUE(far.ok()) << far.status();
    ASSERT_TRUE(Validate(*far, input.tensors).ok());
    double end = 0;
    for (const Group& group : far->groups) end = std::max(end, group.end_seconds);
    EXPECT_NEAR(end, EndOn(input, *far), 1e-12);
    const double without = EndOn(input, near);
    EXPECT_LE(end, without * (1 + 1e-12)) << round;
    better += end < 0.9 * without;
  }
  EXPECT_GT(better, 20);
}

TEST(Delay, RaisedDensitiesStayWithinTheDeadline) {
  Random random(24);
  int raised = 0;
  for (int round = 0; round < 200; ++round) {
    PlanInput input = RandomFarInput(random, 1 + random.Below(12));  // the window has room
    input.network.delay = 0.05 * random.Unit();
    input.epsilon = 0.02;
    PlanInput least = input;
    least.max_density = 0.01;
    least.epsilon = 0;
    const double soonest = MakePlan("hybrid", least)->predicted_seconds;
    const Plan plan = *MakePlan("hybrid", input);
    EXPECT_LE(plan.predicted_seconds, (1 + input.epsilon) * soonest * (1 + 1e-9));
    for (const Group& group : plan.groups) raised += group.route == "tree" && group.density > 0.01;
  }
  EXPECT_GT(raised, 100);
}

TEST(Delay, EveryPlannerCountsIt) {
  Random random(25);
  for (const std::string& planner : PlannerNames()) {
    PlanInput input = RandomFarInput(random, 20);
    input.fanout = 8;
    const double near = MakePlan(planner, input)->predicted_seconds;
    input.network.delay = 0.05;
    const StatusOr<Plan> far = MakePlan(planner, input);
    ASSERT_TRUE(far.ok()) << planner << far.status();
    EXPECT_GE(far->predicted_seconds, near + 0.09) << planner;  // two hops
  }
}

// What a job would run, message by message, against the planner's equations.
TEST(Delay, APlanPlayedTakesAboutAsLongAsPredicted) {
  for (const double delay : {0.0, 0.002, 0.02}) {
    for (const int servers : {1, 4}) {
      for (const char* planner : {"exact", "hybrid", "wfbp"}) {
        PlanInput input;
        input.world = 4;
        input.servers = servers;
        input.keep = 1;
        input.max_density = 0.01;
        input.network.beta = 8.37e-8;
        input.network.delay = delay;
        input.selection = {};
        for (int t = 0; t < 24; ++t) {
          input.ready_seconds.push_back(4e-3 * (t + 1));
          const uint64_t elements = t % 3 == 0 ? 512 : 400'000;
          input.tensors.push_back({absl::StrCat("t", t), elements, "auto", 0.01});
        }
        const Plan plan = *MakePlan(planner, input);
        const auto stage = StageOf(PlanSceneOf(input), plan, input.tensors, input.ready_seconds);
        ASSERT_TRUE(stage.ok()) << stage.status();
        const auto outcome = Simulate(stage->scene);
        ASSERT_TRUE(outcome.ok()) << outcome.status();
        double end = 0;
        for (const double of_group : outcome->end_seconds) end = std::max(end, of_group);
        const double ratio = end / plan.predicted_seconds;
        RecordProperty(absl::StrCat(planner, servers, "at", 1000 * delay), absl::StrCat(ratio));
        EXPECT_LT(ratio, 1.1) << planner << " " << servers << " " << delay;
        EXPECT_GT(ratio, 0.9) << planner << " " << servers << " " << delay;
      }
    }
  }
}

TEST(Delay, OneHostHasNone) {
  PlanInput input;
  input.world = 4;
  input.hosts = {{0, 1, 2, 3}};
  input.tensors = {{"t", 100'000, "dense", 0.01}};
  input.network.delay = 0.05;
  const Plan far = *MakePlan("exact", input);
  input.network.delay = 0;
  EXPECT_EQ(far, *MakePlan("exact", input));
}

TEST(Delay, GroupsOfAPlanHaveTheirHops) {
  const std::vector<TensorSpec> table = {{"short", 1000, "auto", 0.01},
                                         {"long", 1 << 20, "auto", 0.01}};
  Plan plan;
  plan.fanout = 2;
  plan.groups = {{.tensors = {0}, .route = "ring"},
                 {.tensors = {1}, .route = "ring"},
                 {.tensors = {0, 1}, .route = "tree"}};
  const Network network{.delay = 0.01};
  // Direct exchange, a ring of four, and two levels up and down.
  EXPECT_EQ(GroupDelays(plan, table, network, OneEach(4), 3, {}),
            (std::vector<double>{0.02, 0.06, 0.04}));
  // Two hosts of two, which gather: one level between hosts.
  EXPECT_EQ(GroupDelays(plan, table, network, EvenHosts(4, 2), 2, {0, 0, 1, 1, 0, 1}),
            (std::vector<double>{0.02, 0.02, 0.02}));
}

}  // namespace
}  // namespace ringwood

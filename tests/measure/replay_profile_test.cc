#include "measure/replay_profile.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

// One round: a ring of 1000 elements packed in `pack` ns, a tree of 100 selected in `select` ns.
void Play(uint64_t round, int64_t pack, int64_t select, int64_t tail, ReplayProfile* profile) {
  const int64_t at = static_cast<int64_t>(round) * 1'000'000;
  profile->Take({at, round, 0, 0, TimelineKind::kSelect});
  profile->Take({at + pack, round, 0, 0, TimelineKind::kSelected});
  profile->Take({at + 5000, round, 0, 1, TimelineKind::kSelect});
  profile->Take({at + 5000 + select, round, 0, 1, TimelineKind::kSelected});
  profile->Take({at + 6000, round, 0, 0, TimelineKind::kGroup});
  profile->Take({at + 7500, round, 0, 1, TimelineKind::kGroup});
  profile->Take({at + 9000, round, 0, 0, TimelineKind::kGroupEnded});
  profile->Take({at + 8000, round, 0, 1, TimelineKind::kGroupEnded});
  profile->Take({at + 9000 + tail, round, 0, 0, TimelineKind::kApplied});
}

Plan TwoGroups() {
  Plan plan;
  plan.groups.resize(2);
  plan.groups[0].tensors = {0, 1};
  plan.groups[0].route = "ring";
  plan.groups[1].tensors = {2};
  plan.groups[1].route = "tree";
  return plan;
}

ModelProfile ProfileOfThree() {
  ModelProfile profile;
  profile.tensors.resize(3);
  profile.tensors[0].elements = 400;
  profile.tensors[1].elements = 600;
  profile.tensors[2].elements = 100;
  return profile;
}

TEST(ReplayProfile, CostsAreMediansOfTheRoundsWithoutTheFirst) {
  ReplayProfile profile;
  Play(1, 900'000, 900'000, 900'000, &profile);
  Play(2, 2000, 300, 50, &profile);
  Play(3, 1000, 200, 40, &profile);
  Play(4, 3000, 400, 60, &profile);
  const ReplayCosts costs =
      CostsOf(TwoGroups(), ProfileOfThree(), RoundsOf(TwoGroups(), profile.Events()));
  EXPECT_NEAR(costs.pack_seconds_per_element, 2e-9, 1e-15);
  EXPECT_NEAR(costs.select_seconds_per_element, 3e-9, 1e-15);
  EXPECT_NEAR(costs.ring_seconds, 3000e-9, 1e-15);
  EXPECT_NEAR(costs.tree_seconds, 500e-9, 1e-15);
  EXPECT_NEAR(costs.tail_seconds, 50e-9, 1e-15);
}

TEST(ReplayProfile, GroupsOfALaneAtTheSameTimeCountOnce) {
  Plan plan;
  plan.groups.resize(3);
  for (Group& group : plan.groups) group.route = "tree";
  const std::vector<TimelineEvent> events = {
      {1000, 1, 0, 0, TimelineKind::kGroup},      {2000, 1, 0, 1, TimelineKind::kGroup},
      {3000, 1, 0, 1, TimelineKind::kGroupEnded}, {5000, 1, 0, 0, TimelineKind::kGroupEnded},
      {9000, 1, 0, 2, TimelineKind::kGroup},      {9500, 1, 0, 2, TimelineKind::kGroupEnded},
      {9600, 1, 0, 0, TimelineKind::kApplied}};
  const std::vector<ReplayRound> rounds = RoundsOf(plan, events);
  ASSERT_EQ(rounds.size(), 1u);
  EXPECT_NEAR(rounds[0].tree, 4500e-9, 1e-15);
}

TEST(ReplayProfile, RoundsThatWereNotAppliedDoNotCount) {
  ReplayProfile profile;
  profile.Take({1, 1, 0, 0, TimelineKind::kSelect});
  EXPECT_EQ(CostsOf(TwoGroups(), ProfileOfThree(), RoundsOf(TwoGroups(), profile.Events())),
            ReplayCosts());
  Play(2, 1000, 100, 10, &profile);
  const std::vector<ReplayRound> rounds = RoundsOf(TwoGroups(), profile.Events());
  ASSERT_EQ(rounds.size(), 1u);
  EXPECT_NEAR(rounds[0].tail, 10e-9, 1e-15);
}

TEST(ReplayProfile, AStepWaitsForTheSlowestRankAndALaneTakesWhatTheLastOneSees) {
  const ReplayRound one{.pack = 3, .select = 1, .tail = 5, .ring = 7, .tree = 2};
  const ReplayRound other{.pack = 1, .select = 4, .tail = 6, .ring = 1, .tree = 9};
  const std::vector<double> mine = ToMaxima({one, one}), theirs = ToMaxima({other, one});
  std::vector<double> maxima(mine.size());
  for (size_t i = 0; i < mine.size(); ++i) maxima[i] = std::max(mine[i], theirs[i]);
  const ReplayRound both{.pack = 3, .select = 4, .tail = 6, .ring = 1, .tree = 2};
  EXPECT_EQ(FromMaxima(maxima), (std::vector<ReplayRound>{both, one}));
}

}  // namespace
}  // namespace ringwood

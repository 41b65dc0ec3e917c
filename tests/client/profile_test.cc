#include "client/replan/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/replan/live_profile.h"
#include "tests/base/at.h"

namespace ringwood {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

auto IsSeconds(double seconds) { return DoubleNear(seconds, 1e-9); }

const std::vector<TensorSpec> kProfileTable = {{"late", 30, "dense", 0.1},
                                               {"early", 10, "sparse", 0.1}};

Plan TwoGroups() {
  Plan plan;
  plan.groups.resize(2);
  plan.groups[0].tensors = {0};
  plan.groups[0].route = "ring";
  plan.groups[1].tensors = {1};
  plan.groups[1].route = "tree";
  plan.groups[1].k = 1;
  return plan;
}

// A round in which everything takes `unit` seconds: the groups overlap from 4 to 5.
void Play(Profile* profile, uint64_t round, double unit) {
  profile->RoundBegun(round, At(0));
  profile->GradientReady(round, 1, At(unit));
  profile->SelectionBegun(round, 1, At(unit));
  profile->Selected(round, 1, At(2 * unit));
  profile->GradientReady(round, 0, At(3 * unit));
  profile->SelectionBegun(round, 0, At(3 * unit));
  profile->Selected(round, 0, At(3 * unit));
  profile->GroupStarted(round, 1, At(2 * unit));
  profile->GroupStarted(round, 0, At(4 * unit));
  profile->GroupEnded(round, 1, 0, At(5 * unit));
  profile->GroupEnded(round, 0, 0, At(7 * unit));
  profile->Applied(round, At(8 * unit));
}

TEST(Profile, MediansForgetTheFirstRoundAndOneSlowOne) {
  Profile profile;
  profile.PlanAdopted(TwoGroups(), kProfileTable, 1);
  Play(&profile, 1, 10);
  EXPECT_EQ(profile.rounds(), 0u);
  for (int round = 2; round <= 4; ++round) Play(&profile, round, round == 3 ? 9 : 1);
  EXPECT_EQ(profile.rounds(), 3u);
  const Measured medians = profile.Medians();
  EXPECT_THAT(medians.ready_seconds, ElementsAre(IsSeconds(3), IsSeconds(1)));
  EXPECT_THAT(medians.pack_seconds, ElementsAre(IsSeconds(0), IsSeconds(1)));
  EXPECT_THAT(medians.group_seconds,
              ElementsAre(IsSeconds(2.5), IsSeconds(2.5)));  // one second is shared
  EXPECT_THAT(medians.tail_seconds, IsSeconds(1));
  EXPECT_THAT(medians.round_seconds, IsSeconds(8));
  profile.PlanAdopted(TwoGroups(), kProfileTable, 5);
  EXPECT_EQ(profile.rounds(), 0u);
}

TEST(Profile, ADelayIsNoTimeOfTheLane) {
  Profile profile;
  profile.PlanAdopted(TwoGroups(), kProfileTable, 1);
  profile.TakeDelays({10, 1.5});  // the first is longer than the group took
  Play(&profile, 1, 1);
  Play(&profile, 2, 1);
  EXPECT_THAT(profile.Medians().group_seconds, ElementsAre(IsSeconds(0), IsSeconds(1.5)));
  profile.TakeDelays({1});  // of another plan
  Play(&profile, 3, 1);
  EXPECT_THAT(profile.Medians().group_seconds, ElementsAre(IsSeconds(0), IsSeconds(1.5)));
  profile.PlanAdopted(TwoGroups(), kProfileTable, 4);
  Play(&profile, 4, 1);
  Play(&profile, 5, 1);
  EXPECT_THAT(profile.Medians().group_seconds, ElementsAre(IsSeconds(2.5), IsSeconds(2.5)));
}

TEST(Profile, MaximaOverRanksAreTheLatestGradientsTheLongestTailAndTheShortestExchanges) {
  const Measured one{{1, 5}, {0.1}, {3}, 0.5, 10}, other{{2, 4}, {0.2}, {2}, 0.7, 11};
  std::vector<double> maxima = ToMaxima(one);
  const std::vector<double> second = ToMaxima(other);
  for (size_t i = 0; i < maxima.size(); ++i) maxima[i] = std::max(maxima[i], second[i]);
  const Measured both = FromMaxima(maxima, 2, 1);
  EXPECT_THAT(both.ready_seconds, ElementsAre(2, 5));
  EXPECT_THAT(both.pack_seconds, ElementsAre(0.2));
  EXPECT_THAT(both.group_seconds, ElementsAre(2));
  EXPECT_EQ(both.tail_seconds, 0.7);
  EXPECT_EQ(both.round_seconds, 11);
}

TEST(LiveProfile, IsReadLikeAnyOther) {
  const Measured measured{{0.5, 0.2}, {0.01, 0.02}, {0.1, 0.1}, 0.01, 1};
  std::vector<TensorSpec> table(kProfileTable.begin(), kProfileTable.end());
  for (TensorSpec& tensor : table) tensor.element_bytes = tensor.name == "early" ? 2 : 4;
  const ModelProfile profile = LiveProfile(table, TwoGroups(), measured);
  const StatusOr<ModelProfile> read = ParseModelProfile(FormatModelProfile(profile), "live.csv");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->forward_seconds, 0.2);
  ASSERT_EQ(read->tensors.size(), 2u);
  EXPECT_EQ(read->tensors[0].name, "early");
  EXPECT_EQ(read->tensors[0].selection_seconds, 0.02);
  EXPECT_EQ(read->tensors[0].element_bytes, 2u);
  EXPECT_EQ(read->tensors[1].element_bytes, 4u);
  EXPECT_EQ(read->tensors[1].elements, 30u);
  EXPECT_NEAR(read->tensors[1].ready_seconds, 0.3, 1e-12);
  EXPECT_EQ(read->tensors[1].selection_seconds, 0);
}

}  // namespace
}  // namespace ringwood

#include "timeline/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/timeline/samples.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TimelineSummary SummaryOf(const std::vector<SampleRank>& ranks) {
  const auto summary = Summarize(SampleTimelines(ranks, 5));
  EXPECT_TRUE(summary.ok()) << summary.status();
  return summary.value_or(TimelineSummary());
}

TEST(TimelineSummary, OverlapIsTheExchangeWhileTheTrainerComputes) {
  const RankSummary rank = SummaryOf({{}, {}}).ranks[0];
  EXPECT_EQ(rank.rounds, 4);  // without the first
  EXPECT_NEAR(rank.step, 0.095, 1e-9);
  EXPECT_NEAR(rank.forward, 0.030, 1e-9);
  EXPECT_NEAR(rank.backward, 0.040, 1e-9);
  EXPECT_NEAR(rank.exchange, 0.045, 1e-9);           // 40 .. 85 ms
  EXPECT_NEAR(rank.hidden, 0.030, 1e-9);             // until 70 ms
  EXPECT_NEAR(rank.overlap(), 30.0 / 45.0, 1e-6);    //
  EXPECT_NEAR(rank.exposed, 0.025, 1e-9);            // 70 .. 95 ms
  EXPECT_NEAR(rank.vote + rank.apply, 0.010, 1e-9);  // 85 .. 95 ms
}

TEST(TimelineSummary, LanesThatRunAtOnceCountOnce) {
  auto timelines = SampleTimelines({{}}, 2);
  for (const int round : {0, 1}) {
    TimelineSpan tree = timelines[0].spans[2 + 6 * round];
    ASSERT_EQ(tree.category, "ring");
    tree.category = "tree";
    tree.begin_nanoseconds += 5 * kMillisecond;
    tree.end_nanoseconds += 5 * kMillisecond;
    timelines[0].spans.push_back(tree);
  }
  EXPECT_NEAR(Summarize(timelines)->ranks[0].exchange, 0.050, 1e-9);
}

TEST(TimelineSummary, TheSlowestRankIsNamedWithThePhaseThatMakesItSo) {
  const TimelineSummary slow_forward = SummaryOf({{}, {.forward = 45}, {}});
  EXPECT_EQ(slow_forward.slowest, 1);
  EXPECT_THAT(slow_forward.verdict, StartsWith("rank 1 (host h1) is the slowest"));
  EXPECT_THAT(slow_forward.verdict, HasSubstr("loading samples takes it 45 ms against 30 ms"));
  const TimelineSummary slow_backward = SummaryOf({{}, {}, {.backward = 50}});
  EXPECT_EQ(slow_backward.slowest, 2);
  EXPECT_THAT(slow_backward.verdict, HasSubstr("backward takes it 50 ms against 40 ms"));
}

TEST(TimelineSummary, ASlowLinkIsNamed) {
  const TimelineSummary summary = SummaryOf({{}, {.link = 7}, {}, {}});
  EXPECT_EQ(summary.slowest, -1);
  EXPECT_THAT(summary.verdict, StartsWith("the network from rank 1 to rank 2 is the slowest"));
  ASSERT_EQ(summary.links.size(), 4u);
  EXPECT_NEAR(summary.links[1].seconds, 0.007, 1e-9);
}

TEST(TimelineSummary, EqualRanksAreNotBlamed) {
  const TimelineSummary summary = SummaryOf({{}, {.forward = 31}, {}});
  EXPECT_EQ(summary.slowest, -1);
  EXPECT_THAT(summary.verdict, StartsWith("no rank"));
  EXPECT_THAT(ToText(summary), HasSubstr("OVERLAP"));
  EXPECT_THAT(ToJson(summary), HasSubstr("\"exposed_s\":"));
}

TEST(TimelineSummary, ATimelineWithoutAWholeStepIsRefused) {
  auto timelines = SampleTimelines({{}, {}}, 1);
  std::erase_if(timelines[1].spans,
                [](const TimelineSpan& span) { return span.category == "apply"; });
  EXPECT_THAT(Message(Summarize(timelines).status()), HasSubstr("rank 1 has no whole step"));
  EXPECT_FALSE(Summarize({}).ok());
}

TEST(TimelineSummary, AServerIsSummedUpByItsReductions) {
  std::vector<RankTimeline> timelines = SampleTimelines({{}, {}}, 4);
  RankTimeline server;
  server.info = {.job = 1, .epoch = 1, .rank = 3, .world = 2, .host = "s"};
  for (uint64_t round = 0; round < 4; ++round) {
    for (int group = 0; group < 2; ++group) {
      server.spans.push_back({.name = "group",
                              .category = "reduce",
                              .lane = TimelineLane::kTree,
                              .begin_nanoseconds = group * kMillisecond,
                              .end_nanoseconds = (2 * group + 1) * kMillisecond,
                              .round = round,
                              .group = group});
    }
  }
  timelines.push_back(server);
  const TimelineSummary summary = *Summarize(timelines);
  ASSERT_EQ(summary.servers.size(), 1u);
  EXPECT_EQ(summary.servers[0].server, 1);
  EXPECT_EQ(summary.servers[0].rounds, 3);
  EXPECT_NEAR(summary.servers[0].reduce, 3e-3, 1e-9);
  EXPECT_EQ(summary.ranks.size(), 2u);
  EXPECT_EQ(NodeName(summary, 3), "server 1");
  EXPECT_THAT(ToText(summary), HasSubstr("REDUCE"));
  EXPECT_THAT(ToJson(summary), HasSubstr("\"reduce_s\":"));
}

}  // namespace
}  // namespace ringwood

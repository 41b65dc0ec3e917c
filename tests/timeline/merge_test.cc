#include "timeline/merge.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/timeline/samples.h"

namespace ringwood {
namespace {

TEST(TimelineMerge, OffsetsBringClocksTogetherToHalfARoundTrip) {
  const auto timelines =
      SampleTimelines({{}, {.clock = 5000}, {.clock = -70000}, {.clock = 0.3}}, 3);
  const std::vector<int64_t> offsets = ClockOffsets(timelines);
  EXPECT_EQ(offsets[0], 0);
  EXPECT_NEAR(static_cast<double>(offsets[1]), -5000.0 * kMillisecond, 0.1 * kMillisecond);
  EXPECT_NEAR(static_cast<double>(offsets[2]), 70000.0 * kMillisecond, 0.1 * kMillisecond);
  EXPECT_NEAR(static_cast<double>(offsets[3]), -0.3 * kMillisecond, 0.1 * kMillisecond);
}

TEST(TimelineMerge, NoMessageArrivesBeforeItWasSent) {
  auto timelines =
      SampleTimelines({{.commit = 9}, {.clock = 3, .link = 0.2}, {.clock = 40, .commit = 4}}, 5);
  Align(&timelines);
  std::map<std::string, int64_t> sent;
  for (const RankTimeline& rank : timelines) {
    for (const TimelineArrowEnd& end : rank.arrows) {
      if (end.from) sent[end.id] = end.at_nanoseconds;
    }
  }
  for (const RankTimeline& rank : timelines) {
    for (const TimelineArrowEnd& end : rank.arrows) {
      if (end.from) continue;
      EXPECT_GE(end.at_nanoseconds, sent.at(end.id)) << end.id;
    }
  }
}

TEST(TimelineMerge, AMomentInWhichOneRankHeardOfACommitLateDoesNotMoveItsClock) {
  auto timelines = SampleTimelines({{}, {.clock = 100}}, 9);
  for (TimelineSpan& span : timelines[1].spans) {
    if (span.category == "vote" && span.round != 4) span.end_nanoseconds += 8 * kMillisecond;
  }
  EXPECT_NEAR(static_cast<double>(ClockOffsets(timelines)[1]), -100.0 * kMillisecond,
              0.1 * kMillisecond);
}

TEST(TimelineMerge, ARankThatSharesNothingStaysWhereItIs) {
  auto timelines = SampleTimelines({{}, {.clock = 100}}, 2);
  timelines[1].spans.clear();
  timelines[1].arrows.clear();
  EXPECT_EQ(ClockOffsets(timelines), (std::vector<int64_t>{0, 0}));
  EXPECT_TRUE(ClockOffsets({}).empty());
}

// Files may say what they like: messages that take as long as times can be apart.
TEST(TimelineMerge, TimesOfAnySizeHaveTheirOffsets) {
  constexpr int64_t kEnd = 1'000'000'000'000'000'000;  // the largest time of a file, in nanoseconds
  constexpr int kRanks = 6;
  std::vector<RankTimeline> timelines(kRanks);
  for (int r = 0; r + 1 < kRanks; ++r) {
    const std::string up = "up" + std::to_string(r), down = "down" + std::to_string(r);
    timelines[r].arrows.push_back({up, true, r + 1, -kEnd});
    timelines[r + 1].arrows.push_back({up, false, r, kEnd});
    timelines[r + 1].arrows.push_back({down, true, r, 0});
    timelines[r].arrows.push_back({down, false, r + 1, kEnd / 2});
  }
  const std::vector<int64_t> offsets = ClockOffsets(timelines);
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(offsets[r], -r * (kEnd / 4 * 3)) << r;
}

TEST(TimelineMerge, EventsAreShiftedToo) {
  auto timelines = SampleTimelines({{}, {.clock = 50}}, 2);
  timelines[1].events = {{{"ph", "X"}, {"ts", 1000.0}}, {{"ph", "M"}}};
  Align(&timelines);
  EXPECT_NEAR(timelines[1].events[0]["ts"].get<double>(), 1000 - 50e3, 100);
  EXPECT_FALSE(timelines[1].events[1].contains("ts"));
}

}  // namespace
}  // namespace ringwood

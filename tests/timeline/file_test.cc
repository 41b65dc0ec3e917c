#include "timeline/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "timeline/chrome.h"
#include "timeline/merge.h"
#include "timeline/name.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

TEST(TimelineName, EveryRankAndRestartHasItsFile) {
  EXPECT_EQ(TimelineFileName("job", "rank2", 0, "json"), "job.rank2.json");
  EXPECT_EQ(TimelineFileName("job.json", "rank2", 0, "json"), "job.rank2.json");
  EXPECT_EQ(TimelineFileName("job.json", "rank2", 1, "json"), "job.restart1.rank2.json");
  EXPECT_EQ(TimelineFileName("dir/", "rank2", 0, "flight"), "dir/rank2.flight");
  EXPECT_EQ(TimelineFileName(".json", "server0", 0, "json"), ".json.server0.json");
}

TimelineInfo Info() { return {.job = 9, .epoch = 2, .rank = 1, .world = 2, .host = "h\"1"}; }

TimelineSpan Span() {
  return {.name = "fc\n\"weight\"",
          .category = "ring",
          .lane = TimelineLane::kRing,
          .begin_nanoseconds = 1'234'567'890'123,
          .end_nanoseconds = 1'234'567'990'456,
          .round = 3,
          .group = 0,
          .bytes = 77};
}

TimelineChunk Chunk() {
  TimelineChunk chunk;
  chunk.round = 3;
  chunk.begin_nanoseconds = 1000;
  chunk.end_nanoseconds = 3000;
  chunk.touches = {{.peer = 0, .first_sent_nanoseconds = 1000, .first_received_nanoseconds = 2000}};
  return chunk;
}

std::string File() {
  return ChromeOpening(Info()) + ChromeLines(1, std::vector<TimelineSpan>{Span()}) +
         ChromeLines(1, std::vector<TimelineChunk>{Chunk()});
}

TEST(TimelineFile, SpansOfALaneAreOfThatLaneOnWhateverThread) {
  for (const auto& [lane, category] :
       {std::pair(TimelineLane::kRing, "ring"), std::pair(TimelineLane::kTree, "tree"),
        std::pair(TimelineLane::kTree, "reduce")}) {
    TimelineSpan first = Span();
    first.lane = lane;
    first.category = category;
    TimelineSpan second = first;
    second.begin_nanoseconds += 10'000;  // before the first has ended
    const std::string file =
        ChromeOpening(Info()) + ChromeLines(1, std::vector<TimelineSpan>{first, second});
    std::vector<RankTimeline> ranks;
    ASSERT_TRUE(ParseTimelineFile(file, "t.json", &ranks).ok());
    EXPECT_EQ(ranks[0].spans, (std::vector<TimelineSpan>{first, second})) << category;
  }
}

TEST(TimelineFile, WhatWasWrittenIsRead) {
  std::vector<RankTimeline> ranks;
  ASSERT_TRUE(ParseTimelineFile(File(), "t.json", &ranks).ok());
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_EQ(ranks[0].info, Info());
  EXPECT_EQ(ranks[0].spans, std::vector<TimelineSpan>{Span()});
  ASSERT_EQ(ranks[0].arrows.size(), 2u);
  EXPECT_TRUE(ranks[0].arrows[0].from);
  EXPECT_EQ(ranks[0].arrows[0].peer, 0);
  EXPECT_EQ(ranks[0].arrows[1].at_nanoseconds, 2000);
  EXPECT_NE(ranks[0].arrows[0].id, ranks[0].arrows[1].id);
}

TEST(TimelineFile, ALastLineThatWasCutIsLeftOut) {
  const std::string whole = File();
  for (size_t cut = 1; cut < 60; ++cut) {
    std::vector<RankTimeline> ranks;
    const Status status = ParseTimelineFile(whole.substr(0, whole.size() - cut), "t.json", &ranks);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(ranks[0].spans, std::vector<TimelineSpan>{Span()});
  }
}

TEST(TimelineFile, AnEventMayBeNested64Deep) {
  for (const int depth : {62, 63}) {  // and the event itself, and a number
    const std::string nested = std::string(depth, '[') + "1" + std::string(depth, ']');
    std::vector<RankTimeline> ranks;
    EXPECT_TRUE(ParseTimelineFile("{\"pid\":0,\"args\":" + nested + "}\n", "t.json", &ranks).ok());
    EXPECT_EQ(ranks.size(), 1u);
  }
}

TEST(TimelineFile, AMergedFileReadsLikeItsParts) {
  std::vector<RankTimeline> ranks;
  ASSERT_TRUE(ParseTimelineFile(File(), "t.json", &ranks).ok());
  std::vector<RankTimeline> again;
  ASSERT_TRUE(ParseTimelineFile(MergedTimeline(ranks), "m.json", &again).ok());
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].info, Info());
  EXPECT_EQ(again[0].spans, std::vector<TimelineSpan>{Span()});
}

TEST(TimelineFile, OtherContentIsNamedByFileAndLine) {
  std::vector<RankTimeline> ranks;
  const auto error = [&](const std::string& text) {
    return Message(ParseTimelineFile(text, "t.json", &ranks));
  };
  EXPECT_THAT(error("[\nhello\n"), HasSubstr("t.json:2: not an event"));
  EXPECT_THAT(error("[\n{\"ph\":\"X\"},\n"), HasSubstr("t.json:2: an event without a rank"));
  EXPECT_THAT(error("{\"ph\":\"X\",\"pid\":0,\"ts\":1e300,\"dur\":1}\n"),
              HasSubstr("out of range"));
  EXPECT_THAT(error("{\"ph\":\"X\",\"pid\":0,\"ts\":1,\"dur\":-1}\n"),
              HasSubstr("ends before it begins"));
  EXPECT_THAT(error("[\n]\n"), HasSubstr("no events"));
  const std::string deep(100'000, '[');
  EXPECT_THAT(error("[\n{\"pid\":0,\"args\":" + deep + std::string(deep.size(), ']') + "}\n"),
              HasSubstr("t.json:2: JSON nested more than 64 deep"));
  EXPECT_THAT(error("{\"pid\":0,\"args\":{\"a\":" + deep), HasSubstr("t.json:1: JSON nested"));
  EXPECT_TRUE(ranks.empty());
  EXPECT_FALSE(ReadTimelineFiles({"/nonexistent.json"}).ok());
}

}  // namespace
}  // namespace ringwood

#include "timeline/reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "absl/strings/str_format.h"
#include "plan/wire.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

MessageName Name(uint64_t round, uint32_t group) {
  MessageName name;
  name.lane = Lane::kSparse;
  name.round = round;
  name.group = group;
  return name;
}

TEST(ReducerTimeline, AGroupIsReducedFromItsLastEntriesToItsLastAnswerOneAfterTheOther) {
  ChunkNotes notes;
  notes.Received(0, Name(5, 0), 100);
  notes.Received(1, Name(5, 0), 300);
  notes.Received(0, Name(5, 1), 350);  // while the first is still answered
  notes.Sent(0, Name(5, 0), 10, 310, 400);
  notes.Received(1, Name(5, 1), 360);
  notes.Sent(1, Name(5, 1), 20, 410, 450);
  notes.Received(0, Name(5, 2), 500);  // never answered: the epoch ended
  const std::vector<TimelineSpan> spans = ReduceSpans(notes.chunks());
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].begin_nanoseconds, 300);
  EXPECT_EQ(spans[0].end_nanoseconds, 400);
  EXPECT_EQ(spans[1].begin_nanoseconds, 400);
  EXPECT_EQ(spans[1].end_nanoseconds, 450);
  EXPECT_EQ(spans[1].bytes, 20u);
  EXPECT_EQ(spans[1].category, "reduce");
}

// As many as this in one round are seldom; each message of theirs finds its chunk at once.
TEST(ReducerTimeline, BeyondTheMostChunksNewOnesAreLeftOutAndOldOnesAreStillNoted) {
  ChunkNotes notes;
  MessageName name = Name(5, 0);
  for (name.chunk = 0; name.chunk < ChunkNotes::kMaxChunks + 10; ++name.chunk) {
    notes.Sent(1, name, 8, 100, 200);
  }
  ASSERT_EQ(notes.chunks().size(), ChunkNotes::kMaxChunks);
  for (name.chunk = 0; name.chunk < 1000; ++name.chunk) notes.Received(2, name, 300);
  EXPECT_EQ(notes.chunks()[999].touches.size(), 2u);
  EXPECT_EQ(notes.chunks()[999].end_nanoseconds, 300);
  EXPECT_EQ(notes.chunks()[1000].touches.size(), 1u);
}

TEST(ReducerTimeline, TheFileHoldsTheNewestEpochWhateverThePlansNumber) {
  const std::string file = testing::TempDir() + "reducer-" + std::to_string(getpid()) + ".json";
  {
    auto timeline = ReducerTimeline::Create(file);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    for (uint64_t epoch : {1, 2}) {
      ObservedSession session;
      session.epoch = epoch;
      session.rank = 3;
      session.world = 2;
      session.host = absl::StrFormat("in epoch %d", epoch);
      (*timeline)->Opened(session);
      for (uint64_t round : {10, 11, 12, 13}) {
        const MessageName name = Name(WireRound(round > 11 ? 4 : 0, round), 7);
        const int64_t at = static_cast<int64_t>(1000 * (epoch * 100 + round));
        (*timeline)->Received(0, name, at);
        (*timeline)->Sent(0, name, 5, at + 10, at + 20);
      }
    }
  }
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("server 1 (host in epoch 2)"));
  EXPECT_THAT(text.str(), Not(HasSubstr("in epoch 1")));
  for (const char* round : {"10", "11", "12", "13"}) {
    EXPECT_THAT(text.str(), HasSubstr(absl::StrFormat("\"ts\":2%s.000", round)));
    EXPECT_THAT(text.str(), HasSubstr(absl::StrFormat("\"round\":%s,", round)));
  }
  std::remove(file.c_str());
}

}  // namespace
}  // namespace ringwood

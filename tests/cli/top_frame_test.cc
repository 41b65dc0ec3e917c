#include "cli/watch/top_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

TopView AView(int ranks, int events) {
  TopView view;
  view.status.set_phase("running");
  view.status.set_job(1);
  view.status.set_step(12);
  view.status.set_waiting_for("waiting for rank 1 (host h1)");
  for (int rank = 0; rank < ranks; ++rank) {
    v1::SlotState* const slot = view.status.add_slots();
    slot->set_role(v1::ROLE_WORKER);
    slot->set_slot(static_cast<uint32_t>(rank));
    slot->set_host("h1");
    slot->set_state("present");
  }
  for (int i = 0; i < events; ++i) {
    v1::JobEvent* const event = view.status.add_events();
    event->set_name(absl::StrCat("event_", i));
    event->set_level("info");
  }
  return view;
}

TEST(TopFrame, FitsEveryTerminal) {
  for (const int ranks : {0, 1, 40}) {
    for (const int events : {0, 2, 200}) {
      TopView view = AView(ranks, events);
      view.trouble = "no coordinator answers";
      view.status.set_last_failure("rank 3 (höst) failed");
      view.status.add_checkpoints()->set_step(5);
      for (int rows = 0; rows < 60; rows += 3) {
        const auto frame = TopFrame(view, {33, rows}, false);
        EXPECT_LE(frame.size(), static_cast<size_t>(rows));
        for (const std::string& line : frame) EXPECT_EQ(FirstColumns(line, 33), line);
      }
    }
  }
}

TEST(TopFrame, SaysHowManyMembersAndEventsDoNotFit) {
  const auto frame = TopFrame(AView(40, 200), {200, 20}, false);
  ASSERT_THAT(frame, SizeIs(20));
  EXPECT_THAT(frame[0], StartsWith("ringwood: running, job 0000000000000001"));
  EXPECT_EQ(frame[1], "waiting for rank 1 (host h1)");
  EXPECT_THAT(frame[2], StartsWith("NODE"));
  EXPECT_THAT(frame[16], HasSubstr("... 27 more"));  // 1 header and 13 members of 41 lines
  EXPECT_THAT(frame[17], HasSubstr("event_199"));
  EXPECT_THAT(frame[19], HasSubstr("... 198 more"));
}

TEST(TopFrame, ColorsTakeNoColumnsAndAreLeftOut) {
  TopView view = AView(2, 1);
  view.status.mutable_slots(1)->set_state("gone");
  const auto colored = TopFrame(view, {20, 40}, true);
  EXPECT_THAT(colored, Contains(AllOf(StartsWith("\x1b[31m"), HasSubstr("rank"))));
  EXPECT_THAT(absl::StrJoin(TopFrame(view, {20, 40}, false), "\n"), Not(HasSubstr("\x1b")));
}

TEST(TopFrame, WhatStrangersNameCannotDriveTheTerminal) {
  TopView view = AView(1, 1);
  view.status.mutable_slots(0)->set_host("\x1b[2Jx");
  view.status.mutable_events(0)->set_text("a\x1b]0;title\x07");
  view.status.set_waiting_for("\x1b[H");
  EXPECT_THAT(absl::StrJoin(TopFrame(view, {200, 40}, false), "\n"), Not(HasSubstr("\x1b")));
}

TEST(FirstColumns, CutsBetweenCharacters) {
  EXPECT_EQ(FirstColumns("aöb", 2), "aö");
  EXPECT_EQ(FirstColumns("aöb", 3), "aöb");
  EXPECT_EQ(FirstColumns("aöb", 0), "");
}

}  // namespace
}  // namespace ringwood

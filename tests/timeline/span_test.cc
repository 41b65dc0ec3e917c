#include "timeline/span.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringwood {
namespace {

using ::testing::ElementsAre;

TimelineLabels Labels() {
  return {.tensors = {"fc", "conv"}, .groups = {{"fc .. conv (2)", "ring"}, {"fc", "tree"}}};
}

TimelineEvent At(int64_t time, TimelineKind kind, uint32_t index = 0, uint64_t value = 0) {
  return {time, 7, value, index, kind};
}

std::vector<std::string> Drawn(const std::vector<TimelineSpan>& spans) {
  std::vector<std::string> text;
  for (const TimelineSpan& span : spans) {
    text.push_back(span.category + " " + span.name + " " + std::to_string(span.begin_nanoseconds) +
                   ".." + std::to_string(span.end_nanoseconds));
  }
  return text;
}

TEST(TimelineSpan, ARoundIsForwardBackwardSelectionLanesWaitVoteAndApply) {
  const std::vector<TimelineSpan> spans =
      SpansOf(Labels(), {At(10, TimelineKind::kRound), At(20, TimelineKind::kReady, 0),
                         At(25, TimelineKind::kReady, 1), At(26, TimelineKind::kSelect, 0),
                         At(30, TimelineKind::kSelected, 0), At(31, TimelineKind::kGroup, 0),
                         At(27, TimelineKind::kWait), At(40, TimelineKind::kGroupEnded, 0, 800),
                         At(41, TimelineKind::kVoted), At(45, TimelineKind::kCommitted),
                         At(50, TimelineKind::kApplied)});
  EXPECT_THAT(Drawn(spans),
              ElementsAre("forward forward, fc 10..20", "backward conv 20..25",
                          "select fc .. conv (2) 26..30", "wait wait for the groups 27..41",
                          "ring fc .. conv (2) 31..40", "vote vote 41..45", "apply apply 45..50"));
  EXPECT_EQ(spans[4].bytes, 800u);
  EXPECT_EQ(spans[4].group, 0);
  EXPECT_EQ(spans[4].lane, TimelineLane::kRing);
  for (const TimelineSpan& span : spans) EXPECT_EQ(span.round, 7u);
}

TEST(TimelineSpan, WhatHasNoEndIsLeftOut) {
  const std::vector<TimelineSpan> spans =
      SpansOf(Labels(), {At(10, TimelineKind::kRound), At(20, TimelineKind::kReady, 0),
                         At(21, TimelineKind::kGroup, 1), At(30, TimelineKind::kFailed)});
  EXPECT_THAT(Drawn(spans), ElementsAre("forward forward, fc 10..20"));
}

TEST(TimelineSpan, IndicesBeyondTheLabelsGetNumbers) {
  const std::vector<TimelineSpan> spans =
      SpansOf({}, {At(1, TimelineKind::kRound), At(2, TimelineKind::kReady, 5),
                   At(3, TimelineKind::kGroup, 4), At(4, TimelineKind::kGroupEnded, 4)});
  EXPECT_THAT(Drawn(spans), ElementsAre("forward forward, tensor 5 1..2", "ring group 4 3..4"));
}

TEST(TimelineSpan, LabelsNameGroupsByTheirFirstAndLastTensor) {
  Plan plan;
  plan.groups.resize(2);
  plan.groups[0].tensors = {0, 1};
  plan.groups[0].route = "ring";
  plan.groups[1].tensors = {2};
  plan.groups[1].route = "tree";
  std::vector<TensorSpec> table(3);
  table[0].name = "c";
  table[1].name = "b";
  table[2].name = "a";
  const TimelineLabels labels = LabelsOf(plan, table);
  EXPECT_THAT(labels.tensors, ElementsAre("c", "b", "a"));
  EXPECT_EQ(labels.groups[0].name, "c .. b (2)");
  EXPECT_EQ(labels.groups[1].name, "a");
  EXPECT_EQ(labels.groups[1].route, "tree");
}

}  // namespace
}  // namespace ringwood

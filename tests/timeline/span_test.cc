#include "timeline/span.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringwood {
namespace {

using ::testing::ElementsAre;

TraceLabels Labels() {
  return {.tensors = {"fc", "conv"}, .groups = {{"fc .. conv (2)", "ring"}, {"fc", "tree"}}};
}

TraceEvent At(int64_t time, TraceKind kind, uint32_t index = 0, uint64_t value = 0) {
  return {time, 7, value, index, kind};
}

std::vector<std::string> Drawn(const std::vector<TraceSpan>& spans) {
  std::vector<std::string> text;
  for (const TraceSpan& span : spans) {
    text.push_back(span.category + " " + span.name + " " + std::to_string(span.begin_nanoseconds) +
                   ".." + std::to_string(span.end_nanoseconds));
  }
  return text;
}

TEST(TraceSpan, ARoundIsForwardBackwardSelectionLanesWaitVoteAndApply) {
  const std::vector<TraceSpan> spans = SpansOf(
      Labels(),
      {At(10, TraceKind::kRound), At(20, TraceKind::kReady, 0), At(25, TraceKind::kReady, 1),
       At(26, TraceKind::kSelect, 0), At(30, TraceKind::kSelected, 0), At(31, TraceKind::kGroup, 0),
       At(27, TraceKind::kWait), At(40, TraceKind::kGroupEnded, 0, 800), At(41, TraceKind::kVoted),
       At(45, TraceKind::kCommitted), At(50, TraceKind::kApplied)});
  EXPECT_THAT(Drawn(spans),
              ElementsAre("forward forward, fc 10..20", "backward conv 20..25",
                          "select fc .. conv (2) 26..30", "wait wait for the groups 27..41",
                          "ring fc .. conv (2) 31..40", "vote vote 41..45", "apply apply 45..50"));
  EXPECT_EQ(spans[4].bytes, 800u);
  EXPECT_EQ(spans[4].group, 0);
  EXPECT_EQ(spans[4].lane, TraceLane::kRing);
  for (const TraceSpan& span : spans) EXPECT_EQ(span.round, 7u);
}

TEST(TraceSpan, WhatHasNoEndIsLeftOut) {
  const std::vector<TraceSpan> spans =
      SpansOf(Labels(), {At(10, TraceKind::kRound), At(20, TraceKind::kReady, 0),
                         At(21, TraceKind::kGroup, 1), At(30, TraceKind::kFailed)});
  EXPECT_THAT(Drawn(spans), ElementsAre("forward forward, fc 10..20"));
}

TEST(TraceSpan, IndicesBeyondTheLabelsGetNumbers) {
  const std::vector<TraceSpan> spans =
      SpansOf({}, {At(1, TraceKind::kRound), At(2, TraceKind::kReady, 5),
                   At(3, TraceKind::kGroup, 4), At(4, TraceKind::kGroupEnded, 4)});
  EXPECT_THAT(Drawn(spans), ElementsAre("forward forward, tensor 5 1..2", "ring group 4 3..4"));
}

TEST(TraceSpan, LabelsNameGroupsByTheirFirstAndLastTensor) {
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
  const TraceLabels labels = LabelsOf(plan, table);
  EXPECT_THAT(labels.tensors, ElementsAre("c", "b", "a"));
  EXPECT_EQ(labels.groups[0].name, "c .. b (2)");
  EXPECT_EQ(labels.groups[1].name, "a");
  EXPECT_EQ(labels.groups[1].route, "tree");
}

}  // namespace
}  // namespace ringwood

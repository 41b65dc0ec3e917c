#include "plan/predict/node_lanes.h"

#include <gtest/gtest.h>

#include <set>

namespace ringwood {
namespace {

// Node 0 of two: a send, two receives, a send, one receive. Node 1 has no steps.
Performance TwoNodes(int lane, size_t chunks) {
  const std::vector<Schedule> schedules = {{{Op::kSend, 1, 0},
                                            {Op::kReceive, 1, 1},
                                            {Op::kReceiveReduce, 1, 0},
                                            {Op::kSend, 1, 1},
                                            {Op::kReceive, 1, 1}},
                                           {}};
  Performance play;
  play.schedules = std::make_shared<const std::vector<Schedule>>(schedules);
  play.slot_bytes.assign(chunks, {8, 16});
  play.lane = lane;
  return play;
}

TEST(NodeLanes, EveryNodeHasEveryLaneAndEveryRunItsId) {
  Scene scene;
  scene.plays = {TwoNodes(2, 1), TwoNodes(0, 1), TwoNodes(2, 1)};
  NodeLanes lanes(scene);
  EXPECT_EQ(lanes.count(), 3);
  EXPECT_EQ(lanes.plays(0), (std::vector<size_t>{1}));
  EXPECT_TRUE(lanes.plays(1).empty());
  EXPECT_EQ(lanes.plays(2), (std::vector<size_t>{0, 2}));
  std::set<uint32_t> ids;
  for (size_t node = 0; node < 2; ++node) {
    for (int lane = 0; lane < lanes.count(); ++lane) {
      for (const ChunkRun& run : lanes.Of(node, lane).runs) ids.insert(run.id);
    }
  }
  EXPECT_EQ(ids.size(), 2 * 3 * kChunksInFlight);
  EXPECT_EQ(*ids.rbegin() + 1, lanes.runs());
  lanes.Of(1, 0).now = 3;
  lanes.Of(1, 2).now = 2;
  EXPECT_EQ(lanes.End(0), 0);
  EXPECT_EQ(lanes.End(1), 3);
}

TEST(NodeLanes, ReceivesUpToTheNextSendAreAwaitedAtOnce) {
  const Performance play = TwoNodes(0, 1);
  NodeLane lane;
  lane.StartPlay(play, 0);
  ChunkRun& run = lane.runs[0];
  lane.StartChunk(&run);
  lane.FindReceives(&run);
  EXPECT_EQ(run.end, 0u);  // a send
  run.step = 1;
  lane.FindReceives(&run);
  EXPECT_EQ(run.end, 3u);
  EXPECT_EQ(run.missing, 2u);
  EXPECT_FALSE(run.awaits_one());
  run.step = 4;
  lane.FindReceives(&run);
  EXPECT_EQ(run.end, 5u);
  EXPECT_EQ(run.missing, 1u);
  EXPECT_TRUE(run.awaits_one());
}

TEST(NodeLanes, NoMessageOfAnEmptySlotIsMissing) {
  Performance play = TwoNodes(0, 1);
  play.slot_bytes[0][1] = kNotSent;
  NodeLane lane;
  lane.StartPlay(play, 0);
  ChunkRun& run = lane.runs[0];
  lane.StartChunk(&run);
  run.step = 1;
  lane.FindReceives(&run);
  EXPECT_EQ(run.end, 3u);
  EXPECT_EQ(run.missing, 1u);
  run.step = 4;
  lane.FindReceives(&run);
  EXPECT_EQ(run.missing, 0u);
}

TEST(NodeLanes, ChunksStartInOrderAndANodeWithoutStepsHasNone) {
  const Performance play = TwoNodes(0, 2);
  NodeLane lane;
  lane.StartPlay(play, 0);
  EXPECT_EQ(lane.at, 1u);
  for (int chunk = 0; chunk < 2; ++chunk) {
    EXPECT_FALSE(lane.started());
    lane.StartChunk(&lane.runs[0]);
    EXPECT_EQ(lane.runs[0].chunk, chunk);
    EXPECT_EQ(lane.StepBytes(lane.runs[0], lane.steps[1]), 16);
  }
  EXPECT_TRUE(lane.started());
  lane.StartPlay(play, 1);
  EXPECT_EQ(lane.at, 2u);
  EXPECT_TRUE(lane.started());
}

}  // namespace
}  // namespace ringwood

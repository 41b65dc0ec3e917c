#include "plan/predict/scene.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "dense/ring.h"
#include "plan/predict/simulate.h"

namespace ringwood {
namespace {

// A ring of three ranks in one chunk.
Performance RingPlay() {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 3; ++rank) schedules.push_back(RingAllReduce(rank, 3));
  Performance play;
  play.schedules = std::make_shared<const std::vector<Schedule>>(std::move(schedules));
  play.slot_bytes = {{100, 100, 100}};
  return play;
}

Scene SceneWith(Performance play) { return {{}, 3, {}, {}, {RingPlay(), std::move(play)}}; }

TEST(Scene, WhatCanBePlayedIsTaken) {
  EXPECT_TRUE(CheckScene({}).ok());
  EXPECT_EQ(NodesOf({}), 0u);
  Performance play = RingPlay();
  play.lane = kMostLanes - 1;
  Scene scene = SceneWith(play);
  scene.hosts = {{0, 2}, {1}};
  EXPECT_TRUE(CheckScene(scene).ok());
  EXPECT_EQ(NodesOf(scene), 3u);
  scene.plays.resize(kMostPlays, RingPlay());
  EXPECT_TRUE(CheckScene(scene).ok());
}

// The second play becomes what `change` makes of it; the error's message has `part`.
template <typename Change>
void ExpectInvalid(const std::string& part, Change change) {
  Performance play = RingPlay();
  change(play);
  const Status status = CheckScene(SceneWith(play));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << part;
  EXPECT_NE(Message(status).find(part), std::string::npos) << Message(status);
}

template <typename Change>
void ExpectInvalidStep(const std::string& part, Change change) {
  ExpectInvalid(part, [&](Performance& play) {
    std::vector<Schedule> schedules = *play.schedules;
    change(schedules[2].back());
    play.schedules = std::make_shared<const std::vector<Schedule>>(std::move(schedules));
  });
}

TEST(Scene, EveryChunkHasTheSlotsOfTheSteps) {
  const auto one_short = [](Performance& play) { play.slot_bytes.push_back({100, 100}); };
  ExpectInvalid("there is no slot 2", one_short);
  Scene scene{{}, 3, {}, {}, {RingPlay()}};
  scene.plays.push_back(scene.plays[0]);  // with the same schedules, which were looked at already
  EXPECT_TRUE(CheckScene(scene).ok());
  scene.plays[1].slot_bytes = {{100}};
  EXPECT_FALSE(CheckScene(scene).ok());
}

TEST(Scene, HostsOfMoreWorkersThanThereAreNodesAreRefused) {
  Scene scene{{}, 4, {{0, 1}, {2, 3}}, {}, {RingPlay()}};
  EXPECT_THAT(Message(CheckScene(scene)), testing::HasSubstr("4 workers and 3 schedules"));
  scene.plays.clear();
  EXPECT_TRUE(Simulate(scene).ok()) << "nothing is played";
}

TEST(Scene, APlayThatCannotBePlayedIsNamed) {
  ExpectInvalid("a schedule for every node", [](Performance& play) { play.schedules = nullptr; });
  ExpectInvalid("a schedule for every node", [](Performance& play) {
    play.schedules = std::make_shared<const std::vector<Schedule>>(2);
  });
  ExpectInvalid("lane -1", [](Performance& play) { play.lane = -1; });
  ExpectInvalid("lane 20", [](Performance& play) { play.lane = kMostLanes; });
  ExpectInvalid("chunks", [](Performance& play) { play.slot_bytes.resize(kMostChunks + 1); });
  ExpectInvalidStep("no node 3", [](Step& step) { step.peer = 3; });
  ExpectInvalidStep("no node -1", [](Step& step) { step.peer = -1; });
  ExpectInvalidStep("no slot 3", [](Step& step) { step.slot = 3; });
}

TEST(Scene, AHostTwiceAndTooManyPlaysAreRefused) {
  Scene scene = SceneWith(RingPlay());
  scene.hosts = {{0, 1}, {1, 2}};
  EXPECT_EQ(CheckScene(scene).code(), StatusCode::kInvalidArgument);
  scene.hosts = {};
  scene.plays.resize(kMostPlays + 1, RingPlay());
  EXPECT_EQ(CheckScene(scene).code(), StatusCode::kResourceExhausted);
}

TEST(Scene, AMessageIsAsLongAsItsTypeTravels) {
  Performance play = RingPlay();
  Step step{Op::kSend, 1, 2};
  EXPECT_EQ(BytesOf(play, 0, step), 100);
  play.exact_ratio = 2;
  step.exact = true;
  EXPECT_EQ(BytesOf(play, 0, step), 200);
  play.slot_bytes[0][2] = kNotSent;
  EXPECT_LT(BytesOf(play, 0, step), 0);
}

}  // namespace
}  // namespace ringwood

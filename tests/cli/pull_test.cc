// What a reader asks of a server, and what it makes of the answers: decisions alone, against a
// server that answers as it is told.
#include "client/pull/pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

namespace ringwood {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Told : ReaderClient {
  std::deque<StatusOr<v1::PullResponse>> dues;
  std::deque<StatusOr<v1::CheckpointManifest>> checkpoints;
  double hold_seconds = 0;  // that a Hold takes
  TimePoint now{};
  std::vector<std::string> calls;

  StatusOr<v1::PullResponse> Pull(const v1::PullRequest& request) override {
    calls.push_back("pull job=" + std::to_string(request.job()) + " within " +
                    std::to_string(static_cast<int>(request.timeout_seconds())));
    auto due = dues.front();
    dues.pop_front();
    return due;
  }
  StatusOr<v1::CheckpointManifest> Hold(const v1::HoldRequest& wish) override {
    calls.push_back("hold job=" + std::to_string(wish.job()) + " " + std::to_string(wish.epoch()) +
                    ":" + std::to_string(wish.step()) + " within " +
                    std::to_string(static_cast<int>(wish.timeout_seconds())));
    now += Seconds(hold_seconds);
    auto held = checkpoints.front();
    checkpoints.pop_front();
    return held;
  }
  void Release() override { calls.push_back("release"); }
  Status Load(const v1::LoadRequest& request, uint64_t bytes, const Take& take) override {
    calls.push_back("load " + request.item() + " of " + std::to_string(request.epoch()) + ":" +
                    std::to_string(request.step()));
    const std::string data(bytes, 'x');
    return take(std::as_bytes(std::span(data)));
  }
};

v1::PullResponse Due(uint64_t epoch, uint64_t step) {
  v1::PullResponse due;
  due.set_job(7);
  due.set_epoch(epoch);
  due.set_step(step);
  return due;
}

v1::CheckpointManifest Of(uint64_t epoch, uint64_t step) {
  v1::CheckpointManifest manifest;
  manifest.set_epoch(epoch);
  manifest.set_step(step);
  return manifest;
}

StatusOr<v1::CheckpointManifest> Play(Told* server, PullOptions options = {}) {
  options.server = "h1:7070";
  return PullCheckpoint(options, server, [server] { return server->now; });
}

TEST(Pull, TheStepThatTheRanksSaveIsHeld) {
  Told server;
  server.dues = {Due(2, 30)};
  server.checkpoints = {Of(2, 31)};
  const auto held = Play(&server);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->step(), 31u);
  EXPECT_THAT(server.calls, ElementsAre("pull job=0 within 60", "hold job=7 2:30 within 60"));
}

TEST(Pull, OneThatFailsUnderTheDeathOfARankIsAskedForAgain) {
  Told server;
  server.hold_seconds = 20;
  server.dues = {Due(2, 30), Due(3, 40)};
  server.checkpoints = {Aborted("the epoch ended under it"), Of(3, 40)};
  ASSERT_TRUE(Play(&server).ok());
  EXPECT_THAT(server.calls, ElementsAre("pull job=0 within 60", "hold job=7 2:30 within 60",
                                        "pull job=0 within 40", "hold job=7 3:40 within 40"));
}

TEST(Pull, NotWhenTheTimeIsOver) {
  Told server;
  server.hold_seconds = 60;
  server.dues = {Due(2, 30)};
  server.checkpoints = {Unavailable("the disk is full")};
  EXPECT_THAT(Message(Play(&server).status()), HasSubstr("the disk is full"));
  EXPECT_EQ(server.calls.size(), 2u);
}

TEST(Pull, ADeadlineSaysWhatFailedBefore) {
  Told server;
  server.hold_seconds = 1;
  server.dues = {Due(2, 30), TimedOut("no checkpoint began within 59 s")};
  server.checkpoints = {Unavailable("the disk is full")};
  const Status late = Play(&server).status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Message(late), "the disk is full: no checkpoint began within 59 s");
}

TEST(Pull, WhatNoOtherCheckpointMendsEndsIt) {
  Told server;
  server.dues = {Due(2, 30)};
  server.checkpoints = {TimedOut("no rank has saved since then")};
  EXPECT_EQ(Play(&server).status().code(), StatusCode::kDeadlineExceeded);
  server.dues = {NotFound("no job runs here")};
  EXPECT_EQ(Play(&server).status().code(), StatusCode::kNotFound);
}

TEST(Pull, WhatIsStoredIsTakenWithoutAskingTheRanks) {
  Told server;
  server.checkpoints = {Of(1, 10)};
  PullOptions options;
  options.newest_stored = true;
  options.job = 9;
  ASSERT_TRUE(Play(&server, options).ok());
  EXPECT_THAT(server.calls, ElementsAre("hold job=9 0:0 within 60"));
}

TEST(Pull, OptionsThatCannotBeAreRefusedBeforeAnyCall) {
  for (const double seconds : {0.0, -1.0, 3601.0}) {
    PullOptions options;
    options.server = "h1:7070";
    options.timeout_seconds = seconds;
    EXPECT_EQ(Check(options).code(), StatusCode::kInvalidArgument) << seconds;
  }
  auto server = std::make_unique<Told>();
  EXPECT_EQ(Pulled::Open({}, std::move(server)).status().code(), StatusCode::kInvalidArgument);
}

TEST(Pull, ItemsAreOfTheCheckpointThatIsHeld) {
  auto owned = std::make_unique<Told>();
  Told* const server = owned.get();
  server->dues = {Due(2, 30)};
  server->checkpoints = {Of(2, 31)};
  PullOptions options;
  options.server = "h1:7070";
  auto pulled = Pulled::Open(options, std::move(owned));
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  server->calls.clear();
  v1::StoredItem item;
  item.set_name("model/w");
  item.set_scope(v1::SCOPE_SHARED);
  item.set_bytes(3);
  std::string out(3, ' ');
  EXPECT_TRUE((*pulled)->Read(item, std::as_writable_bytes(std::span(out))).ok());
  EXPECT_EQ(out, "xxx");
  EXPECT_THAT(server->calls, ElementsAre("load model/w of 2:31"));
  server->calls.clear();
  std::string shorter(2, ' ');
  EXPECT_EQ((*pulled)->Read(item, std::as_writable_bytes(std::span(shorter))).code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(server->calls, IsEmpty());
}

}  // namespace
}  // namespace ringwood

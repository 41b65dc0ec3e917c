// A checkpoint that fails costs itself: training goes on, and who waits for it is told.
#include "client/checkpoint/checkpointer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <future>

#include "absl/synchronization/notification.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Answers each save with the next of `answers` (OK when there is none), after `go`.
class ScriptedStore : public StoreClient {
 public:
  Status Save(const StripeName& stripe, const Arena& arena, Duration, const Sent& sent) override {
    saved.push_back(stripe.step);
    bytes = arena.bytes();
    std::string came;
    for (size_t i = 0; i < arena.size(); ++i) {
      const std::span<const std::byte> data = arena.entry(i).data;
      came.append(reinterpret_cast<const char*>(data.data()), data.size());
    }
    if (!expected.empty() && came != expected) ++differing;
    sent(bytes);
    if (go != nullptr) go->WaitForNotification();
    if (answers.empty()) return OkStatus();
    Status answer = answers.front();
    answers.pop_front();
    return answer;
  }
  Status Await(const CheckpointName&, Duration) override { return OkStatus(); }
  StatusOr<std::vector<CheckpointItem>> Items(const CheckpointName&, uint32_t) override {
    return std::vector<CheckpointItem>();
  }
  Status Load(const CheckpointName&, uint32_t, const std::string&, bool,
              std::span<std::byte>) override {
    return OkStatus();
  }
  void Cancel() override {}

  std::string expected;  // of all items; empty: not compared
  int differing = 0;
  std::deque<Status> answers;
  std::vector<uint64_t> saved;
  uint64_t bytes = 0;
  absl::Notification* go = nullptr;
};

StripeName AtStep(uint64_t step) {
  StripeName stripe;
  stripe.step = step;
  return stripe;
}

std::vector<Item> Items(const std::string& content) {
  return {{"weights", true, std::as_bytes(std::span(content))}};
}

TEST(Checkpointer, WhatIsSteadyMayChangeOnceItIsReleased) {
  ScriptedStore store;
  Checkpointer checkpointer(&store);
  for (uint64_t step = 1; step <= 50; ++step) {
    std::string residual(3 * kPieceBytes, static_cast<char>('a' + step % 20));
    store.expected = residual;
    std::vector<Item> items = Items(residual);
    items[0].steady = true;
    ASSERT_TRUE(checkpointer.Begin(AtStep(step), items).ok());
    checkpointer.Release();
    residual.assign(residual.size(), '-');
    ASSERT_TRUE(checkpointer.Wait().value().ok());
  }
  EXPECT_THAT(store.saved, SizeIs(50));
  EXPECT_EQ(store.differing, 0);
}

TEST(Checkpointer, AFailedOneIsToldToWhoWaitsAndToNobodyElse) {
  ScriptedStore store;
  store.answers = {Unavailable("no space"), Unavailable("still none")};
  Checkpointer checkpointer(&store);
  const std::string content(1000, 'w');
  EXPECT_TRUE(checkpointer.Begin(AtStep(1), Items(content)).ok());
  EXPECT_TRUE(checkpointer.Begin(AtStep(2), Items(content)).ok()) << "1 failed: nobody's end";
  const Status failed = checkpointer.Wait().value();
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(failed), HasSubstr("checkpoint of step 2: still none"));
  EXPECT_TRUE(checkpointer.Wait().value().ok()) << "told once";
  EXPECT_TRUE(checkpointer.Begin(AtStep(3), Items(content)).ok());
  EXPECT_TRUE(checkpointer.Wait().value().ok());
  EXPECT_EQ(store.saved, (std::vector<uint64_t>{1, 2, 3}));
}

TEST(Checkpointer, APartThatIsTooLargeFailsThatCheckpointOnly) {
  ScriptedStore store;
  Checkpointer checkpointer(&store, {.arena_bytes = 100});
  const std::string large(101, 'w'), small(100, 'w');
  EXPECT_TRUE(checkpointer.Begin(AtStep(1), Items(large)).ok());
  EXPECT_EQ(checkpointer.Wait().value().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(checkpointer.Begin(AtStep(2), Items(small)).ok());
  EXPECT_TRUE(checkpointer.Wait().value().ok());
  EXPECT_EQ(store.saved, std::vector<uint64_t>{2});
}

TEST(Checkpointer, ItsProgressIsThatOfTheNewestOne) {
  absl::Notification go;
  ScriptedStore store;
  store.go = &go;
  store.answers = {OkStatus(), Unavailable("no space")};
  Checkpointer checkpointer(&store);
  EXPECT_FALSE(checkpointer.progress().under_way);
  const std::string large(1000, 'w'), small(10, 'w');
  ASSERT_TRUE(checkpointer.Begin(AtStep(7), Items(large)).ok());
  EXPECT_TRUE(checkpointer.progress().under_way);
  EXPECT_EQ(checkpointer.progress().bytes, 1000u);
  go.Notify();
  EXPECT_TRUE(checkpointer.Wait().value().ok());
  ASSERT_TRUE(checkpointer.Begin(AtStep(8), Items(small)).ok());
  EXPECT_FALSE(checkpointer.Wait().value().ok());
  const CheckpointProgress last = checkpointer.progress();
  EXPECT_EQ(last.step, 8u);
  EXPECT_EQ(last.sent, 10u);
  EXPECT_EQ(last.arena_bytes, 1000u) << "the memory is kept";
  EXPECT_EQ(last.completed, 1u);
  EXPECT_EQ(last.failed, 1u);
  EXPECT_FALSE(last.under_way);
}

// At that rate the piece takes a year, and the test ends at once.
TEST(Checkpointer, ARateHoldsTheUploadUpAndNotTheEnd) {
  ScriptedStore store;
  const std::string content(1000, 'w');
  Checkpointer checkpointer(&store, {.bytes_per_second = 3e-5});
  ASSERT_TRUE(checkpointer.Begin(AtStep(1), Items(content)).ok());
  EXPECT_TRUE(checkpointer.progress().under_way);
  checkpointer.Interrupt(Aborted("the session ends"));
  EXPECT_EQ(checkpointer.Wait(), std::nullopt);
}

TEST(Checkpointer, ItemsThatCannotBeSavedAreTheCallersError) {
  ScriptedStore store;
  Checkpointer checkpointer(&store);
  EXPECT_EQ(checkpointer.Begin(AtStep(1), {{"", true, {}}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(checkpointer.Begin(AtStep(1), {{"a", true, {}}, {"a", true, {}}}).code(),
            StatusCode::kAlreadyExists);
  EXPECT_TRUE(checkpointer.Wait().value().ok());
}

TEST(Checkpointer, TheEndOfTheEpochWakesWhoWaitsAndLeavesTheArenaToTheUpload) {
  absl::Notification go;
  ScriptedStore store;
  store.go = &go;
  Checkpointer checkpointer(&store);
  const std::string content(1000, 'w'), other(10, 'o');
  ASSERT_TRUE(checkpointer.Begin(AtStep(1), Items(content)).ok());
  auto waiting = std::async(std::launch::async, [&] { return checkpointer.Wait(); });
  checkpointer.Interrupt(Unavailable("rank 1 died"));
  checkpointer.Interrupt(Aborted("a later reason"));
  EXPECT_EQ(waiting.get(), std::nullopt);
  EXPECT_EQ(checkpointer.Begin(AtStep(2), Items(other)), Unavailable("rank 1 died"));
  go.Notify();
}

TEST(Checkpointer, InTheNextEpochTheUploadEndsAsTheStoreHasIt) {
  for (const Status& answer : {OkStatus(), Unavailable("rank 1 is gone")}) {
    absl::Notification go;
    ScriptedStore store;
    store.go = &go;
    store.answers = {answer};
    Checkpointer checkpointer(&store);
    const std::string content(1000, 'w');
    ASSERT_TRUE(checkpointer.Begin(AtStep(1), Items(content)).ok());
    checkpointer.Interrupt(Unavailable("rank 1 died"));
    EXPECT_EQ(checkpointer.Wait(), std::nullopt);
    checkpointer.Resume();
    go.Notify();
    EXPECT_EQ(checkpointer.Wait().value().code(), answer.code());
    EXPECT_TRUE(checkpointer.Wait().value().ok()) << "told once";
  }
}

}  // namespace
}  // namespace ringwood

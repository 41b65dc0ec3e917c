// Which checkpoint a reader gets, how long it waits, and what is held: decisions alone. The scripts
// of the membership have what the coordinator tells a reader.
#include "server/store/service/readers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "server/coordinator/pulls.h"
#include "tests/base/at.h"

namespace ringwood {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::HoldRequest Wish(uint64_t epoch, uint64_t step, uint64_t job = 0, double seconds = 10) {
  v1::HoldRequest wish;
  wish.set_job(job);
  wish.set_epoch(epoch);
  wish.set_step(step);
  wish.set_timeout_seconds(seconds);
  return wish;
}

Readers::Making Silent(const CheckpointId&) { return {OkStatus(), "no rank has saved"}; }

// "1: step 20", "2: NOT_FOUND: …".
std::vector<std::string> Texts(const std::vector<Readers::Answer>& answers) {
  std::vector<std::string> texts;
  for (const Readers::Answer& answer : answers) {
    const std::string what = answer.id.ok() ? "step " + std::to_string(answer.id->step)
                                            : absl::StatusCodeToString(answer.id.status().code()) +
                                                  ": " + Message(answer.id.status());
    texts.push_back(std::to_string(answer.reader) + ": " + what);
  }
  return texts;
}

TEST(Readers, TheNewestGoodOneOfTheJobIsTaken) {
  Readers readers;
  const std::vector<Kept> complete = {{{1, 10}, 7},
                                      {{1, 20}, 7},
                                      {{2, 5}, 8},
                                      {{1, 30}, 7, true},
                                      {{1, 40}, 7, false, false, {}, true}};
  ASSERT_TRUE(readers.Enter(1, Wish(0, 0, 7), At(0)).ok());
  ASSERT_TRUE(readers.Enter(2, Wish(0, 0), At(0)).ok());
  ASSERT_TRUE(readers.Enter(3, Wish(0, 0, 9), At(0)).ok());
  EXPECT_THAT(Texts(readers.Look(complete, Silent, At(0))),
              ElementsAre("2: step 5",
                          "3: NOT_FOUND: the store has no complete checkpoint of job "
                          "0000000000000009"));
  EXPECT_THAT(Texts(readers.Look(complete, Silent, At(10))), ElementsAre("1: step 20"));
  EXPECT_THAT(readers.held(), ElementsAre(CheckpointId{1, 20}, CheckpointId{2, 5}));
  readers.Leave(1);
  readers.Leave(2);
  EXPECT_THAT(readers.held(), IsEmpty());
}

TEST(Readers, OneThatIsBeingReadBackIsWaitedFor) {
  const auto unread = [](uint64_t step) { return Kept{{1, step}, 7, false, false, {}, true}; };
  Readers readers;
  ASSERT_TRUE(readers.Enter(1, Wish(0, 0), At(0)).ok());
  EXPECT_THAT(readers.Look({{{1, 10}, 7}, unread(20)}, Silent, At(0)), IsEmpty());
  // Not for those that come meanwhile: there may always be one.
  ASSERT_TRUE(readers.Enter(2, Wish(0, 0), At(1)).ok());
  EXPECT_THAT(Texts(readers.Look({{{1, 10}, 7}, {{1, 20}, 7}, unread(30)}, Silent, At(1))),
              ElementsAre("1: step 20"));
  // Reader 2 came when step 30 was there. It is damaged.
  EXPECT_THAT(Texts(readers.Look({{{1, 20}, 7}, {{1, 30}, 7, true}, unread(40)}, Silent, At(2))),
              ElementsAre("2: step 20"));
  // Who waits for a step has it with any good one from there on.
  ASSERT_TRUE(readers.Enter(3, Wish(1, 15), At(2)).ok());
  EXPECT_THAT(Texts(readers.Look({{{1, 20}, 7}, unread(40)}, Silent, At(2))),
              ElementsAre("3: step 20"));
  ASSERT_TRUE(readers.Enter(4, Wish(0, 0, 0, 5), At(2)).ok());
  EXPECT_THAT(readers.Look({unread(40)}, Silent, At(6.9)), IsEmpty());
  EXPECT_THAT(Texts(readers.Look({unread(40)}, Silent, At(7))),
              ElementsAre("4: DEADLINE_EXCEEDED: the store's only checkpoint, of step 40, was not "
                          "read back from the disk within 5 s: wait longer"));
  ASSERT_TRUE(readers.Enter(5, Wish(0, 0), At(7)).ok());
  EXPECT_THAT(readers.Look({unread(40)}, Silent, At(7)), IsEmpty());
  EXPECT_THAT(Texts(readers.Look({{{1, 40}, 7, true}}, Silent, At(8))),
              ElementsAre("5: NOT_FOUND: the store has no complete checkpoint"));
}

TEST(Readers, AWaitEndsWithThatCheckpointOrANewerOne) {
  Readers readers;
  ASSERT_TRUE(readers.Enter(1, Wish(2, 30), At(0)).ok());
  ASSERT_TRUE(readers.Enter(2, Wish(2, 40), At(0)).ok());
  EXPECT_THAT(readers.Look({{{1, 90}, 7}, {{2, 20}, 7}}, Silent, At(1)), IsEmpty());
  EXPECT_THAT(Texts(readers.Look({{{2, 30}, 7}}, Silent, At(2))), ElementsAre("1: step 30"));
  // A newer epoch went back to an earlier step.
  EXPECT_THAT(Texts(readers.Look({{{2, 30}, 7}, {{3, 25}, 7}}, Silent, At(3))),
              ElementsAre("2: step 25"));
}

TEST(Readers, OneThatWasHeldBeforeIsStillThereOrGone) {
  v1::HoldRequest wish = Wish(2, 30, 7);
  wish.set_exactly(true);
  Readers readers;
  ASSERT_TRUE(readers.Enter(1, wish, At(0)).ok());
  EXPECT_THAT(Texts(readers.Look({{{2, 30}, 7}, {{2, 40}, 7}}, Silent, At(0))),
              ElementsAre("1: step 30"));
  ASSERT_TRUE(readers.Enter(2, wish, At(1)).ok());
  EXPECT_THAT(Texts(readers.Look({{{2, 40}, 7}, {{2, 50}, 7}}, Silent, At(1))),
              ElementsAre("2: ABORTED: the checkpoint of step 30 (epoch 2) was removed while it "
                          "was read, for newer ones: take the newest"));
  ASSERT_TRUE(readers.Enter(3, wish, At(2)).ok());
  const Kept unread{{2, 30}, 7, false, false, {}, true};
  EXPECT_THAT(readers.Look({unread}, Silent, At(2)), IsEmpty());
  EXPECT_THAT(Texts(readers.Look({{{2, 30}, 7}}, Silent, At(3))), ElementsAre("3: step 30"));
}

TEST(Readers, AWaitInVainSaysWhy) {
  Readers readers;
  ASSERT_TRUE(readers.Enter(1, Wish(2, 30, 0, 9.99998), At(0)).ok());
  EXPECT_THAT(readers.Look({}, Silent, At(9.9)), IsEmpty());
  EXPECT_THAT(Texts(readers.Look({}, Silent, At(10))),
              ElementsAre("1: DEADLINE_EXCEEDED: the checkpoint of step 30 did not come within 10 "
                          "s: no rank has saved"));
  const auto failed = [](const CheckpointId&) {
    return Readers::Making{Unavailable("rank 1 stopped in the middle"), ""};
  };
  ASSERT_TRUE(readers.Enter(2, Wish(2, 31), At(10)).ok());
  EXPECT_THAT(Texts(readers.Look({}, failed, At(10))),
              ElementsAre("2: UNAVAILABLE: the checkpoint of step 31 failed: rank 1 stopped in the "
                          "middle"));
  ASSERT_TRUE(
      readers.Enter(3, Wish(2, 31, 0, std::numeric_limits<double>::quiet_NaN()), At(0)).ok());
  EXPECT_EQ(readers.Look({}, Silent, At(0)).size(), 1u) << "a time that is no number is none";
}

TEST(Readers, SoManyCheckpointsAreHeldAndWhoComesThenSharesTheNextOne) {
  Readers readers;
  uint64_t reader = 0;
  for (uint64_t step = 1; step <= Readers::kMaxHeld; ++step) {
    ASSERT_TRUE(readers.Enter(++reader, Wish(1, step), At(0)).ok());
    EXPECT_EQ(readers.Look({{{1, step}, 7}}, Silent, At(0)).size(), 1u);
  }
  const uint64_t late = ++reader, later = ++reader, last = Readers::kMaxHeld;
  ASSERT_TRUE(readers.Enter(late, Wish(1, last + 1), At(0)).ok());
  ASSERT_TRUE(readers.Enter(later, Wish(1, last + 2), At(0)).ok());
  const std::vector<Kept> complete = {{{1, last}, 7}, {{1, last + 2}, 7}};
  EXPECT_THAT(readers.Look(complete, Silent, At(1)), IsEmpty());
  readers.Leave(1);
  const auto answers = readers.Look(complete, Silent, At(2));
  ASSERT_EQ(answers.size(), 2u);
  for (const Readers::Answer& answer : answers) EXPECT_EQ(*answer.id, (CheckpointId{1, last + 2}));
  EXPECT_EQ(readers.held().size(), Readers::kMaxHeld);
  // Who waits for longer than it may is told.
  ASSERT_TRUE(readers.Enter(++reader, Wish(1, last + 3, 0, 5), At(2)).ok());
  const auto overdue = Texts(readers.Look({{{1, last + 3}, 7}}, Silent, At(7)));
  ASSERT_EQ(overdue.size(), 1u);
  EXPECT_THAT(overdue[0], HasSubstr("4 checkpoints are being read"));
}

TEST(Readers, WhatNobodyReadsIsLetGo) {
  Readers readers;
  for (const uint64_t reader : {1, 2}) {
    ASSERT_TRUE(readers.Enter(reader, Wish(1, reader), At(0)).ok());
    ASSERT_EQ(readers.Look({{{1, reader}, 7}}, Silent, At(0)).size(), 1u);
  }
  readers.Read({1, 2}, At(Readers::kIdleSeconds));
  readers.Read({1, 9}, At(0));  // of a checkpoint that nobody holds
  EXPECT_THAT(readers.TakeIdle(At(Readers::kIdleSeconds)), IsEmpty());
  EXPECT_THAT(readers.TakeIdle(At(Readers::kIdleSeconds + 1)), ElementsAre(1));
  EXPECT_THAT(readers.held(), ElementsAre(CheckpointId{1, 2}));
  EXPECT_THAT(readers.TakeIdle(At(2 * Readers::kIdleSeconds + 1)), ElementsAre(2));
}

TEST(Readers, SoManyMayBeHere) {
  Readers readers;
  for (uint64_t reader = 0; reader < Readers::kMaxReaders; ++reader) {
    ASSERT_TRUE(readers.Enter(reader, Wish(1, 1), At(0)).ok());
  }
  EXPECT_EQ(readers.Enter(999, Wish(1, 1), At(0)).code(), StatusCode::kResourceExhausted);
  readers.Leave(3);
  EXPECT_TRUE(readers.Enter(999, Wish(1, 1), At(0)).ok());
}

TEST(Pulls, SoManyMayWait) {
  Pulls pulls;
  Outbox out;
  v1::PullRequest request;
  request.set_timeout_seconds(60);
  for (CallId call = 1; call <= Pulls::kMaxWaiting; ++call) {
    pulls.Add({call, request}, 0, At(0), &out);
  }
  EXPECT_THAT(out.Take(), IsEmpty());
  pulls.Add({1000, request}, 0, At(0), &out);
  const Actions refused = out.Take();
  ASSERT_EQ(refused.size(), 1u);
  const auto& reply = std::get<action::Reply>(refused[0]);
  EXPECT_EQ(reply.call, 1000u);
  EXPECT_EQ(std::get<Status>(reply.answer).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(pulls.CallGone(7, &out));
  EXPECT_EQ(out.Take().size(), 1u);
  pulls.Add({1001, request}, 0, At(0), &out);
  EXPECT_THAT(out.Take(), IsEmpty());
}

}  // namespace
}  // namespace ringwood

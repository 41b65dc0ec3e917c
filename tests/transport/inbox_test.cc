// What arrives meets what is asked for, and what no peer may do to it.
#include "transport/inbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/digest.h"

namespace ringwood {
namespace {

// Claims to hold `held` bytes.
class ClaimingPayload : public IncomingPayload {
 public:
  explicit ClaimingPayload(uint64_t held) : held_(held) {}
  uint64_t HeldBytes() const override { return held_; }
  void Fetch(std::span<std::byte>, std::function<void(Status)> done) override { done(OkStatus()); }

 private:
  const uint64_t held_;
};

// Lies in its sender's memory.
class SendersPayload : public IncomingPayload {
 public:
  explicit SendersPayload(std::span<const std::byte> memory) : memory_(memory) {}
  uint64_t HeldBytes() const override { return 0; }
  bool IsSenders() const override { return true; }
  void Fetch(std::span<std::byte> into, std::function<void(Status)> done) override {
    std::ranges::copy(memory_, into.begin());
    done(OkStatus());
  }

 private:
  const std::span<const std::byte> memory_;
};

class InboxTest : public testing::Test {
 protected:
  static Frame FrameOf(int sender, uint32_t chunk, std::span<const std::byte> payload) {
    Frame frame;
    frame.sender = static_cast<uint32_t>(sender);
    frame.job = 1;
    frame.epoch = 1;
    frame.chunk = chunk;
    frame.lane = static_cast<uint8_t>(Lane::kDense);
    frame.type = 1;
    frame.count = payload.size() / 4;
    frame.bytes = payload.size();
    frame.checksum = Digest(payload);
    return frame;
  }
  // What asking for the message answers; Cancelled while nothing does.
  Status Ask(int peer, uint32_t chunk, std::span<std::byte> into, uint64_t count = 0) {
    auto status = std::make_shared<Status>(StatusCode::kCancelled, "no answer");
    inbox_.Post(peer, {Lane::kDense, 0, 0, chunk, 0}, {1, 0, count}, into,
                [status](StatusOr<std::span<std::byte>> payload, const Frame&) {
                  *status = payload.status();
                });
    while (inbox_.RunAnswers()) {
    }
    return *status;
  }

  Inbox inbox_{{1, 1, 0}, {{0, "rank 0", ""}, {1, "rank 1", ""}, {2, "rank 2", ""}}, {1000}};
};

TEST_F(InboxTest, ASizeThatWouldWrapTheSumIsRefused) {
  const std::vector<std::byte> payload(100);
  std::vector<std::byte> into(100);
  inbox_.Arrive(FrameOf(1, 0, payload), payload);
  Frame huge = FrameOf(1, 1, payload);
  huge.bytes = std::numeric_limits<uint64_t>::max() - 50;
  inbox_.Arrive(huge, std::make_unique<ClaimingPayload>(huge.bytes));
  EXPECT_TRUE(Ask(1, 0, into).ok());  // it had arrived
  EXPECT_EQ(Ask(1, 1, into).code(), StatusCode::kResourceExhausted);
}

TEST_F(InboxTest, APeerThatRunsAheadTakesNoRoomFromAnother) {
  const std::vector<std::byte> payload(900);
  std::vector<std::byte> into(900);
  inbox_.Arrive(FrameOf(1, 0, payload), payload);
  inbox_.Arrive(FrameOf(2, 0, payload), payload);
  EXPECT_TRUE(Ask(1, 0, into).ok());
  EXPECT_TRUE(Ask(2, 0, into).ok());
  inbox_.Arrive(FrameOf(1, 1, payload), payload);  // what was taken makes room
  EXPECT_TRUE(Ask(1, 1, into).ok());
}

TEST_F(InboxTest, APeerThatRanAheadTooFarIsNotListenedToAgain) {
  const std::vector<std::byte> payload(900);
  std::vector<std::byte> into(900);
  inbox_.Arrive(FrameOf(1, 0, payload), payload);
  inbox_.Arrive(FrameOf(1, 1, payload), payload);
  EXPECT_TRUE(Ask(1, 0, into).ok());  // it had arrived, and makes room
  inbox_.Arrive(FrameOf(1, 2, payload), payload);
  EXPECT_EQ(Ask(1, 2, into).code(), StatusCode::kResourceExhausted);
}

// Who has left uses its memory again: that is no damage, of which everybody would hear.
TEST_F(InboxTest, WhatItsSenderChangedBeforeItWasReadIsNotTakenForDamage) {
  std::vector<std::byte> memory(100), into(100);
  for (const uint32_t chunk : {0, 1, 2}) {
    inbox_.Arrive(FrameOf(1, chunk, memory), std::make_unique<SendersPayload>(memory));
  }
  EXPECT_TRUE(Ask(1, 0, into, 25).ok());
  memory[7] = std::byte{1};
  const Status changed = Ask(1, 1, into, 25);
  EXPECT_EQ(changed.code(), StatusCode::kUnavailable) << changed;
  EXPECT_FALSE(TellsPeers(changed));
  inbox_.Fail(1, Unavailable("rank 1 closed its connection"));
  const Status gone = Ask(1, 2, into, 25);
  EXPECT_NE(Message(gone).find("rank 1 closed its connection"), std::string::npos) << gone;
  EXPECT_EQ(inbox_.counters().corrupt_frames, 0u);
}

TEST(Farewell, OfAPeerObeysNoControlCharacter) {
  const auto read = [](const std::string& text) {
    return Message(ReadFarewell(static_cast<uint8_t>(StatusCode::kInvalidArgument),
                                std::as_bytes(std::span(text)), "rank 1"));
  };
  EXPECT_EQ(read("why\x1b[2J\n\xc2\x9bm \xff"), "why\\x1b[2J\\n\\x9bm ?");
  const std::string sent = Farewell(Invalid(std::string(5000, '\n')));
  EXPECT_EQ(read(sent), sent);
  EXPECT_EQ(read(""), "rank 1 closed its connection");
}

TEST(Farewell, IsKnownAsWhatAPeerSaid) {
  const Status reason = TimedOut("rank 2 has not answered");
  const std::string sent = Farewell(reason);
  const auto code = static_cast<uint8_t>(reason.code());
  const Status read = ReadFarewell(code, std::as_bytes(std::span(sent)), "rank 1");
  EXPECT_EQ(read.code(), reason.code());
  EXPECT_TRUE(IsTold(Annotate(read, "step 4")));
  EXPECT_FALSE(IsTold(reason));
}

TEST_F(InboxTest, APayloadOfAnotherLengthThanItsFrameSaysFailsItsSender) {
  const std::vector<std::byte> payload(100);
  std::vector<std::byte> into(1000);
  for (const bool asked : {false, true}) {
    SCOPED_TRACE(asked);
    Inbox inbox({1, 1, 0}, {{0, "rank 0", ""}, {1, "rank 1", ""}}, {1000});
    Status status;
    const auto ask = [&] {
      inbox.Post(
          1, {Lane::kDense, 0, 0, 0, 0}, {1, 0, 0}, into,
          [&](StatusOr<std::span<std::byte>> answer, const Frame&) { status = answer.status(); });
    };
    Frame frame = FrameOf(1, 0, payload);
    frame.bytes = 900;
    if (asked) ask();
    inbox.Arrive(frame, payload);
    if (!asked) ask();
    while (inbox.RunAnswers()) {
    }
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << Message(status);
    EXPECT_NE(Message(status).find("rank 1"), std::string::npos);
    EXPECT_EQ(inbox.counters().corrupt_frames, 1u);
  }
}

}  // namespace
}  // namespace ringwood

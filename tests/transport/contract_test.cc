// What every transport promises, held against each of them.

#include "base/digest.h"
#include "tests/transport/world.h"
#include "transport/watch.h"

namespace ringwood {
namespace {

std::vector<std::byte> Pattern(size_t bytes, int seed) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + seed);
  return data;
}

MessageName Name(uint32_t chunk) { return {Lane::kDense, 17, 3, chunk, 0}; }
Content Bytes(size_t count) { return {7, 0, count}; }

class Contract : public testing::TestWithParam<Kind> {
 protected:
  // Both answers live in the test; payload and into must too.
  void Send(World& world, int from, int to, uint32_t chunk, std::span<const std::byte> payload,
            Answer& answer) {
    world.Run(from, [&] {
      world.transport(from)->Send(to, Name(chunk), Bytes(payload.size()), payload,
                                  answer.ForSend());
    });
  }
  void Receive(World& world, int at, int from, uint32_t chunk, std::span<std::byte> into,
               Answer& answer, uint64_t count = 0) {
    world.Run(at, [&] {
      world.transport(at)->Receive(from, Name(chunk), Bytes(count), into, answer.ForReceive());
    });
  }
};

TEST_P(Contract, AMessageLandsInThePostedBufferWhateverItsSize) {
  World world(GetParam(), 2);
  uint32_t chunk = 0;
  for (size_t bytes : {0, 1, 100, 8000, 9000, 70000, 1 << 20, 9 << 20}) {
    const auto payload = Pattern(bytes, 1);
    std::vector<std::byte> into(bytes);
    Answer sent, received;
    Receive(world, 1, 0, chunk, into, received, bytes);
    Send(world, 0, 1, chunk, payload, sent);
    EXPECT_TRUE(sent.Wait().ok()) << Message(sent.status);
    EXPECT_TRUE(received.Wait().ok()) << Message(received.status);
    EXPECT_EQ(into, payload) << bytes;
    EXPECT_EQ(received.bytes, bytes);
    EXPECT_EQ(received.frame.sender, 0u);
    ++chunk;
  }
}

TEST_P(Contract, AReceiveBufferThatTakesGetsTheWholePayloadOnceBeforeTheAnswer) {
  World world(GetParam(), 2);
  uint32_t chunk = 0;
  for (bool early : {false, true}) {
    for (size_t bytes : {0, 1, 9000, 300000, 2 << 20}) {
      const auto payload = Pattern(bytes, 6);
      std::vector<std::byte> into(bytes), taken;
      int times = 0;
      bool answered = false;
      const ReceiveBuffer buffer(into, [&](std::span<const std::byte> from) {
        EXPECT_FALSE(answered);
        taken.assign(from.begin(), from.end());
        ++times;
      });
      Answer sent, received;
      const auto receive = [&] {
        world.transport(1)->Receive(0, Name(chunk), Bytes(0), buffer,
                                    [&, done = received.ForReceive()](auto answer, auto& frame) {
                                      answered = true;
                                      done(answer, frame);
                                    });
      };
      if (!early) world.Run(1, receive);
      Send(world, 0, 1, chunk, payload, sent);
      if (early) absl::SleepFor(absl::Milliseconds(20));
      if (early) world.Run(1, receive);
      EXPECT_TRUE(received.Wait().ok()) << Message(received.status);
      EXPECT_TRUE(sent.Wait().ok());
      EXPECT_EQ(times, 1);
      EXPECT_EQ(taken, payload);
      EXPECT_EQ(received.bytes, bytes);
      ++chunk;
    }
  }
}

TEST_P(Contract, AKnownDigestIsSentAndAPayloadThatDiffersFromItIsNotTaken) {
  World world(GetParam(), 2);
  const auto payload = Pattern(5000, 7);
  for (const uint64_t error : {0, 1}) {
    std::vector<std::byte> into(payload.size());
    bool taken = false;
    Answer sent, received;
    const ReceiveBuffer buffer(into, [&](std::span<const std::byte>) { taken = true; });
    const uint32_t chunk = static_cast<uint32_t>(error);
    world.Run(1, [&] {
      world.transport(1)->Receive(0, Name(chunk), Bytes(0), buffer, received.ForReceive());
    });
    world.Run(0, [&] {
      world.transport(0)->Send(1, Name(chunk), Bytes(payload.size()),
                               {payload, Digest(payload) + error}, sent.ForSend());
    });
    EXPECT_EQ(received.Wait().ok(), error == 0);
    EXPECT_TRUE(sent.Wait().ok());
    EXPECT_EQ(taken, error == 0);
    if (error == 0) continue;
    EXPECT_EQ(received.status.code(), StatusCode::kDataLoss);
    world.Run(1, [&] { EXPECT_EQ(world.transport(1)->Counters().corrupt_frames, 1u); });
  }
}

TEST_P(Contract, AMessageMayArriveBeforeItIsAskedFor) {
  World world(GetParam(), 2);
  uint32_t chunk = 0;
  for (size_t bytes : {0, 5, 30000, 2 << 20}) {
    const auto payload = Pattern(bytes, 2);
    std::vector<std::byte> into(bytes);
    Answer sent, received;
    Send(world, 0, 1, chunk, payload, sent);
    absl::SleepFor(absl::Milliseconds(50));
    Receive(world, 1, 0, chunk, into, received);
    EXPECT_TRUE(received.Wait().ok()) << Message(received.status);
    EXPECT_TRUE(sent.Wait().ok());
    EXPECT_EQ(into, payload);
    ++chunk;
  }
}

TEST_P(Contract, AMessageMayArriveBeforeItsReceiverHasJoinedTheEpoch) {
  World world(GetParam(), 2, false);
  world.Connect(0);
  const auto small = Pattern(100, 3);
  const auto large = Pattern(3 << 20, 4);
  Answer sent_small, sent_large, received_small, received_large;
  Send(world, 0, 1, 0, small, sent_small);
  Send(world, 0, 1, 1, large, sent_large);
  absl::SleepFor(absl::Milliseconds(50));
  world.Connect(1);
  std::vector<std::byte> into_small(100), into_large(3 << 20);
  Receive(world, 1, 0, 0, into_small, received_small);
  Receive(world, 1, 0, 1, into_large, received_large);
  EXPECT_TRUE(received_small.Wait().ok());
  EXPECT_TRUE(received_large.Wait().ok());
  EXPECT_EQ(into_small, small);
  EXPECT_EQ(into_large, large);
  EXPECT_TRUE(sent_small.Wait().ok());
  EXPECT_TRUE(sent_large.Wait().ok());
}

TEST_P(Contract, ManyMessagesBothWaysAreMatchedByName) {
  World world(GetParam(), 2);
  constexpr int kCount = 64;
  std::vector<std::vector<std::byte>> payload, into;
  for (int i = 0; i < kCount; ++i) {
    payload.push_back(Pattern(i % 2 == 0 ? 300 : 100000, i));
    into.emplace_back(payload.back().size());
    into.emplace_back(payload.back().size());
  }
  std::vector<Answer> sent(2 * kCount), received(2 * kCount);
  for (int i = 0; i < kCount; ++i) {
    for (int side = 0; side < 2; ++side) {
      Send(world, side, 1 - side, i, payload[i], sent[2 * i + side]);
    }
  }
  for (int i = kCount - 1; i >= 0; --i) {  // asked for in the opposite order
    for (int side = 0; side < 2; ++side) {
      Receive(world, side, 1 - side, i, into[2 * i + side], received[2 * i + side]);
    }
  }
  for (int i = 0; i < 2 * kCount; ++i) {
    EXPECT_TRUE(received[i].Wait().ok()) << Message(received[i].status);
    EXPECT_TRUE(sent[i].Wait().ok());
    EXPECT_EQ(into[i], payload[i / 2]);
  }
}

TEST_P(Contract, AMismatchIsAnErrorThatNamesBothSides) {
  for (size_t bytes : {100, 200000}) {
    for (bool early : {false, true}) {
      World world(GetParam(), 2);
      const auto payload = Pattern(bytes, 1);
      std::vector<std::byte> into(bytes - 1);
      Answer sent, received;
      if (early) Send(world, 0, 1, 0, payload, sent);
      if (early) absl::SleepFor(absl::Milliseconds(30));
      Receive(world, 1, 0, 0, into, received);
      if (!early) Send(world, 0, 1, 0, payload, sent);
      EXPECT_EQ(received.Wait().code(), StatusCode::kInvalidArgument);
      EXPECT_NE(Message(received.status).find("rank 0 (host h0) sent"), std::string::npos);
      EXPECT_NE(Message(received.status).find("rank 1 (host h1) awaits"), std::string::npos);
      EXPECT_NE(Message(received.status).find("round 17 group 3"), std::string::npos);
      EXPECT_EQ(into, std::vector<std::byte>(bytes - 1));
      EXPECT_NE(sent.Wait().code(), StatusCode::kDeadlineExceeded);
    }
  }
}

TEST_P(Contract, AnotherCountTypeOrCallIsAMismatchToo) {
  World world(GetParam(), 2);
  const auto payload = Pattern(8, 1);
  std::vector<std::byte> into(8);
  Answer sent[2], count, type;
  Send(world, 0, 1, 0, payload, sent[0]);
  Send(world, 0, 1, 1, payload, sent[1]);
  Receive(world, 1, 0, 0, into, count, 2);
  world.Run(1, [&] {
    world.transport(1)->Receive(0, Name(1), {1, 0, 0}, into, type.ForReceive());
  });
  const Asked awaited{8, ReduceOp::kMax, 5};
  const Asked others[] = {{16, ReduceOp::kMax, 5}, {8, ReduceOp::kMin, 5}, {8, ReduceOp::kMax, 6}};
  const char* const words[] = {"8 bytes), of 16 in all", "sent min of 8 elements",
                               "registered different"};
  for (uint32_t i = 0; i < 3; ++i) {
    Answer call, sent_call;
    world.Run(1, [&] {
      world.transport(1)->Receive(0, Name(2 + i), {7, 0, 8, awaited}, into, call.ForReceive());
    });
    world.Run(0, [&] {
      world.transport(0)->Send(1, Name(2 + i), {7, 0, 8, others[i]}, payload, sent_call.ForSend());
    });
    EXPECT_EQ(call.Wait().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(Message(call.status).find("awaits at most max of 8"), std::string::npos);
    EXPECT_NE(Message(call.status).find(words[i]), std::string::npos) << call.status;
    EXPECT_TRUE(sent_call.Wait().ok());
  }
  EXPECT_EQ(count.Wait().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(type.Wait().code(), StatusCode::kInvalidArgument);
  for (Answer& answer : sent) EXPECT_TRUE(answer.Wait().ok());
}

TEST_P(Contract, AMessageOfAnotherEpochIsDroppedAndCounted) {
  World world(GetParam(), 2, false);
  world.Connect(0, World::kEpoch - 1);
  world.Connect(1);
  const auto small = Pattern(10, 1);
  const auto large = Pattern(100000, 1);
  std::vector<std::byte> into_small(10), into_large(100000);
  Answer sent[2], received[2];
  Receive(world, 1, 0, 0, into_small, received[0]);
  Receive(world, 1, 0, 1, into_large, received[1]);
  Send(world, 0, 1, 0, small, sent[0]);
  Send(world, 0, 1, 1, large, sent[1]);
  EXPECT_EQ(received[0].Wait(0.2).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(received[1].Wait(0.2).code(), StatusCode::kDeadlineExceeded);
  // gRPC's connections prove their epoch: the whole one is refused.
  const uint64_t dropped = GetParam() == Kind::kGrpc || GetParam() == Kind::kGrpcTls ? 0 : 2;
  uint64_t counted = 0;
  const TimePoint end = Now() + Seconds(60);
  do {
    world.Run(1, [&] { counted = world.transport(1)->Counters().stale_frames; });
  } while (counted < dropped && Now() < end);
  EXPECT_EQ(counted, dropped);
  world.Close(1, Aborted("over"));
  EXPECT_EQ(received[0].Wait().code(), StatusCode::kAborted);
  EXPECT_EQ(received[1].Wait().code(), StatusCode::kAborted);
  EXPECT_EQ(into_small, std::vector<std::byte>(10));
  EXPECT_EQ(into_large, std::vector<std::byte>(100000));
  world.Close(0, Aborted("over"));
}

TEST_P(Contract, CloseAnswersEverythingWithItsReason) {
  World world(GetParam(), 3);
  std::vector<std::byte> into(100), large(8 << 20), early(100);
  Answer received[2], sent, sent_early;
  Receive(world, 0, 1, 0, into, received[0]);
  Receive(world, 0, 2, 1, into, received[1]);
  Send(world, 0, 1, 2, large, sent);  // nobody asks for it
  Send(world, 1, 0, 9, early, sent_early);
  EXPECT_TRUE(sent_early.Wait().ok());
  world.Close(0, Aborted("epoch 7 ended: rank 5 fell silent"));
  for (Answer& answer : received) {
    EXPECT_EQ(answer.Wait().code(), StatusCode::kAborted);
    EXPECT_NE(Message(answer.status).find("rank 5 fell silent"), std::string::npos);
  }
  EXPECT_NE(sent.Wait().code(), StatusCode::kDeadlineExceeded);
  Answer late_send, late_receive;
  Send(world, 0, 1, 3, into, late_send);
  Receive(world, 0, 1, 9, into, late_receive);
  EXPECT_EQ(late_send.Wait().code(), StatusCode::kAborted);
  EXPECT_EQ(late_receive.Wait().code(), StatusCode::kAborted);
  world.Close(0, Aborted("again"));
}

TEST_P(Contract, WhatIsWithdrawnIsAnsweredAndTheRestArrives) {
  World world(GetParam(), 2);
  const auto payload = Pattern(100, 1);
  std::vector<std::byte> never(100), into(100);
  const std::vector<std::byte> untouched = never;
  Answer old, sent_old, current, sent_current, again, sent_early;
  const auto receive = [&](uint64_t round, std::vector<std::byte>* to, Answer* answer) {
    world.Run(0, [&, round, to, answer] {
      MessageName name = Name(0);
      name.round = round;
      world.transport(0)->Receive(1, name, Bytes(0), *to, answer->ForReceive());
    });
  };
  const auto send = [&](uint64_t round, Answer* answer) {
    world.Run(1, [&, round, answer] {
      MessageName name = Name(0);
      name.round = round;
      world.transport(1)->Send(0, name, Bytes(payload.size()), payload, answer->ForSend());
    });
  };
  receive(10, &never, &old);
  receive(11, &into, &current);
  send(9, &sent_early);  // nobody asks for it, and nobody will
  EXPECT_TRUE(sent_early.Wait().ok());
  world.Run(0, [&] { world.transport(0)->Withdraw(Name(0).lane, 11); });
  EXPECT_EQ(old.Wait().code(), StatusCode::kCancelled);
  send(11, &sent_current);
  EXPECT_TRUE(current.Wait().ok());
  EXPECT_EQ(into, payload);
  EXPECT_EQ(never, untouched);
  receive(10, &never, &again);  // the same name may be asked for again
  send(10, &sent_old);
  EXPECT_TRUE(again.Wait().ok());
  EXPECT_EQ(never, payload);
}

TEST_P(Contract, CloseInsideACallbackIsAllowed) {
  World world(GetParam(), 2);
  const auto payload = Pattern(100, 1);
  std::vector<std::byte> into(100), never(100);
  Answer sent, received, pending;
  Receive(world, 1, 0, 5, never, pending);
  world.Run(1, [&] {
    world.transport(1)->Receive(0, Name(0), Bytes(0), into,
                                [&](StatusOr<std::span<std::byte>> payload, const Frame&) {
                                  world.transport(1)->Close(Aborted("enough"));
                                  received.status = payload.status();
                                  received.ready.Notify();
                                });
  });
  Send(world, 0, 1, 0, payload, sent);
  EXPECT_TRUE(received.Wait().ok());
  EXPECT_EQ(pending.Wait().code(), StatusCode::kAborted);
  EXPECT_NE(sent.Wait().code(), StatusCode::kDeadlineExceeded);
}

TEST_P(Contract, APeerThatClosesIsNamedToThoseWhoWait) {
  World world(GetParam(), 3);
  const auto payload = Pattern(1000, 1);
  std::vector<std::byte> into(1000), other(1000);
  Answer sent, received, waiting, third;
  Receive(world, 0, 1, 0, into, received);
  Send(world, 1, 0, 0, payload, sent);
  EXPECT_TRUE(received.Wait().ok());
  Receive(world, 0, 1, 1, into, waiting);
  Receive(world, 0, 2, 2, other, third);
  world.Close(1, Aborted("leaving"));
  EXPECT_EQ(waiting.Wait().code(), StatusCode::kUnavailable);
  EXPECT_NE(Message(waiting.status).find("rank 1 (host h1)"), std::string::npos);
  EXPECT_TRUE(SilentNodes(waiting.status).empty()) << waiting.status;
  Answer later;
  Receive(world, 0, 1, 3, into, later);
  EXPECT_EQ(later.Wait().code(), StatusCode::kUnavailable);
  Answer from_third;  // the others go on
  Send(world, 2, 0, 2, payload, from_third);
  EXPECT_TRUE(third.Wait().ok());
  EXPECT_EQ(other, payload);
  EXPECT_TRUE(from_third.Wait().ok());
  EXPECT_TRUE(sent.Wait().ok());
}

TEST_P(Contract, WhyANodeLeavesIsToldInItsWords) {
  World world(GetParam(), 2);
  const auto payload = Pattern(68, 1);
  std::vector<std::byte> into(92), other(68);
  Answer sent[2], mismatch, waiting, ready[2];
  for (int side = 0; side < 2; ++side) {  // both are connected
    Receive(world, side, 1 - side, 9, other, ready[side]);
    Send(world, 1 - side, side, 9, payload, sent[side]);
    ASSERT_TRUE(ready[side].Wait().ok());
  }
  Receive(world, 0, 1, 1, other, waiting);
  world.Run(1, [&] {
    world.transport(1)->Receive(0, {Lane::kImmediate, 5, 0, 0, 0}, {1, 0, 23}, into,
                                mismatch.ForReceive());
  });
  Answer seventeen;
  world.Run(0, [&] {
    world.transport(0)->Send(1, {Lane::kImmediate, 5, 0, 0, 0}, {1, 0, 17}, payload,
                             seventeen.ForSend());
  });
  ASSERT_EQ(mismatch.Wait().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(mismatch.status)
                .find("rank 0 (host h0) sent 17 elements of float32 (68 bytes), rank 1 (host h1) "
                      "awaits at most 23 elements of float32 (92 bytes)"),
            std::string::npos)
      << Message(mismatch.status);
  world.Close(1, mismatch.status);
  EXPECT_EQ(waiting.Wait().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(waiting.status).find(Message(mismatch.status)), std::string::npos)
      << Message(waiting.status);
  EXPECT_NE(seventeen.Wait().code(), StatusCode::kDeadlineExceeded);
  for (Answer& answer : sent) EXPECT_TRUE(answer.Wait().ok());
}

TEST_P(Contract, APeerThatAnswersMayLeaveUsWaiting) {
  World world(GetParam(), 2, false);
  FabricLimits limits;
  limits.silence_seconds = 2;
  for (int node : {0, 1}) world.Connect(node, World::kEpoch, limits);
  const auto payload = Pattern(100, 1);
  std::vector<std::byte> into(100);
  Answer sent, received;
  Receive(world, 1, 0, 0, into, received);
  EXPECT_FALSE(received.ready.WaitForNotificationWithTimeout(absl::Seconds(2.5)));
  Send(world, 0, 1, 0, payload, sent);
  EXPECT_TRUE(received.Wait().ok()) << Message(received.status);
  EXPECT_TRUE(sent.Wait().ok());
}

TEST_P(Contract, AnOrderlyCloseStillDeliversWhatWasSent) {
  for (size_t bytes : {64, 5000, 200000}) {
    World world(GetParam(), 2);
    const auto payload = Pattern(bytes, 1);
    std::vector<std::byte> into(bytes);
    Answer sent, received;
    Receive(world, 1, 0, 0, into, received);
    Send(world, 0, 1, 0, payload, sent);
    EXPECT_TRUE(sent.Wait().ok());
    world.Close(0, Aborted("done"));
    EXPECT_TRUE(received.Wait().ok()) << bytes << Message(received.status);
    EXPECT_EQ(into, payload);
  }
}

TEST_P(Contract, APeerThatRunsAheadWithoutBoundIsStopped) {
  World world(GetParam(), 2, false);
  world.Connect(0);
  world.Connect(1, World::kEpoch, FabricLimits{10000});
  const auto payload = Pattern(1000, 1);
  std::vector<Answer> sent(20);
  for (uint32_t i = 0; i < 20; ++i) Send(world, 0, 1, i, payload, sent[i]);
  for (Answer& answer : sent) EXPECT_NE(answer.Wait().code(), StatusCode::kDeadlineExceeded);
  const uint64_t too_many = 11 * (sizeof(Frame) + payload.size());
  const auto all_came = [&] {
    uint64_t received = 0;
    world.Run(1, [&] { received = world.transport(1)->Counters().received_bytes; });
    return received >= too_many;
  };
  for (const TimePoint end = Now() + Seconds(20); !all_came() && Now() < end;) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  // Messages keep no order among themselves: which of them came first is not known.
  std::vector<Answer> answers(sent.size());
  std::vector<std::vector<std::byte>> into(sent.size(), std::vector<std::byte>(payload.size()));
  size_t kept = 0;
  for (uint32_t i = 0; i < answers.size(); ++i) {
    Receive(world, 1, 0, i, into[i], answers[i]);
    if (answers[i].Wait().ok()) {
      ++kept;
      EXPECT_EQ(into[i], payload);
    } else {
      EXPECT_EQ(answers[i].status.code(), StatusCode::kResourceExhausted);
    }
  }
  EXPECT_EQ(kept, 10u);
}

TEST_P(Contract, CountersCountPayloadAndFrames) {
  World world(GetParam(), 2);
  const auto payload = Pattern(1000, 1);
  std::vector<std::byte> into(1000);
  Answer sent, received;
  Receive(world, 1, 0, 0, into, received);
  Send(world, 0, 1, 0, payload, sent);
  ASSERT_TRUE(received.Wait().ok());
  EXPECT_TRUE(sent.Wait().ok());
  world.Run(0, [&] { EXPECT_EQ(world.transport(0)->Counters().sent_bytes, 1000 + sizeof(Frame)); });
  world.Run(
      1, [&] { EXPECT_EQ(world.transport(1)->Counters().received_bytes, 1000 + sizeof(Frame)); });
}

INSTANTIATE_TEST_SUITE_P(Transports, Contract,
                         testing::Values(Kind::kInProcess, Kind::kUcx, Kind::kUcxOneHost,
                                         Kind::kGrpc, Kind::kGrpcTls),
                         [](const auto& info) { return NameOfKind(info.param); });

}  // namespace
}  // namespace ringwood

// What nobody may miss is heard on a loop whose mailbox refuses further tasks, over every
// transport.
#include <gmock/gmock.h>

#include "tests/transport/world.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

MessageName Numbered(uint32_t chunk) { return {Lane::kDense, 17, 3, chunk, 0}; }
constexpr Content kEight{7, 0, 8};
constexpr size_t kEightBytes = 8;

// Loop::Post would refuse.
void FillMailbox(Loop* loop) {
  while (loop->Post([] {})) {
  }
}

class FullMailbox : public testing::TestWithParam<Kind> {};

TEST_P(FullMailbox, ACallAfterTheCloseIsAnswered) {
  Answer sent, received;
  std::vector<std::byte> into(kEightBytes);
  World world(GetParam(), 2);
  world.Run(0, [&] {
    world.transport(0)->Close(Aborted("enough"));
    FillMailbox(world.loop(0));
    world.transport(0)->Send(1, Numbered(0), kEight, {into}, sent.ForSend());
    world.transport(0)->Receive(1, Numbered(0), kEight, into, received.ForReceive());
  });
  EXPECT_THAT(Message(sent.Wait(5)), HasSubstr("enough"));
  EXPECT_THAT(Message(received.Wait(5)), HasSubstr("enough"));
}

TEST_P(FullMailbox, APeersCloseIsHeard) {
  Answer sent, first, received;
  std::vector<std::byte> payload(kEightBytes), into(kEightBytes), never(kEightBytes);
  absl::Notification full, closed;
  World world(GetParam(), 2);
  const auto receive = [&](uint32_t chunk, std::span<std::byte> where, Answer& answer) {
    world.Run(1, [&] {
      world.transport(1)->Receive(0, Numbered(chunk), kEight, where, answer.ForReceive());
    });
  };
  receive(0, into, first);
  world.Run(0,
            [&] { world.transport(0)->Send(1, Numbered(0), kEight, {payload}, sent.ForSend()); });
  EXPECT_TRUE(sent.Wait().ok() && first.Wait().ok());  // they are connected
  receive(1, never, received);
  world.loop(1)->Post([&] {
    FillMailbox(world.loop(1));
    full.Notify();
    closed.WaitForNotification();
  });
  ASSERT_TRUE(full.WaitForNotificationWithTimeout(absl::Seconds(20)));
  world.Close(0, Aborted("it is over"));
  closed.Notify();
  EXPECT_THAT(Message(received.Wait(10)), HasSubstr("closed its connection"));
}

INSTANTIATE_TEST_SUITE_P(Transports, FullMailbox,
                         testing::Values(Kind::kInProcess, Kind::kUcx, Kind::kGrpc),
                         [](const auto& info) { return NameOfKind(info.param); });

}  // namespace
}  // namespace ringwood

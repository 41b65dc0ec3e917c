// When connections are made: a pair of nodes has one once something is sent between them, or is
// awaited in vain for a while.
#include "absl/strings/str_format.h"
#include "tests/transport/world.h"

namespace ringwood {
namespace {

constexpr size_t kBytes = 1000;

class Connections : public testing::TestWithParam<Kind> {
 protected:
  static uint64_t Count(World& world, int node) {
    uint64_t count = 0;
    world.Run(node, [&] { count = world.transport(node)->Counters().connections; });
    return count;
  }
  // At most 20 s.
  static bool Reaches(World& world, int node, uint64_t count) {
    for (const TimePoint end = Now() + Seconds(20); Now() < end;) {
      if (Count(world, node) == count) return true;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return false;
  }

  // One message from node to node, and its answers. It is asked for when it is there: who waits for
  // it in vain, be it on a busy machine, connects too.
  struct Message {
    Message(World* world, int from, int to, uint32_t chunk = 0)
        : world(world),
          from(from),
          to(to),
          name{Lane::kDense, 1, 0, chunk, 0},
          there(Arrived() + sizeof(Frame) + kBytes),
          payload(kBytes, static_cast<std::byte>(from + 1)),
          into(kBytes) {
      world->Run(from, [this] {
        this->world->transport(this->from)
            ->Send(this->to, name, {7, 0, kBytes}, payload, sent.ForSend());
      });
    }
    void Expect() {
      const TimePoint end = Now() + Seconds(60);
      while (Arrived() < there && Now() < end) absl::SleepFor(absl::Milliseconds(1));
      world->Run(to, [this] {
        world->transport(to)->Receive(from, name, {7, 0, kBytes}, into, received.ForReceive());
      });
      EXPECT_TRUE(received.Wait().ok()) << Message::Text(received);
      EXPECT_TRUE(sent.Wait().ok()) << Message::Text(sent);
      EXPECT_EQ(into, payload);
    }
    uint64_t Arrived() {  // bytes, at its receiver
      uint64_t bytes = 0;
      world->Run(to, [&] { bytes = world->transport(to)->Counters().received_bytes; });
      return bytes;
    }
    static std::string Text(const Answer& answer) { return ringwood::Message(answer.status); }

    World* const world;
    const int from, to;
    const MessageName name;
    const uint64_t there;  // bytes that have arrived once it has
    std::vector<std::byte> payload, into;
    Answer sent, received;
  };
};

TEST_P(Connections, NodesThatHaveNothingToSayHaveNone) {
  World world(GetParam(), 4);
  for (int node = 0; node < 4; ++node) EXPECT_EQ(Count(world, node), 0u);
}

TEST_P(Connections, AStepOfARingTakesTwoANode) {
  constexpr int kWorld = 8;
  World world(GetParam(), kWorld);
  std::vector<std::unique_ptr<Message>> messages;
  for (int node = 0; node < kWorld; ++node) {
    messages.push_back(std::make_unique<Message>(&world, node, (node + 1) % kWorld));
  }
  for (const auto& message : messages) message->Expect();
  for (int node = 0; node < kWorld; ++node) EXPECT_EQ(Count(world, node), 2u);
}

TEST_P(Connections, AnAnswerTakesTheOneThatIsThere) {
  World world(GetParam(), 2);
  for (int from : {0, 1, 0, 1}) Message(&world, from, 1 - from).Expect();
  for (int node : {0, 1}) EXPECT_EQ(Count(world, node), 1u);
}

TEST_P(Connections, EitherNodeOfAPairMayBegin) {
  for (int from : {0, 1}) {
    World world(GetParam(), 2);
    Message(&world, from, 1 - from).Expect();
    EXPECT_EQ(Count(world, from), 1u);
  }
}

TEST_P(Connections, TwoThatBeginAtTheSameTimeBothArrive) {
  constexpr int kMessages = 20;
  for (int turn = 0; turn < 10; ++turn) {
    World world(GetParam(), 2);
    std::vector<std::byte> payload[2], into[2];
    std::vector<Answer> sent(2 * kMessages), received(2 * kMessages);
    for (auto& bytes : payload) bytes.resize(kBytes);
    for (auto& bytes : into) bytes.resize(kBytes * kMessages);
    world.RunAll([&](int node, const std::function<void()>& done) {
      for (int i = 0; i < kMessages; ++i) {
        const MessageName name{Lane::kDense, 1, 0, static_cast<uint32_t>(i), 0};
        const int at = node * kMessages + i;
        world.transport(node)->Send(1 - node, name, {7, 0, kBytes}, payload[node],
                                    sent[at].ForSend());
        world.transport(node)->Receive(1 - node, name, {7, 0, kBytes},
                                       std::span(into[node]).subspan(i * kBytes, kBytes),
                                       received[at].ForReceive());
      }
      done();
    });
    for (int i = 0; i < 2 * kMessages; ++i) {
      ASSERT_TRUE(received[i].Wait().ok()) << ringwood::Message(received[i].status);
      ASSERT_TRUE(sent[i].Wait().ok()) << ringwood::Message(sent[i].status);
    }
    for (int node : {0, 1}) {
      const uint64_t count = Count(world, node);
      EXPECT_TRUE(count == 1 || count == 2) << count;
    }
  }
}

// The one that awaits connects, to ask for a sign of life; what then comes takes that connection.
TEST_P(Connections, WhoWaitsInVainConnectsAndAsks) {
  World world(GetParam(), 2, false);
  FabricLimits limits;
  limits.silence_seconds = 2;
  for (int node : {0, 1}) world.Connect(node, World::kEpoch, limits);
  std::vector<std::byte> into(kBytes);
  Answer received;
  world.Run(1, [&] {
    world.transport(1)->Receive(0, {Lane::kDense, 1, 0, 1, 0}, {7, 0, kBytes}, into,
                                received.ForReceive());
  });
  EXPECT_TRUE(Reaches(world, 0, 1));
  Message(&world, 0, 1).Expect();
  EXPECT_FALSE(received.ready.WaitForNotificationWithTimeout(absl::Seconds(3)));  // it lives
  for (int node : {0, 1}) EXPECT_EQ(Count(world, node), 1u);
  for (int node : {0, 1}) world.Close(node, Aborted("over"));
}

TEST_P(Connections, APeerThatNobodyNeedsMayBeAbsent) {
  World world(GetParam(), 3, false);
  FabricLimits limits;
  limits.silence_seconds = limits.start_seconds = 1;
  for (int node : {0, 1}) world.Connect(node, World::kEpoch, limits);
  Message(&world, 0, 1, 0).Expect();
  absl::SleepFor(absl::Seconds(1.5));  // longer than a peer that is needed may be silent
  Message(&world, 1, 0, 1).Expect();
  for (int node : {0, 1}) EXPECT_EQ(Count(world, node), 1u);
}

TEST_P(Connections, APeerThatIsNeededAndAbsentIsNamedInTime) {
  {
    World world(GetParam(), 3, false);
    FabricLimits limits;
    limits.silence_seconds = limits.start_seconds = 1;
    for (int node : {0, 1}) world.Connect(node, World::kEpoch, limits);  // 2 never joins
    std::vector<std::byte> bytes(kBytes);
    Answer answer;
    world.Run(0, [&] {
      world.transport(0)->Receive(2, {}, {7, 0, 0}, bytes, answer.ForReceive());
    });
    EXPECT_EQ(answer.Wait().code(), StatusCode::kDeadlineExceeded) << Message::Text(answer);
    EXPECT_NE(Message::Text(answer).find("rank 2 (host h2) was not heard on the data plane"),
              std::string::npos)
        << Message::Text(answer);
    EXPECT_NE(Message::Text(answer).find("firewall"), std::string::npos);
    Message(&world, 1, 0, 5).Expect();  // the others go on
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Connections, testing::Values(Kind::kGrpc),
                         [](const auto& info) { return NameOfKind(info.param); });

}  // namespace
}  // namespace ringwood

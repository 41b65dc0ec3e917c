#include "transport/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "tests/transport/world.h"

namespace ringwood {
namespace {

TEST(Descriptors, TheSoftLimitGrowsAsFarAsIsWanted) {
  const auto enough = RoomFor({100, 1024, 4096}, {10, 1, 3});
  ASSERT_TRUE(enough.ok());
  EXPECT_EQ(enough->soft, 1024u);
  EXPECT_EQ(enough->connections, (1024u - 100 - 128) / 3);
  const auto raised = RoomFor({100, 1024, 4096}, {1000, 1, 3});
  ASSERT_TRUE(raised.ok());
  EXPECT_EQ(raised->soft, 100 + 3000 + 128u);
  EXPECT_EQ(raised->connections, 1000u);
}

TEST(Descriptors, AWorldThatDoesNotFitWhollyIsJoinedAllTheSame) {
  const auto room = RoomFor({100, 1024, 4096}, {8190, 14, 3});
  ASSERT_TRUE(room.ok()) << Message(room.status());
  EXPECT_EQ(room->soft, 4096u);
  EXPECT_EQ(room->connections, (4096u - 100 - 128) / 3);
}

TEST(Descriptors, LessThanWhatIsNeededIsRefusedWithTheNumbers) {
  const Status refused = RoomFor({100, 256, 256}, {8190, 14, 3}).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  for (const char* part : {"14 peers", "3 descriptors each", "100 are open", "256", "ulimit"}) {
    EXPECT_NE(Message(refused).find(part), std::string::npos) << Message(refused);
  }
}

// Lowers this process's soft limit below what a world needs and puts it back.
class LowLimit : public testing::TestWithParam<Kind> {
 protected:
  static constexpr rlim_t kLow = 120;

  void SetUp() override {
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit low = before_;
    low.rlim_cur = std::min<rlim_t>(before_.rlim_cur, kLow);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  void TearDown() override { setrlimit(RLIMIT_NOFILE, &before_); }

  rlimit before_{};
};

TEST_P(LowLimit, IsRaisedBeforeConnectionsAreMade) {
  World world(GetParam(), 3);
  rlimit now{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_GT(now.rlim_cur, kLow);
}

TEST(DescriptorsOfGrpc, WhoCannotHoldWhatItNeedsIsRefusedByName) {
  World world(Kind::kGrpc, 2, false);
  FabricLimits limits;
  limits.needed_peers = size_t{1} << 40;  // above any hard limit
  const Status refused = world.TryConnect(1, limits);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(refused).find("rank 1 (host h1): "), 0u) << Message(refused);
  EXPECT_NE(Message(refused).find("ulimit -Hn"), std::string::npos) << Message(refused);
}

// In a process of its own: a hard limit does not rise again. Node 0 has room for one connection.
void SendToTwo(Kind kind) {
  World world(kind, 3, false);
  size_t open = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++open;
  }
  const rlimit tight{open + 128 + 3, open + 128 + 3};
  RW_CHECK(setrlimit(RLIMIT_NOFILE, &tight) == 0);
  world.Connect(0);
  std::vector<std::byte> payload(10);
  Answer sent[2];
  for (int peer : {1, 2}) {
    world.Run(0, [&] {
      world.transport(0)->Send(peer, {}, {7, 0, 10}, payload, sent[peer - 1].ForSend());
    });
  }
  std::fputs(Message(sent[1].Wait()).c_str(), stderr);
  _exit(0);
}

TEST(DescriptorsOfGrpc, AConnectionTooManyIsRefusedByThePeersName) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(SendToTwo(Kind::kGrpc), testing::ExitedWithCode(0),
              "no descriptor is left for a connection to rank 2 .host h2.");
}

INSTANTIATE_TEST_SUITE_P(Transports, LowLimit, testing::Values(Kind::kUcx, Kind::kGrpc),
                         [](const auto& info) { return NameOfKind(info.param); });

}  // namespace
}  // namespace ringwood

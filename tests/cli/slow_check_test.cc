// A checkpoint that takes longer to check than anybody's timeout is resumed all the same, and read
// once; a coordinator that hangs is given up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/strings/str_format.h"
#include "client/grpc/control.h"
#include "client/grpc/store_client.h"
#include "server/server.h"
#include "tests/server/peers/fake_coordinator.h"

namespace ringwood {
namespace {

constexpr double kJoinSeconds = 3;
constexpr int kPieces = 64;
constexpr int kSlowPieces = 8;  // of half a second: longer than a join waits

StatusOr<v1::JoinResponse> Join(const std::string& address, bool resume, double seconds) {
  v1::JoinRequest request;
  request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
  request.set_role(v1::ROLE_WORKER);
  request.set_world(1);
  request.set_host("here");
  request.set_incarnation(1);
  request.set_fabric_address("none");
  request.set_resume(resume);
  request.set_join_timeout_seconds(seconds);
  return MakeGrpcControl(address, "")->Join(request, Seconds(seconds));
}

TEST(SlowCheck, NoTimeoutEndsAJoinWhileTheServerReads) {
  std::string pattern = testing::TempDir() + "/ringwood-slow-XXXXXX";
  const std::string directory = mkdtemp(pattern.data());
  ServerOptions options;
  options.insecure = true;
  options.servers = 0;
  options.store = directory + "/store";
  options.join_timeout_seconds = kJoinSeconds;
  const std::string weights(kPieces * kPieceBytes, 'w');
  {
    const auto server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    const std::string address = absl::StrFormat("127.0.0.1:%d", (*server)->port());
    const auto joined = Join(address, false, 60);
    ASSERT_TRUE(joined.ok()) << joined.status();
    Arena arena(1 << 30);
    ASSERT_TRUE(arena.Fill({{"weights", true, std::as_bytes(std::span(weights))}}, 0, 1).ok());
    const auto store = MakeGrpcStoreClient(address, "");
    const Status saved =
        store->Save({joined->epoch(), 7, 0, 1, 1}, arena, Seconds(60), [](uint64_t) {});
    ASSERT_TRUE(saved.ok()) << saved;
    ASSERT_TRUE(store->Await({joined->epoch(), 7}, Seconds(60)).ok());
  }
  std::atomic<int> pieces = 0;
  options.checked = [&](uint64_t, uint64_t) {
    if (pieces++ < kSlowPieces) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));  // a slow disk
    }
  };
  const auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = absl::StrFormat("127.0.0.1:%d", (*server)->port());
  const auto joined = Join(address, true, kJoinSeconds);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->base_step(), 7u);
  EXPECT_EQ(joined->base_epoch(), 1u);
  // Once. The first server may have left it to be read back, which begins before anybody waits.
  EXPECT_LE(pieces, kPieces);
  EXPECT_GE(pieces, kSlowPieces);
  (*server)->Stop();
  std::filesystem::remove_all(directory);
}

// Its network threads live on and keep the connection.
TEST(SlowCheck, ACoordinatorThatAnswersNothingEndsAJoin) {
  const int port = PortForRestarts();
  const FakeCoordinator coordinator(port, {.world = 1, .hangs = true});
  const auto joined = Join(absl::StrFormat("127.0.0.1:%d", port), false, 0.5);
  EXPECT_EQ(joined.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(joined.status()),
              testing::HasSubstr("rank 0 waits to join, and the coordinator has answered nothing"));
}

}  // namespace
}  // namespace ringwood

// A process stays and takes part in one epoch after the other: the real control against a real
// coordinator, over the in-process network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "client/connection/epoch_link.h"
#include "client/grpc/control.h"
#include "server/server.h"
#include "transport/in_process.h"

namespace ringwood {
namespace {

constexpr int kWorld = 2;
constexpr uint64_t kEpochs = 3;
constexpr double kSeconds = 30;

TEST(NextEpoch, IsJoinedByTheProcessesOfTheOneBefore) {
  ServerOptions server_options;
  server_options.insecure = true;
  server_options.servers = 0;
  const StatusOr<std::unique_ptr<Server>> server = Server::Start(server_options);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = absl::StrFormat("127.0.0.1:%d", (*server)->port());
  InProcessNetwork network;
  std::barrier<> together(kWorld);
  const auto rank = [&](int r) {
    SessionOptions options;
    options.coordinator = address;
    options.rank = r;
    options.world = kWorld;
    options.join_timeout_seconds = kSeconds;
    Parts parts;
    parts.make_fabric = [&](Loop* net) -> StatusOr<std::unique_ptr<Fabric>> {
      return network.MakeFabric(net);
    };
    parts.control = MakeGrpcControl(address, "");
    Connection connection(std::move(parts));
    uint64_t last = 0;
    for (uint64_t e = 0; e < kEpochs; ++e) {
      auto link = EpochLink::Join(&connection, options);
      ASSERT_TRUE(link.ok()) << link.status();
      EXPECT_GT((*link)->epoch(), last);
      last = (*link)->epoch();
      absl::Notification failed;
      (*link)->Listen([&](const Status&) { failed.Notify(); });
      int32_t sum = r + 1;
      const Status summed = (*link)->collectives()->AllReduce(
          std::as_writable_bytes(std::span(&sum, 1)), DataType::kInt32, ReduceOp::kSum);
      EXPECT_TRUE(summed.ok()) << summed;
      EXPECT_EQ(sum, 3);
      together.arrive_and_wait();
      if (r == 0) {
        EXPECT_TRUE((*link)->Leave("it has seen enough").ok());
      } else {
        ASSERT_TRUE(failed.WaitForNotificationWithTimeout(absl::Seconds(kSeconds)));
        EXPECT_THAT(Message((*link)->status()), ::testing::HasSubstr("it has seen enough"));
      }
      together.arrive_and_wait();  // the coordinator knows
    }
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < kWorld; ++r) {
    threads.emplace_back([&, r] {
      rank(r);
      together.arrive_and_drop();  // who gave up holds up nobody
    });
  }
  for (std::thread& thread : threads) thread.join();
  (*server)->Stop();
}

}  // namespace
}  // namespace ringwood

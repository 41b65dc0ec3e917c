// A rank whose first heartbeat comes after the epoch's end hears why all the same: whether a
// restart helps is decided by the code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "client/grpc/control.h"
#include "server/server.h"

namespace ringwood {
namespace {

constexpr double kSeconds = 30;

struct Rank {
  uint32_t rank;
  std::unique_ptr<Control> control;
  v1::JoinResponse joined;

  void Join() {
    v1::JoinRequest request;
    request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
    request.set_role(v1::ROLE_WORKER);
    request.set_rank(rank);
    request.set_world(2);
    request.set_host("here");
    request.set_incarnation(rank + 1);
    request.set_fabric_address("none");
    StatusOr<v1::JoinResponse> response = control->Join(request, Seconds(kSeconds));
    ASSERT_TRUE(response.ok()) << response.status();
    joined = *std::move(response);
  }

  Status AgreeWithoutAPlan() {
    v1::AgreeRequest request;
    request.set_epoch(joined.epoch());
    request.set_rank(rank);
    request.set_incarnation(rank + 1);
    return control->Agree(request, Seconds(kSeconds)).status();
  }
};

TEST(LateHeartbeat, HearsTheCodeOfTheFailureThatEndedTheEpoch) {
  ServerOptions options;
  options.insecure = true;
  options.servers = 0;
  const StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = absl::StrFormat("127.0.0.1:%d", (*server)->port());
  Rank a{0, MakeGrpcControl(address, ""), {}};
  Rank b{1, MakeGrpcControl(address, ""), {}};
  std::thread other([&] { b.Join(); });
  a.Join();
  other.join();
  ASSERT_FALSE(a.AgreeWithoutAPlan().ok());  // the epoch is over
  absl::Notification failed;
  Status heard;
  const Attendance attendance{b.joined.epoch(), b.joined.node(), 2, Seconds(0.05), Seconds(5)};
  ASSERT_TRUE(b.control
                  ->Attend(attendance,
                           [&](const Status& failure) {
                             heard = failure;
                             failed.Notify();
                           })
                  .ok());
  ASSERT_TRUE(failed.WaitForNotificationWithTimeout(absl::Seconds(kSeconds)));
  EXPECT_EQ(heard.code(), StatusCode::kInvalidArgument) << heard;
  EXPECT_THAT(Message(heard), ::testing::HasSubstr("ended the epoch"));
  (*server)->Stop();
}

}  // namespace
}  // namespace ringwood

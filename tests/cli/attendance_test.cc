// The attendance of ranks at a real coordinator: when it begins, how its end is noticed, what one
// hears that comes too late.
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

// Two ranks that have joined.
class Attending : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.insecure = true;
    options.servers = 0;
    StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const std::string address = absl::StrFormat("127.0.0.1:%d", server_->port());
    for (Rank* rank : {&a_, &b_}) rank->control = MakeGrpcControl(address, "");
    std::thread other([&] { b_.Join(); });
    a_.Join();
    other.join();
  }
  void TearDown() override {
    for (Rank* rank : {&a_, &b_}) rank->control.reset();
    server_->Stop();
  }

  Status Attend(Rank* rank) {
    const Attendance attendance{rank->joined.epoch(), rank->joined.node(), rank->rank + 1u,
                                Seconds(0.05), Seconds(5)};
    return rank->control->Attend(attendance, Seconds(kSeconds),
                                 [this](const Status& failure, bool) {
                                   heard_ = failure;
                                   failed_.Notify();
                                 });
  }
  // What the rank that attends is told. The other one's callback has not run.
  Status Heard() {
    if (!failed_.WaitForNotificationWithTimeout(absl::Seconds(kSeconds))) return OkStatus();
    return heard_;
  }

  Rank a_{0, nullptr, {}}, b_{1, nullptr, {}};

 private:
  std::unique_ptr<Server> server_;
  absl::Notification failed_;
  Status heard_;
};

// Long before the join timeout, which silence has until the first step.
TEST_F(Attending, WhoEndsRightAfterItAttendsIsNoticedAtOnce) {
  ASSERT_TRUE(Attend(&a_).ok());
  ASSERT_TRUE(Attend(&b_).ok());
  b_.control.reset();
  EXPECT_THAT(Message(Heard()), ::testing::HasSubstr("rank 1 (host here) failed"));
}

// Whether a restart helps is decided by the code.
TEST_F(Attending, WhoComesAfterTheEndHearsTheCodeOfTheFailure) {
  ASSERT_FALSE(a_.AgreeWithoutAPlan().ok());  // the epoch is over
  (void)Attend(&b_);                          // the failure may come first
  const Status heard = Heard();
  EXPECT_EQ(heard.code(), StatusCode::kInvalidArgument) << heard;
  EXPECT_THAT(Message(heard), ::testing::HasSubstr("ended the epoch"));
}

}  // namespace
}  // namespace ringwood

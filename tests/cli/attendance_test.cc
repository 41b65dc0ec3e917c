// The attendance of ranks at a real coordinator: when it begins, how its end is noticed, what one
// hears that comes too late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_format.h"
#include "server/server.h"
#include "tests/cli/rank.h"

namespace ringwood {
namespace {

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
    for (Rank* rank : {&a_, &b_}) rank->Connect(address);
    std::thread other([&] { b_joined_ = b_.Join(); });
    a_joined_ = a_.Join();
    other.join();
    ASSERT_TRUE(a_joined_.ok()) << a_joined_.status();
    ASSERT_TRUE(b_joined_.ok()) << b_joined_.status();
  }
  void TearDown() override {
    for (Rank* rank : {&a_, &b_}) rank->Disappear();
    server_->Stop();
  }

  Rank a_{0}, b_{1};
  StatusOr<v1::JoinResponse> a_joined_, b_joined_;

 private:
  std::unique_ptr<Server> server_;
};

// Long before the join timeout, which silence has until the first step.
TEST_F(Attending, WhoEndsRightAfterItAttendsIsNoticedAtOnce) {
  ASSERT_TRUE(a_.Attend(*a_joined_).ok());
  ASSERT_TRUE(b_.Attend(*b_joined_).ok());
  b_.Disappear();
  EXPECT_THAT(Message(a_.Failure()), ::testing::HasSubstr("rank 1 (host here) failed"));
}

// Whether a restart helps is decided by the code.
TEST_F(Attending, WhoComesAfterTheEndHearsTheCodeOfTheFailure) {
  const v1::AgreeRequest without_a_plan;
  ASSERT_FALSE(a_.Agree(without_a_plan, a_joined_->epoch()).ok());  // the epoch is over
  (void)b_.Attend(*b_joined_);                                      // the failure may come first
  const Status heard = b_.Failure();
  EXPECT_EQ(heard.code(), StatusCode::kInvalidArgument) << heard;
  EXPECT_THAT(Message(heard), ::testing::HasSubstr("ended the epoch"));
}

}  // namespace
}  // namespace ringwood

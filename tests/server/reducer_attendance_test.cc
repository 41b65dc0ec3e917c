// A reducer whose coordinator dies and comes back, against a coordinator made for it.
#include "server/reducer/reducer_attendance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "tests/server/peers/fake_coordinator.h"

namespace ringwood {
namespace {

constexpr double kSeconds = 60;

class AttendingReducer : public ::testing::Test {
 protected:
  void Start(FakeCoordinator::Script script = {}) {
    script.world = 1;
    script.served.emplace().set_from_round(7);
    coordinator_ = std::make_unique<FakeCoordinator>(port_, std::move(script));
  }
  void Kill() { coordinator_.reset(); }

  void Attend(double grace) {
    ReducerAttendance::Options options;
    options.coordinator = absl::StrFormat("127.0.0.1:%d", port_);
    options.silence = Seconds(5);
    options.grace = Seconds(grace);
    options.joined.set_role(v1::ROLE_REDUCER);
    options.joined.set_incarnation(9);
    options.welcome.set_epoch(1);
    options.welcome.set_heartbeat_seconds(0.05);
    OnLoop([&] {
      attendance_ = std::make_unique<ReducerAttendance>(
          &loop_, options,
          ReducerAttendance::Callbacks{[this] { Count(&confirmed_); },
                                       [this](const v1::Notice& notice) {
                                         EXPECT_EQ(notice.plan().from_round(), 7u);
                                         Count(&noticed_);
                                       },
                                       [this](const Status& why, bool told) {
                                         why_ = why;
                                         told_ = told;
                                         Count(&over_);
                                       }});
    });
  }
  void TearDown() override {
    OnLoop([&] { attendance_.reset(); });
    coordinator_.reset();
  }

  void OnLoop(const std::function<void()>& task) {
    ASSERT_TRUE(loop_.Call([&] { return task(), OkStatus(); }, Seconds(kSeconds)).ok());
  }
  void Count(int* number) {
    absl::MutexLock lock(&mutex_);
    ++*number;
  }
  bool Await(const int& number, int least) {
    absl::MutexLock lock(&mutex_);
    const auto come = [&] { return number >= least; };
    return mutex_.AwaitWithTimeout(absl::Condition(&come), absl::Seconds(kSeconds));
  }

  const int port_ = PortForRestarts();
  std::unique_ptr<FakeCoordinator> coordinator_;
  absl::Mutex mutex_;
  int confirmed_ = 0, noticed_ = 0, over_ = 0;
  Status why_;
  bool told_ = false;
  std::unique_ptr<ReducerAttendance> attendance_;  // touched only on loop_
  Loop loop_{"test"};
};

TEST_F(AttendingReducer, GoesOnWithACoordinatorThatIsBackAndHearsThePlanAgain) {
  Start();
  Attend(kSeconds);
  ASSERT_TRUE(Await(noticed_, 1));
  OnLoop([&] { EXPECT_FALSE(attendance_->returned()); });
  for (int times = 2; times < 5; ++times) {
    Kill();
    Start();
    ASSERT_TRUE(coordinator_->AwaitBack(1));
    ASSERT_TRUE(Await(noticed_, times));
    EXPECT_EQ(coordinator_->back(0).epoch(), 1u);
    EXPECT_EQ(coordinator_->back(0).incarnation(), 9u);
    EXPECT_EQ(coordinator_->back(0).joined().role(), v1::ROLE_REDUCER);
    OnLoop([&] { EXPECT_TRUE(attendance_->returned()); });
  }
  EXPECT_EQ(confirmed_, 1);
  EXPECT_EQ(over_, 0);
}

TEST_F(AttendingReducer, GivesUpWhenTheGraceIsOver) {
  Start();
  Attend(0.2);
  ASSERT_TRUE(Await(noticed_, 1));
  Kill();
  ASSERT_TRUE(Await(over_, 1));
  EXPECT_THAT(Message(why_), ::testing::HasSubstr("was not started again"));
  EXPECT_FALSE(told_);
}

TEST_F(AttendingReducer, EndsWithTheFirstLossWithoutAGrace) {
  Start();
  Attend(0);
  ASSERT_TRUE(Await(noticed_, 1));
  Kill();
  ASSERT_TRUE(Await(over_, 1));
  EXPECT_FALSE(told_);
}

TEST_F(AttendingReducer, EndsWhenTheCoordinatorDoesNotTakeItBack) {
  Start();
  Attend(kSeconds);
  ASSERT_TRUE(Await(noticed_, 1));
  Kill();
  FakeCoordinator::Script script;
  script.takes_back = false;
  Start(script);
  ASSERT_TRUE(Await(over_, 1));
  EXPECT_EQ(why_.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(told_);
}

TEST_F(AttendingReducer, SaysWhatItHasToSayWhenTheCoordinatorIsBack) {
  FakeCoordinator::Script script;
  script.holds_back = true;
  Start();
  Attend(kSeconds);
  ASSERT_TRUE(Await(noticed_, 1));
  Kill();
  Start(script);
  ASSERT_TRUE(coordinator_->AwaitBack(1));  // so it knows that the first one is lost
  OnLoop([&] { attendance_->Leave(true, "a peer is silent"); });
  Kill();
  Start();
  EXPECT_TRUE(coordinator_->AwaitLeave());
}

TEST_F(AttendingReducer, IsQuietWhenItWasToldTo) {
  Start();
  Attend(kSeconds);
  ASSERT_TRUE(Await(noticed_, 1));
  OnLoop([&] { attendance_->Quiet(); });
  Kill();
  OnLoop([&] { attendance_.reset(); });
  EXPECT_EQ(over_, 0);
}

}  // namespace
}  // namespace ringwood

// A coordinator dies at an exact point of a round and is started again at its address: the control
// of two ranks against a coordinator made for it.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "client/grpc/control.h"
#include "tests/server/fake_coordinator.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;
using Script = FakeCoordinator::Script;

constexpr double kSeconds = 60;

bool Equal(const google::protobuf::Message& a, const google::protobuf::Message& b) {
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

class Reattach : public ::testing::Test {
 protected:
  struct Rank {
    uint32_t number;
    std::unique_ptr<Control> control;
    absl::Notification failed;
    Status failure;
    bool recovers = false;

    void Enter(double grace) {
      v1::JoinRequest request;
      request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
      request.set_role(v1::ROLE_WORKER);
      request.set_rank(number);
      request.set_world(2);
      request.set_host("here");
      request.set_incarnation(number + 1);
      request.set_fabric_address("an address");
      const StatusOr<v1::JoinResponse> joined = control->Join(request, Seconds(kSeconds));
      ASSERT_TRUE(joined.ok()) << joined.status();
      const Attendance attendance{joined->epoch(), joined->node(), number + 1u,
                                  Seconds(0.05),   Seconds(5),     Seconds(grace)};
      const Status attended = control->Attend(attendance, Seconds(kSeconds),
                                              [this](const Status& status, bool goes_on) {
                                                failure = status;
                                                recovers = goes_on;
                                                failed.Notify();
                                              });
      ASSERT_TRUE(attended.ok()) << attended;
    }
    StatusOr<v1::AgreeResponse> Agree() {
      v1::AgreeRequest request;
      request.set_epoch(1);
      request.set_rank(number);
      request.set_incarnation(number + 1);
      request.add_tensors()->set_name("weight");
      if (number == 0) request.mutable_plan()->set_planner("the first");
      return control->Agree(request, Seconds(kSeconds));
    }
    StatusOr<v1::Commit> Vote(uint64_t round) {
      v1::VoteRequest vote;
      vote.set_epoch(1);
      vote.set_round(round);
      vote.set_rank(number);
      vote.set_incarnation(number + 1);
      vote.set_digest(77);
      vote.set_weight(number + 1);
      return control->Vote(vote, Seconds(kSeconds));
    }
    Status Leave(double seconds) { return control->Leave(v1::LeaveRequest(), Seconds(seconds)); }
    // OK: it did not fail.
    Status Failure() {
      if (!failed.WaitForNotificationWithTimeout(absl::Seconds(kSeconds))) return OkStatus();
      return failure;
    }
  };

  void Start(Script script = {}) {
    coordinator_ = std::make_unique<FakeCoordinator>(port_, std::move(script));
  }
  void Kill() { coordinator_.reset(); }

  void Enter(double grace = kSeconds) {
    for (Rank* rank : {&a_, &b_}) {
      rank->control = MakeGrpcControl(address_, "");
    }
    Both([grace](Rank* rank) { rank->Enter(grace); });
  }
  void Both(const std::function<void(Rank*)>& act) {
    std::thread other([&] { act(&b_); });
    act(&a_);
    other.join();
  }
  void Agree() {
    Both([](Rank* rank) { EXPECT_TRUE(rank->Agree().ok()); });
  }
  // A round that commits, after whatever has happened.
  void Commits(uint64_t round) {
    Both([round](Rank* rank) {
      const StatusOr<v1::Commit> commit = rank->Vote(round);
      ASSERT_TRUE(commit.ok()) << commit.status();
      EXPECT_EQ(commit->round(), round);
      EXPECT_EQ(commit->total_weight(), 3);
    });
  }
  void NobodyFailed() {
    EXPECT_FALSE(a_.failed.HasBeenNotified());
    EXPECT_FALSE(b_.failed.HasBeenNotified());
  }
  void TearDown() override {
    for (Rank* rank : {&a_, &b_}) rank->control.reset();
    coordinator_.reset();
  }

  Rank a_{0, nullptr, {}, {}}, b_{1, nullptr, {}, {}};
  const int port_ = PortForRestarts();
  std::string address_ = absl::StrFormat("127.0.0.1:%d", port_);
  std::unique_ptr<FakeCoordinator> coordinator_;
};

TEST_F(Reattach, BetweenTwoRoundsCostsNothingButTheWait) {
  Start();
  Enter();
  Agree();
  Commits(1);
  Kill();
  Start();
  ASSERT_TRUE(coordinator_->AwaitBack(2));
  Commits(2);
  NobodyFailed();
}

// As when another server leads.
TEST_F(Reattach, TheCoordinatorMayComeBackAtAnotherOfItsAddresses) {
  const int other = PortForRestarts();
  address_ = absl::StrFormat("127.0.0.1:%d,127.0.0.1:%d", port_, other);
  Start();
  Enter();
  Agree();
  Commits(1);
  for (const int next : {other, port_}) {
    Kill();
    coordinator_ = std::make_unique<FakeCoordinator>(next, Script());
    ASSERT_TRUE(coordinator_->AwaitBack(2));
    Commits(next == other ? 2 : 3);
  }
  NobodyFailed();
}

TEST_F(Reattach, AVoteInFlightIsSentAgainAsItWas) {
  Start();
  Enter();
  Agree();
  std::thread voting([&] { EXPECT_TRUE(a_.Vote(1).ok()); });
  ASSERT_TRUE(coordinator_->AwaitVotes(1, 1));
  const v1::VoteRequest before = coordinator_->vote(1, 0);
  Kill();
  Start();
  ASSERT_TRUE(coordinator_->AwaitVotes(1, 1));
  EXPECT_TRUE(Equal(coordinator_->vote(1, 0), before));
  EXPECT_TRUE(b_.Vote(1).ok());
  voting.join();
  NobodyFailed();
}

// One rank has heard of the commit, the other one's answer is lost: it gets the same one.
TEST_F(Reattach, ACommitThatOneRankHasHeardOfIsTheOthersToo) {
  Script script;
  script.untold = {1};
  Start(script);
  Enter();
  Agree();
  StatusOr<v1::Commit> late;
  std::thread voting([&] { late = b_.Vote(1); });
  const StatusOr<v1::Commit> heard = a_.Vote(1);
  ASSERT_TRUE(heard.ok());
  Kill();
  Start();
  voting.join();
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_TRUE(Equal(*late, *heard));
  EXPECT_EQ(coordinator_->back(0).round(), 1u);
  EXPECT_TRUE(Equal(coordinator_->back(0).last(), *heard));
  EXPECT_EQ(coordinator_->back(1).round(), 0u);
  EXPECT_FALSE(coordinator_->back(1).has_last());
  Commits(2);
  NobodyFailed();
}

TEST_F(Reattach, TellsHowItJoinedAndThePlanInForce) {
  Script script;
  script.new_plan.emplace().set_planner("the second");
  Start(script);
  Enter();
  Agree();
  Commits(1);
  Kill();
  Start();
  ASSERT_TRUE(coordinator_->AwaitBack(2));
  for (uint32_t node : {0u, 1u}) {
    const v1::ReattachRequest back = coordinator_->back(node);
    EXPECT_EQ(back.epoch(), 1u);
    EXPECT_EQ(back.incarnation(), node + 1);
    EXPECT_EQ(back.joined().rank(), node);
    EXPECT_EQ(back.joined().fabric_address(), "an address");
    EXPECT_EQ(back.table().tensors(0).name(), "weight");
    EXPECT_EQ(back.table().plan().planner(), "the second");
    EXPECT_EQ(back.generation(), 1u);
    EXPECT_EQ(back.round(), 1u);
  }
}

TEST_F(Reattach, ATableInFlightIsSentAgain) {
  Script script;
  script.agrees = false;
  Start(script);
  Enter();
  std::thread agreeing([&] { EXPECT_TRUE(a_.Agree().ok()); });
  ASSERT_TRUE(coordinator_->AwaitTables(1));
  Kill();
  Start();
  const StatusOr<v1::AgreeResponse> agreed = b_.Agree();
  agreeing.join();
  ASSERT_TRUE(agreed.ok()) << agreed.status();
  EXPECT_EQ(agreed->plan().planner(), "the first");
  EXPECT_FALSE(coordinator_->back(0).has_table());
  NobodyFailed();
}

v1::JoinRequest JoinAlone(bool with_state) {
  v1::JoinRequest request;
  request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
  request.set_role(v1::ROLE_WORKER);
  request.set_world(2);
  if (with_state) request.mutable_held()->set_epoch(1);
  return request;
}

// Its state would be lost with it.
TEST_F(Reattach, AProcessThatJoinsWithStateTriesAgainWhenTheCoordinatorDiesMeanwhile) {
  Start();
  a_.control = MakeGrpcControl(address_, "");
  std::thread joining([&] {
    const auto joined = a_.control->Join(JoinAlone(true), Seconds(kSeconds));
    EXPECT_TRUE(joined.ok()) << joined.status();
  });
  ASSERT_TRUE(coordinator_->AwaitJoins(1));
  Kill();
  Script script;
  script.world = 1;
  Start(script);
  joining.join();
}

TEST_F(Reattach, AProcessThatHasNothingYetEndsWhenTheCoordinatorDiesMeanwhile) {
  Start();
  a_.control = MakeGrpcControl(address_, "");
  std::thread joining([&] {
    const auto joined = a_.control->Join(JoinAlone(false), Seconds(kSeconds));
    EXPECT_EQ(joined.status().code(), StatusCode::kUnavailable) << joined.status();
  });
  ASSERT_TRUE(coordinator_->AwaitJoins(1));
  Kill();
  joining.join();
}

TEST_F(Reattach, TheCoordinatorMayDieAgainWhileItGathersThem) {
  Start();
  Enter();
  Agree();
  for (int times = 0; times < 3; ++times) {
    Kill();
    Script script;
    script.holds_back = true;
    Start(script);
    ASSERT_TRUE(coordinator_->AwaitBack(1));
  }
  Kill();
  Start();
  Commits(1);
  NobodyFailed();
}

TEST_F(Reattach, ACoordinatorThatDoesNotKnowTheEpochEndsIt) {
  Start();
  Enter();
  Agree();
  std::thread voting([&] { EXPECT_EQ(a_.Vote(1).status().code(), StatusCode::kUnavailable); });
  ASSERT_TRUE(coordinator_->AwaitVotes(1, 1));
  Kill();
  Script script;
  script.takes_back = false;
  Start(script);
  voting.join();
  for (Rank* rank : {&a_, &b_}) {
    EXPECT_THAT(Message(rank->Failure()), HasSubstr("does not know epoch 1"));
    EXPECT_TRUE(rank->recovers);
  }
}

TEST_F(Reattach, TheEpochEndsWithTheGrace) {
  Start();
  Enter(0.2);
  Agree();
  Kill();
  for (Rank* rank : {&a_, &b_}) {
    EXPECT_EQ(rank->Failure().code(), StatusCode::kUnavailable);
    EXPECT_THAT(Message(rank->Failure()), HasSubstr("was not started again"));
  }
  EXPECT_EQ(a_.Vote(1).status(), a_.failure);
}

TEST_F(Reattach, WithoutAGraceTheLossIsTheEnd) {
  Start();
  Enter(0);
  Agree();
  Kill();
  Start();
  EXPECT_EQ(a_.Failure().code(), StatusCode::kUnavailable);
  EXPECT_EQ(b_.Failure().code(), StatusCode::kUnavailable);
}

TEST_F(Reattach, LeavingDoesNotWaitForEverAndFindsACoordinatorThatIsBack) {
  Start();
  Enter();
  Agree();
  Kill();
  EXPECT_FALSE(a_.Leave(0.2).ok());
  std::thread leaving([&] {
    const Status left = b_.Leave(kSeconds);
    EXPECT_TRUE(left.ok()) << left;
  });
  Start();
  leaving.join();
  NobodyFailed();
}

TEST_F(Reattach, AProcessMayEndWhileItLooksForTheCoordinator) {
  Start();
  Enter();
  Kill();
  a_.control.reset();
  b_.control->EndAttendance();
  NobodyFailed();
}

}  // namespace
}  // namespace ringwood

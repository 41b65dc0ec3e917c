// A coordinator dies at an exact point of a round and is started again at its address: the control
// of two ranks against a coordinator made for it.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "absl/strings/str_format.h"
#include "tests/cli/rank.h"
#include "tests/server/peers/fake_coordinator.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;
using Script = FakeCoordinator::Script;

bool Equal(const google::protobuf::Message& a, const google::protobuf::Message& b) {
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

class Reattach : public ::testing::Test {
 protected:
  void Start(Script script = {}) {
    coordinator_ = std::make_unique<FakeCoordinator>(port_, std::move(script));
  }
  void Kill() { coordinator_.reset(); }
  void Restart(Script script = {}) {
    Kill();
    Start(std::move(script));
  }

  void Enter(double grace = Rank::kSeconds) {
    Both([&](Rank* rank) {
      rank->Connect(address_);
      const StatusOr<v1::JoinResponse> joined = rank->Join();
      ASSERT_TRUE(joined.ok()) << joined.status();
      const Status attended = rank->Attend(*joined, grace);
      ASSERT_TRUE(attended.ok()) << attended;
    });
  }
  void Both(const std::function<void(Rank*)>& act) {
    std::thread other([&] { act(&b_); });
    act(&a_);
    other.join();
  }
  StatusOr<v1::AgreeResponse> Agree(Rank* rank) {
    v1::AgreeRequest table;
    table.add_tensors()->set_name("weight");
    if (rank->number() == 0) table.mutable_plan()->set_planner("the first");
    return rank->Agree(table, 1);
  }
  // Two ranks that have agreed, at a coordinator with this script.
  void Begin(Script script = {}, double grace = Rank::kSeconds) {
    Start(std::move(script));
    Enter(grace);
    Both([this](Rank* rank) { EXPECT_TRUE(Agree(rank).ok()); });
  }
  // A round that commits, after whatever has happened.
  void Commits(uint64_t round) {
    Both([round](Rank* rank) {
      const StatusOr<v1::Commit> commit = rank->Vote(1, round);
      ASSERT_TRUE(commit.ok()) << commit.status();
      EXPECT_EQ(commit->round(), round);
      EXPECT_EQ(commit->total_weight(), 3);
    });
  }
  void NobodyFailed() {
    EXPECT_FALSE(a_.failed());
    EXPECT_FALSE(b_.failed());
  }
  void TearDown() override {
    for (Rank* rank : {&a_, &b_}) rank->Disappear();
    coordinator_.reset();
  }

  Rank a_{0}, b_{1};
  const int port_ = PortForRestarts();
  std::string address_ = absl::StrFormat("127.0.0.1:%d", port_);
  std::unique_ptr<FakeCoordinator> coordinator_;
};

TEST_F(Reattach, BetweenTwoRoundsCostsNothingButTheWait) {
  Begin();
  Commits(1);
  Restart();
  ASSERT_TRUE(coordinator_->AwaitBack(2));
  Commits(2);
  NobodyFailed();
}

// As when another server leads.
TEST_F(Reattach, TheCoordinatorMayComeBackAtAnotherOfItsAddresses) {
  const int other = PortForRestarts();
  address_ = absl::StrFormat("127.0.0.1:%d,127.0.0.1:%d", port_, other);
  Begin();
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
  Begin();
  std::thread voting([&] { EXPECT_TRUE(a_.Vote(1, 1).ok()); });
  ASSERT_TRUE(coordinator_->AwaitVotes(1, 1));
  const v1::VoteRequest before = coordinator_->vote(1, 0);
  Restart();
  ASSERT_TRUE(coordinator_->AwaitVotes(1, 1));
  EXPECT_TRUE(Equal(coordinator_->vote(1, 0), before));
  EXPECT_TRUE(b_.Vote(1, 1).ok());
  voting.join();
  NobodyFailed();
}

// One rank has heard of the commit, the other one's answer is lost: it gets the same one.
TEST_F(Reattach, ACommitThatOneRankHasHeardOfIsTheOthersToo) {
  Script script;
  script.untold = {1};
  Begin(script);
  StatusOr<v1::Commit> late;
  std::thread voting([&] { late = b_.Vote(1, 1); });
  const StatusOr<v1::Commit> heard = a_.Vote(1, 1);
  ASSERT_TRUE(heard.ok());
  Restart();
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
  Begin(script);
  Commits(1);
  Restart();
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
  std::thread agreeing([&] { EXPECT_TRUE(Agree(&a_).ok()); });
  ASSERT_TRUE(coordinator_->AwaitTables(1));
  Restart();
  const StatusOr<v1::AgreeResponse> agreed = Agree(&b_);
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
  a_.Connect(address_);
  std::thread joining([&] {
    const auto joined = a_->Join(JoinAlone(true), Seconds(Rank::kSeconds));
    EXPECT_TRUE(joined.ok()) << joined.status();
  });
  ASSERT_TRUE(coordinator_->AwaitJoins(1));
  Script script;
  script.world = 1;
  Restart(script);
  joining.join();
}

TEST_F(Reattach, AProcessThatHasNothingYetEndsWhenTheCoordinatorDiesMeanwhile) {
  Start();
  a_.Connect(address_);
  std::thread joining([&] {
    const auto joined = a_->Join(JoinAlone(false), Seconds(Rank::kSeconds));
    EXPECT_EQ(joined.status().code(), StatusCode::kUnavailable) << joined.status();
  });
  ASSERT_TRUE(coordinator_->AwaitJoins(1));
  Kill();
  joining.join();
}

TEST_F(Reattach, TheCoordinatorMayDieAgainWhileItGathersThem) {
  Begin();
  for (int times = 0; times < 3; ++times) {
    Script script;
    script.holds_back = true;
    Restart(script);
    ASSERT_TRUE(coordinator_->AwaitBack(1));
  }
  Restart();
  Commits(1);
  NobodyFailed();
}

TEST_F(Reattach, ACoordinatorThatDoesNotKnowTheEpochEndsIt) {
  Begin();
  std::thread voting([&] { EXPECT_EQ(a_.Vote(1, 1).status().code(), StatusCode::kUnavailable); });
  ASSERT_TRUE(coordinator_->AwaitVotes(1, 1));
  Script script;
  script.takes_back = false;
  Restart(script);
  voting.join();
  for (Rank* rank : {&a_, &b_}) {
    EXPECT_THAT(Message(rank->Failure()), HasSubstr("does not know epoch 1"));
    EXPECT_TRUE(rank->recovers());
  }
}

TEST_F(Reattach, TheEpochEndsWithTheGrace) {
  Begin({}, 0.2);
  Kill();
  for (Rank* rank : {&a_, &b_}) {
    EXPECT_EQ(rank->Failure().code(), StatusCode::kUnavailable);
    EXPECT_THAT(Message(rank->Failure()), HasSubstr("was not started again"));
  }
  EXPECT_EQ(a_.Vote(1, 1).status(), a_.Failure());
}

TEST_F(Reattach, WithoutAGraceTheLossIsTheEnd) {
  Begin({}, 0);
  Restart();
  EXPECT_EQ(a_.Failure().code(), StatusCode::kUnavailable);
  EXPECT_EQ(b_.Failure().code(), StatusCode::kUnavailable);
}

TEST_F(Reattach, AConnectionThatGrpcMisreadIsMadeAgain) {
  Begin({.misread = 3}, 0);
  NobodyFailed();
}

TEST_F(Reattach, LeavingDoesNotWaitForEverAndFindsACoordinatorThatIsBack) {
  Begin();
  Kill();
  EXPECT_FALSE(a_->Leave({}, Seconds(0.2)).ok());
  std::thread leaving([&] {
    const Status left = b_->Leave({}, Seconds(Rank::kSeconds));
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
  a_.Disappear();
  b_->EndAttendance();
  NobodyFailed();
}

}  // namespace
}  // namespace ringwood

// The two halves of the membership by themselves. What they do together is in the scripts.
#include "server/coordinator/epoch/epoch.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/coordinator/gathering/gathering.h"
#include "tests/plan/small_plans.h"

namespace ringwood {
namespace {

v1::JoinRequest JoinAs(uint32_t rank, uint64_t incarnation) {
  v1::JoinRequest request;
  request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
  request.set_role(v1::ROLE_WORKER);
  request.set_rank(rank);
  request.set_world(2);
  request.set_host("h" + std::to_string(rank));
  request.set_incarnation(incarnation);
  return request;
}

v1::AgreeRequest TableOf(uint32_t rank) {
  v1::AgreeRequest request;
  request.set_rank(rank);
  if (rank == 0) *request.mutable_plan() = OneRing(0, "exact");
  return request;
}

v1::VoteRequest VoteOf(uint32_t rank, uint64_t round) {
  v1::VoteRequest vote;
  vote.set_rank(rank);
  vote.set_round(round);
  vote.set_weight(1);
  return vote;
}

// The answers of type T among the actions, by call.
template <typename T>
std::map<CallId, T> Answers(Outbox* out) {
  std::map<CallId, T> answers;
  for (const Action& action : out->Take()) {
    const auto* reply = std::get_if<action::Reply>(&action);
    if (reply == nullptr) continue;
    if (const T* answer = std::get_if<T>(&reply->answer)) answers.emplace(reply->call, *answer);
  }
  return answers;
}

class EpochTest : public testing::Test {
 protected:
  std::unique_ptr<Epoch> Make(uint64_t number, Committed committed) {
    v1::EpochRecord record;
    record.set_epoch(number);
    record.set_world(2);
    return std::make_unique<Epoch>(MembershipOptions(), record,
                                   Roster({JoinAs(0, 100), JoinAs(1, 101)}, 2), committed, now_);
  }
  // The round that both may begin with.
  uint64_t Agree(Epoch* epoch) {
    epoch->Agree(1, TableOf(0), now_, &out_);
    epoch->Agree(2, TableOf(1), now_, &out_);
    return Answers<v1::AgreeResponse>(&out_).at(2).from_round();
  }
  std::map<CallId, v1::Commit> Vote(Epoch* epoch, uint64_t round) {
    epoch->Vote(3, VoteOf(0, round), now_, &out_);
    epoch->Vote(4, VoteOf(1, round), now_, &out_);
    return Answers<v1::Commit>(&out_);
  }

  const TimePoint now_;
  Outbox out_;
};

TEST_F(EpochTest, TheLogIsWrittenBesideTheStoreByOneThatHasTheState) {
  v1::EpochRecord record;
  record.set_epoch(1);
  record.set_world(3);
  for (const char* host : {"h0", "h1", "h1"}) record.add_members()->set_host(host);
  const Roster roster({JoinAs(0, 100), JoinAs(1, 101), JoinAs(2, 102)}, 3);
  const auto writer = [&](const std::string& host, std::vector<uint32_t> holders) {
    MembershipOptions options;
    options.update_log = true;
    options.host = host;
    const Epoch epoch(options, record, roster, {}, now_, std::move(holders));
    EXPECT_TRUE(epoch.WelcomeTo(0).update_log());
    return epoch.WelcomeTo(0).log_writer();
  };
  EXPECT_EQ(writer("h1", {}), 1u);
  EXPECT_EQ(writer("elsewhere", {}), 0u);
  EXPECT_EQ(writer("h1", {0, 2}), 2u);  // 1 has just come
  EXPECT_EQ(writer("elsewhere", {2}), 2u);
}

TEST_F(EpochTest, AnotherOneFollowsWithTheSameMembersAndGoesOnAfterWhatWasCommitted) {
  const auto first = Make(1, {});
  EXPECT_EQ(Agree(first.get()), 1u);
  ASSERT_EQ(Vote(first.get(), 1).size(), 2u);
  first->Heartbeat(7, v1::Beat(), now_, &out_);
  first->StreamBroken(7, now_, &out_);
  EXPECT_EQ(first->state(), Epoch::State::kFailed);
  EXPECT_EQ(first->failure().who(), "rank 0 (host h0)");
  EXPECT_EQ(first->failure().step(), 2u);
  out_.Take();

  const auto second = Make(2, first->committed());
  EXPECT_EQ(Agree(second.get()), 2u);
  // The answer to a vote of the epoch before may have been lost: it is the same.
  const auto again = Vote(second.get(), 1);
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again.at(3).epoch(), 1u);
  const auto next = Vote(second.get(), 2);
  ASSERT_EQ(next.size(), 2u);
  EXPECT_EQ(next.at(4).epoch(), 2u);
  EXPECT_EQ(next.at(4).round(), 2u);
}

TEST_F(EpochTest, OnlyItsOwnProcessesMayAct) {
  const auto epoch = Make(1, {});
  EXPECT_TRUE(epoch->Check(1, 101).ok());
  EXPECT_EQ(epoch->Check(1, 100).code(), StatusCode::kAborted);
  EXPECT_EQ(epoch->Check(2, 101).code(), StatusCode::kAborted);
  epoch->Fail({2, StatusCode::kUnavailable, "the server stops"}, &out_);
  EXPECT_EQ(Message(epoch->Check(1, 101)), "the job failed at step 1 of epoch 1: the server stops");
}

TEST(Gathering, WhoJoinsWhileAWorldOpensWaitsForTheNextOne) {
  MembershipOptions options;
  options.servers = 0;
  Gathering gathering(options, {});
  Outbox out;
  const TimePoint now;
  gathering.Join({1, JoinAs(0, 100), 7}, now, &out);
  EXPECT_FALSE(gathering.Complete({}, now));
  gathering.Join({2, JoinAs(1, 101), 8}, now, &out);
  ASSERT_TRUE(gathering.Complete({}, now));
  gathering.Open(false, now, &out);
  EXPECT_TRUE(gathering.opening());
  gathering.Join({3, JoinAs(1, 201), 9}, now, &out);
  const auto world = gathering.Persisted(OkStatus(), now, &out);
  ASSERT_TRUE(world.has_value());
  EXPECT_EQ(world->record.job(), 7u);
  EXPECT_EQ(world->calls, (std::vector<CallId>{1, 2}));
  EXPECT_EQ(world->members.at(1).incarnation(), 101u);
  EXPECT_EQ(gathering.FirstWorker(), 1u);
}

}  // namespace
}  // namespace ringwood

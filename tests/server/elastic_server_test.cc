// A whole server over loopback gRPC: an elastic job that loses a worker and gets another one, and
// members that come back to a server that was started again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/peers/worker.h"

namespace ringwood {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ServerOptions Elastic(const std::string& store = "") {
  ServerOptions options = Embedded(store);
  options.elastic = true;
  return options;
}

void Holds(Worker* worker, uint64_t round) {
  v1::Held* held = worker->request().mutable_held();
  held->set_job(worker->joined.job());
  held->set_epoch(worker->joined.epoch());
  held->set_round(round);
}

TEST(ElasticServer, ASurvivorGoesOnAndAnotherProcessTakesTheFreeRank) {
  auto server = Server::Start(Elastic());
  ASSERT_TRUE(server.ok()) << server.status();
  Worker a((*server)->port(), 0, 2), b((*server)->port(), 1, 2);
  JoinBoth(a, b);
  AgreeBoth(a, b);
  ExpectCommit(a, b, 1);
  a.StopAttending();
  const v1::Failure failure = b.Failure();
  EXPECT_TRUE(failure.recovers());
  EXPECT_THAT(failure.who(), HasSubstr("rank 0"));

  Holds(&b, 1);
  ASSERT_TRUE(b.Join().ok());
  EXPECT_TRUE(b.joined.elastic());
  EXPECT_EQ(b.joined.epoch(), 2u);
  EXPECT_EQ(b.joined.node(), 0u);
  EXPECT_EQ(b.joined.world(), 1u);
  EXPECT_EQ(b.joined.members_size(), 2) << "the server's own reducer comes again too";
  EXPECT_EQ(b.joined.base_step(), 1u);
  EXPECT_THAT(b.joined.holders(), ElementsAre(0));
  b.Attend();
  v1::AgreeResponse agreed;
  ASSERT_TRUE(b.Agree(&agreed).ok());
  EXPECT_EQ(agreed.from_round(), 2u);

  Worker c((*server)->port(), 0, 2);
  auto joining = std::async(std::launch::async, [&] { return c.Join(); });
  v1::Commit commit;
  uint64_t round = 1;
  do {  // until its join has come
    ASSERT_TRUE(b.Vote(++round, &commit).ok());
  } while (!commit.regroup());
  Holds(&b, round);
  ASSERT_TRUE(b.Join().ok());
  ASSERT_TRUE(joining.get().ok());
  EXPECT_EQ(b.joined.node(), 1u);
  EXPECT_EQ(c.joined.node(), 0u);
  EXPECT_EQ(c.joined.base_step(), round);
  EXPECT_THAT(c.joined.holders(), ElementsAre(1));
  b.Attend();
  c.Attend();
  AgreeBoth(b, c);
  ExpectCommit(b, c, round + 1);
}

TEST(ElasticServer, MembersComeBackToOneThatWasStartedAgain) {
  Directory directory;
  ServerOptions options = Elastic(directory.path());
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  Worker a((*server)->port(), 0, 2), b((*server)->port(), 1, 2);
  JoinBoth(a, b);
  AgreeBoth(a, b);
  ExpectCommit(a, b, 1);

  server->reset();
  server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  for (Worker* worker : {&a, &b}) worker->TurnTo((*server)->port());
  EXPECT_EQ(a.Status().phase(), "reattaching");
  v1::Commit last;
  last.set_epoch(1);
  last.set_round(1);
  last.set_total_weight(8);
  // One has not heard of the last commit.
  auto first = std::async(std::launch::async, [&] { return a.Reattach(last); });
  const grpc::Status second = b.Reattach({});
  EXPECT_TRUE(second.ok()) << second.error_message();
  EXPECT_TRUE(first.get().ok());
  a.Attend();
  b.Attend();
  v1::Commit again;
  ASSERT_TRUE(b.Vote(1, &again).ok());
  EXPECT_EQ(again.SerializeAsString(), last.SerializeAsString());
  ExpectCommit(a, b, 2);
  EXPECT_EQ(a.Status().phase(), "running");
  EXPECT_EQ(a.Status().epoch(), 1u);
}

TEST(ElasticServer, AStrangerDoesNotComeBack) {
  Directory directory;
  ServerOptions options = Elastic(directory.path());
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  Worker a((*server)->port(), 0, 2), b((*server)->port(), 1, 2), stranger((*server)->port(), 0, 2);
  JoinBoth(a, b);
  server->reset();
  server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  stranger.TurnTo((*server)->port());
  stranger.joined = a.joined;
  EXPECT_EQ(stranger.Reattach({}).error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(stranger.Status().phase(), "reattaching");
}

}  // namespace
}  // namespace ringwood

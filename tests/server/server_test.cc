// A whole server over loopback gRPC: what a worker sees, from join to leave, with its own reducer.
#include "server/server.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>

#include "base/random.h"
#include "server/store/store_directory.h"
#include "server/store/view/store_view.h"
#include "tests/server/peers/worker.h"
#include "transport/inbox.h"

namespace ringwood {
namespace {

TEST(Server, RunsTwoJobsOneAfterTheOther) {
  auto server = Server::Start(Embedded());
  ASSERT_TRUE(server.ok()) << server.status();
  uint64_t job = 0;
  for (int run = 0; run < 2; ++run) {
    Worker a((*server)->port(), 0, 2), b((*server)->port(), 1, 2);
    JoinBoth(a, b);
    EXPECT_EQ(a.joined.members_size(), 3) << "two workers and the server's own reducer";
    EXPECT_FALSE(a.joined.members(2).fabric_address().empty());
    EXPECT_EQ(a.joined.epoch(), static_cast<uint64_t>(run + 1));
    EXPECT_NE(a.joined.job(), job);
    job = a.joined.job();
    AgreeBoth(a, b);
    for (uint64_t round = 1; round <= 5; ++round) ExpectCommit(a, b, round);
    EXPECT_EQ(a.Status().step(), 5u);
    EXPECT_TRUE(a.Leave().ok());
    EXPECT_TRUE(b.Leave().ok());
  }
  (*server)->Stop();
  EXPECT_TRUE((*server)->Wait(Seconds(60)).ok());
}

// Hands on what the reducer connects to.
class Listening : public Fabric {
 public:
  Listening(std::unique_ptr<Fabric> fabric, std::promise<std::vector<Peer>>* peers)
      : fabric_(std::move(fabric)), peers_(peers) {}
  std::string Address() const override { return fabric_->Address(); }
  std::string Wire() const override { return fabric_->Wire(); }
  StatusOr<std::unique_ptr<Transport>> Connect(const EpochName& name,
                                               const std::vector<Peer>& peers,
                                               const FabricLimits& limits) override {
    auto transport = fabric_->Connect(name, peers, limits);
    peers_->set_value(peers);
    return transport;
  }

 private:
  const std::unique_ptr<Fabric> fabric_;
  std::promise<std::vector<Peer>>* const peers_;
};

TEST(Server, ItsReducerKnowsWhoSharesItsHost) {
  std::promise<std::vector<Peer>> promise;
  ServerOptions options = Embedded();
  options.host = "h0";
  options.watched = [&, first = true](std::unique_ptr<Fabric> fabric) mutable {
    if (!std::exchange(first, false)) return fabric;  // of the epoch after the job
    return std::unique_ptr<Fabric>(std::make_unique<Listening>(std::move(fabric), &promise));
  };
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  Worker a((*server)->port(), 0, 2), b((*server)->port(), 1, 2);
  b.request().set_host("h1");
  JoinBoth(a, b);
  auto connected = promise.get_future();
  ASSERT_EQ(connected.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  const std::vector<Peer> peers = connected.get();
  ASSERT_EQ(peers.size(), 3u);
  EXPECT_EQ(peers[0].host, "test");
  EXPECT_EQ(peers[1].host, "h1");
  EXPECT_EQ(peers[2].host, "h0");
}

// Of each epoch: the reducer's first receive is answered with what a worker said as it closed.
class Told : public Fabric {
 public:
  explicit Told(std::unique_ptr<Fabric> fabric) : fabric_(std::move(fabric)) {}
  std::string Address() const override { return fabric_->Address(); }
  std::string Wire() const override { return fabric_->Wire(); }
  StatusOr<std::unique_ptr<Transport>> Connect(const EpochName&, const std::vector<Peer>&,
                                               const FabricLimits&) override {
    return std::make_unique<Answers>();
  }

 private:
  struct Answers : Transport {
    void Send(int, const MessageName&, const Content&, const Payload&, SendDone) override {}
    void Receive(int, const MessageName&, const Content&, const ReceiveBuffer&,
                 ReceiveDone done) override {
      const std::string said = Farewell(TimedOut("rank 1: rank 7 has not answered"));
      done(ReadFarewell(static_cast<uint8_t>(StatusCode::kDeadlineExceeded),
                        std::as_bytes(std::span(said)), "rank 1"),
           {});
    }
    void Withdraw(Lane, uint64_t) override {}
    void Close(const Status&) override {}
    TransportCounters Counters() const override { return {}; }
  };

  const std::unique_ptr<Fabric> fabric_;
};

TEST(Server, ItsReducerDoesNotFailForWhatAWorkerSays) {
  ServerOptions options = Embedded();
  options.watched = [](std::unique_ptr<Fabric> fabric) {
    return std::unique_ptr<Fabric>(std::make_unique<Told>(std::move(fabric)));
  };
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  Worker a((*server)->port(), 0, 2), b((*server)->port(), 1, 2);
  JoinBoth(a, b);
  AgreeBoth(a, b, OneTree(1000, "test"));
  for (uint64_t round = 1; round <= 20; ++round) ExpectCommit(a, b, round);
  EXPECT_TRUE(b.Leave("rank 7 has not answered").ok());
  EXPECT_EQ(a.Failure().who(), "rank 1 (host test)");
}

TEST(Server, TellsEveryoneWhoDied) {
  auto server = Server::Start(Embedded());
  ASSERT_TRUE(server.ok()) << server.status();
  Worker a((*server)->port(), 0, 2);
  auto b = std::make_unique<Worker>((*server)->port(), 1, 2);
  JoinBoth(a, *b);
  AgreeBoth(a, *b);
  b.reset();  // its heartbeat stream breaks
  v1::Notice notice;
  ASSERT_TRUE(a.Read(&notice));
  EXPECT_EQ(notice.failure().who(), "rank 1 (host test)");
  EXPECT_EQ(notice.failure().step(), 1u);
  v1::Commit commit;
  const grpc::Status voted = a.Vote(1, &commit);
  EXPECT_EQ(voted.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(voted.error_message().find("rank 1 (host test)"), std::string::npos);
}

TEST(Server, ALongReasonReachesEveryoneAndBlamesWhoLeft) {
  auto server = Server::Start(Embedded());
  ASSERT_TRUE(server.ok()) << server.status();
  Worker a((*server)->port(), 0, 2), b((*server)->port(), 1, 2);
  JoinBoth(a, b);
  AgreeBoth(a, b);
  const std::string text = "ValueError: \n" + std::string(12'000, 'x') + "\x1b the end";
  EXPECT_TRUE(b.Leave(text).ok());
  v1::Notice notice;
  ASSERT_TRUE(a.Read(&notice));
  EXPECT_EQ(notice.failure().who(), "rank 1 (host test)");
  EXPECT_NE(notice.failure().reason().find("\\x1b the end"), std::string::npos);
  v1::Commit commit;
  const grpc::Status voted = a.Vote(1, &commit);
  EXPECT_EQ(voted.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(voted.error_message().rfind("rank 1 (host test) failed at step 1", 0), 0u)
      << voted.error_message();
  EXPECT_LT(voted.error_message().size(), 1100u);
}

TEST(Server, NoticesASilentMemberWithinTheFailureTimeout) {
  ServerOptions options = Embedded();
  options.failure_timeout_seconds = 3;  // the other one's heartbeats may be late by as much
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  Worker a((*server)->port(), 0, 2), b((*server)->port(), 1, 2);
  JoinBoth(a, b);
  AgreeBoth(a, b);
  std::atomic<bool> told{false};
  auto beats = std::async(std::launch::async, [&] {
    for (; !told; usleep(50'000)) a.Beat();
  });
  ExpectCommit(a, b, 1);  // until then silence is a slow start
  v1::Notice notice;
  const bool read = a.Read(&notice);
  told = true;
  ASSERT_TRUE(read);
  EXPECT_EQ(notice.failure().who(), "rank 1 (host test)");
  EXPECT_NE(notice.failure().reason().find("silent"), std::string::npos);
}

TEST(Server, ResumesFromTheNewestCompleteCheckpoint) {
  Directory directory;
  const std::string weights(300'000, 'w');
  uint64_t job = 0;
  {
    auto server = Server::Start(Embedded(directory.path()));
    ASSERT_TRUE(server.ok()) << server.status();
    Worker a((*server)->port(), 0, 2), b((*server)->port(), 1, 2);
    JoinBoth(a, b);
    job = a.joined.job();
    for (uint64_t step : {10, 20, 30}) {
      const std::string now = weights + std::to_string(step);
      auto [first, second] = Both(a, b, [&](Worker& w) { return w.Save(step, now); });
      EXPECT_TRUE(first.ok() && second.ok()) << first.error_message() << second.error_message();
      EXPECT_TRUE(a.Await(step, 10).complete());
    }
    // Step 40 stays half: one rank's stripe breaks off.
    EXPECT_TRUE(a.Save(40, weights).ok());
    EXPECT_FALSE(a.Await(40, 0.1).complete());
    EXPECT_FALSE(b.Save(40, weights, false).ok());
    EXPECT_NE(a.Await(40, 10).reason().find("rank 1"), std::string::npos);
  }
  auto server = Server::Start(Embedded(directory.path()));
  ASSERT_TRUE(server.ok()) << server.status();
  Worker a((*server)->port(), 0, 2, true), b((*server)->port(), 1, 2, true);
  JoinBoth(a, b);
  EXPECT_EQ(a.joined.base_step(), 30u);
  EXPECT_TRUE(a.joined.has_checkpoint());
  EXPECT_EQ(a.joined.epoch(), 2u);
  EXPECT_EQ(a.joined.job(), job);
  std::string loaded, own;
  EXPECT_TRUE(b.Load(30, "weights", v1::SCOPE_SHARED, &loaded).ok());
  EXPECT_EQ(loaded, weights + "30");
  EXPECT_TRUE(b.Load(30, "residual", v1::SCOPE_OWN, &own).ok());
  EXPECT_EQ(own, "residual of 1");
  EXPECT_EQ(b.Load(30, "velocity", v1::SCOPE_OWN, &own).error_code(), grpc::StatusCode::NOT_FOUND);
  // The list opens beside the running server: the two newest were kept.
  auto list = ListCheckpoints(directory.path());
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ((*list)[0].step, 30u);
  EXPECT_TRUE((*list)[0].complete);
  EXPECT_EQ((*list)[1].step, 20u);
  EXPECT_TRUE(VerifyCheckpoint(directory.path(), {0, 20}).ok());
}

// None of them comes back to a server that is started again.
TEST(Server, AJobThatHasEndedIsNotWaitedFor) {
  for (const bool fails : {false, true}) {
    SCOPED_TRACE(fails);
    Directory directory;
    const ServerOptions options = Embedded(directory.path() + "/store");
    {
      auto server = Server::Start(options);
      ASSERT_TRUE(server.ok()) << server.status();
      Worker a((*server)->port(), 0, 2), b((*server)->port(), 1, 2);
      JoinBoth(a, b);
      AgreeBoth(a, b);
      ExpectCommit(a, b, 1);
      fails ? b.StopAttending() : static_cast<void>(a.Leave().ok() && b.Leave().ok());
      while (a.Status().phase() == "running") std::this_thread::yield();
    }
    auto again = Server::Start(options);
    ASSERT_TRUE(again.ok()) << again.status();
    Worker asks((*again)->port(), 0, 2);
    EXPECT_EQ(asks.Status().phase(), "waiting");
    Worker a((*again)->port(), 0, 2), b((*again)->port(), 1, 2);
    JoinBoth(a, b);
    EXPECT_EQ(a.joined.epoch(), 2u);
  }
}

TEST(Server, LoadsItemsOfAnyRankIntoAnotherWorld) {
  Directory directory;
  {
    auto server = Server::Start(Embedded(directory.path()));
    ASSERT_TRUE(server.ok()) << server.status();
    Worker a((*server)->port(), 0, 2), b((*server)->port(), 1, 2);
    JoinBoth(a, b);
    Both(a, b, [&](Worker& worker) { return worker.Save(7, "the weights"); });
    ASSERT_TRUE(a.Await(7, 10).complete());
  }
  auto server = Server::Start(Embedded(directory.path()));
  Worker alone((*server)->port(), 0, 1, true);
  ASSERT_TRUE(alone.Join().ok());
  EXPECT_EQ(alone.joined.base_step(), 7u);
  std::string loaded, own, gone;
  EXPECT_TRUE(alone.Load(7, "weights", v1::SCOPE_SHARED, &loaded).ok());
  EXPECT_EQ(loaded, "the weights");
  EXPECT_TRUE(alone.Load(7, "residual", v1::SCOPE_OWN, &own).ok());
  EXPECT_EQ(own, "residual of 0");
  EXPECT_TRUE(alone.Load(7, "residual", v1::SCOPE_OWN, &gone, 1).ok());
  EXPECT_EQ(gone, "residual of 1");
  EXPECT_EQ(alone.Load(7, "residual", v1::SCOPE_OWN, &gone, 2).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST(Server, StopsInTimeWithCallsHeldAndStreamsOpen) {
  auto server = Server::Start(Embedded());
  ASSERT_TRUE(server.ok()) << server.status();
  Worker a((*server)->port(), 0, 2);
  auto held = std::async(std::launch::async, [&] { return a.Join(); });
  usleep(200'000);
  const TimePoint start = Now();
  (*server)->Stop();
  EXPECT_LT(ToSeconds(Now() - start), 10);
  EXPECT_EQ(held.get().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(Server, RefusesWhatItCannotServeSafely) {
  ServerOptions options;
  EXPECT_EQ(Server::Start(options).status().code(), StatusCode::kPermissionDenied);
  options.insecure = true;
  options.listen = "0.0.0.0:0";
  EXPECT_EQ(Server::Start(options).status().code(), StatusCode::kPermissionDenied);
  options.trusted_fabric = true;
  options.network_interface = "lo";
  EXPECT_EQ(Server::Start(options).status().code(), StatusCode::kPermissionDenied);
  options.listen = "nonsense";
  EXPECT_EQ(Server::Start(options).status().code(), StatusCode::kInvalidArgument);
  auto first = Server::Start(Embedded());
  options = Embedded();
  options.listen = "127.0.0.1:" + std::to_string((*first)->port());
  const Status in_use = Server::Start(options).status();
  EXPECT_EQ(in_use.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(Message(in_use).find("in use"), std::string::npos) << in_use;
  options = Embedded();
  options.min_world = 0;
  const Status none = Server::Start(options).status();
  EXPECT_NE(Message(none).find("--min-np 0"), std::string::npos) << none;
}

TEST(Server, RefusesAStoreThatIsLockedOrOfAnotherVersionOrNoStore) {
  Directory directory;
  {
    auto first = Server::Start(Embedded(directory.path()));
    ASSERT_TRUE(first.ok()) << first.status();
    const Status locked = Server::Start(Embedded(directory.path())).status();
    EXPECT_EQ(locked.code(), StatusCode::kFailedPrecondition);
    EXPECT_NE(Message(locked).find("in use by another process"), std::string::npos) << locked;
  }
  std::filesystem::resize_file(directory.path() + "/FORMAT", 3);
  const Status version = Server::Start(Embedded(directory.path())).status();
  EXPECT_NE(Message(version).find("of another version"), std::string::npos) << version;
  std::filesystem::remove(directory.path() + "/FORMAT");
  const Status stranger = Server::Start(Embedded(directory.path())).status();
  EXPECT_NE(Message(stranger).find("not a Ringwood store"), std::string::npos) << stranger;
}

TEST(StoreDirectory, OneThatCannotBeLookedAtIsNotCalledMissing) {
  EXPECT_EQ(CheckStore("/nonexistent/store").code(), StatusCode::kNotFound);
  EXPECT_EQ(CheckStore("/dev/null/store").code(), StatusCode::kNotFound);
  const Status status = CheckStore("/" + std::string(300, 'x'));
  EXPECT_NE(Message(status).find("cannot look at /xxx"), std::string::npos) << status;
}

TEST(StoreDirectory, OfAServiceTheStoresOfItsJobsAreNamed) {
  Directory directory;
  const std::string jobs = directory.path() + "/jobs/";
  for (const char* job : {"e", "d", "c", "b", "a"}) {
    ASSERT_TRUE(PrepareStore(jobs + job).ok());
    std::filesystem::create_directory(jobs + "0");  // has none yet
    const std::string why = Message(CheckStore(directory.path()));
    EXPECT_NE(why.find("is the directory of a service"), std::string::npos) << why;
    EXPECT_NE(why.find("give --store " + jobs + job), std::string::npos) << why;
    EXPECT_EQ(why.find(jobs + "0"), std::string::npos) << why;
  }
  const std::string why = Message(CheckStore(directory.path()));
  EXPECT_TRUE(why.ends_with(jobs + "a, " + jobs + "b, " + jobs + "c or one of 2 more there"))
      << why;
}

TEST(Server, LivesThroughGarbageOnItsPort) {
  auto server = Server::Start(Embedded());
  ASSERT_TRUE(server.ok()) << server.status();
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const int stranger = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<uint16_t>((*server)->port()));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(stranger, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
    std::string garbage = i % 2 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
    for (uint64_t bytes = random.Below(3000); bytes > 0; --bytes) {
      garbage.push_back(static_cast<char>(random.Next()));
    }
    (void)send(stranger, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    close(stranger);
  }
  Worker a((*server)->port(), 0, 2), b((*server)->port(), 1, 2);
  JoinBoth(a, b);
  AgreeBoth(a, b);
  ExpectCommit(a, b, 1);
}

}  // namespace
}  // namespace ringwood

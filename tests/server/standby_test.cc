// Servers with one etcd: one serves, the others stand by, refuse connections and take over.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <utility>

#include "server/store/database.h"
#include "server/store/store_directory.h"
#include "tests/server/etcd/cluster.h"
#include "tests/server/peers/worker.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

constexpr double kStandbySeconds = 60;

// errno of a connection, 0: there is one.
int TryConnection(int port) {
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int error =
      connect(client, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0 ? 0 : errno;
  close(client);
  return error;
}

class Standby : public testing::Test {
 protected:
  struct Running {
    std::promise<int> serves;  // the port
    std::promise<Status> deposed;
    std::unique_ptr<Server> server;  // last: it calls back

    bool Serves() {
      return serves.get_future().wait_for(std::chrono::duration<double>(kStandbySeconds)) ==
             std::future_status::ready;
    }
  };

  void SetUp() override {
    if (EtcdProgram().empty()) GTEST_SKIP() << "etcd is not installed (Debian: etcd-server)";
    etcd_ = std::make_unique<EtcdCluster>("job");
    ASSERT_TRUE(etcd_->ready().ok()) << etcd_->ready();
  }

  // `waits`: called while it waits for a store.
  std::unique_ptr<Running> Start(const std::string& store = "",
                                 const std::function<void()>& waits = nullptr) {
    auto running = std::make_unique<Running>();
    ServerOptions options = Embedded(store);
    if (waits) options.gives_up = [waits] { return waits(), false; };
    options.coord_store = etcd_->address().text();
    options.token = "token";
    options.failure_timeout_seconds = 10;
    options.serves = [raw = running.get()](int port) { raw->serves.set_value(port); };
    options.deposed = [raw = running.get()](const Status& why) { raw->deposed.set_value(why); };
    auto server = Server::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    if (server.ok()) running->server = *std::move(server);
    return running;
  }

  static Worker RankOf(int port, uint32_t rank) { return Worker(port, rank, 2, false, "token"); }

  std::unique_ptr<EtcdCluster> etcd_;
};

TEST_F(Standby, ServesWhenTheLeaderEndsAndCountsOn) {
  auto first = Start();
  ASSERT_TRUE(first->Serves());
  auto second = Start();
  const int port = second->server->port();
  EXPECT_NE(port, 0);
  EXPECT_EQ(TryConnection(port), ECONNREFUSED);
  {
    Worker a = RankOf(first->server->port(), 0), b = RankOf(first->server->port(), 1);
    JoinBoth(a, b);
    EXPECT_EQ(a.joined.epoch(), 1u);
    AgreeBoth(a, b);
    ExpectCommit(a, b, 1);
    EXPECT_EQ(TryConnection(port), ECONNREFUSED);
    EXPECT_TRUE(a.Leave().ok() && b.Leave().ok());
  }
  first->server->Stop();
  ASSERT_TRUE(second->Serves());
  Worker a = RankOf(port, 0), b = RankOf(port, 1);
  JoinBoth(a, b);
  EXPECT_EQ(a.joined.epoch(), 2u) << "the number of the epoch came with the record";
  AgreeBoth(a, b);
  ExpectCommit(a, b, 1);
}

TEST_F(Standby, ADamagedRecordEndsItForGood) {
  EtcdClient client(etcd_->address());
  etcdserverpb::TxnRequest request;
  etcdserverpb::PutRequest* const put = request.add_success()->mutable_request_put();
  put->set_key("job/epoch");
  put->set_value("nothing of ours");
  ASSERT_TRUE(client.Txn(request, Now() + Seconds(kStandbySeconds)).ok());
  const auto server = Start();
  const Status ended = server->server->Wait(Seconds(kStandbySeconds));
  EXPECT_EQ(ended.code(), StatusCode::kFailedPrecondition) << ended;
  EXPECT_THAT(Message(ended), HasSubstr("record job/epoch in etcd://"));
}

TEST_F(Standby, ALeaderWithoutEtcdSaysThatItMustEnd) {
  auto server = Start();
  ASSERT_TRUE(server->Serves());
  for (int member = 0; member < EtcdCluster::kMembers; ++member) etcd_->Kill(member);
  auto deposed = server->deposed.get_future();
  ASSERT_EQ(deposed.wait_for(std::chrono::duration<double>(kStandbySeconds)),
            std::future_status::ready);
  EXPECT_THAT(Message(deposed.get()), HasSubstr("no longer leads job"));
  const Status over = server->server->Wait(Seconds(kStandbySeconds));
  EXPECT_EQ(over.code(), StatusCode::kUnavailable) << over;
}

TEST_F(Standby, AStoreKeepsItsFormatUntilItLeads) {
  Directory directory;
  const std::string store = directory.path() + "/store";
  auto first = Start(store);
  ASSERT_TRUE(first->Serves());
  const auto write = [&] { std::ofstream(store + "/FORMAT") << "ringwood-store 1\n"; };
  const auto read = [&] {
    std::string line;
    std::ifstream file(store + "/FORMAT");
    std::getline(file, line);
    return line;
  };
  write();
  auto second = Start(store);
  EXPECT_EQ(read(), "ringwood-store 1");
  first->server->Stop();
  ASSERT_TRUE(second->Serves());
  EXPECT_EQ(read(), "ringwood-store 2");
}

TEST_F(Standby, TwoThatStandByHaveNotTheSamePort) {
  for (int member = 0; member < EtcdCluster::kMembers; ++member) etcd_->Kill(member);  // none leads
  auto first = Start();
  ServerOptions options = Embedded();
  options.coord_store = etcd_->address().text();
  options.listen = "127.0.0.1:" + std::to_string(first->server->port());
  EXPECT_THAT(Message(Server::Start(options).status()), HasSubstr("the port is in use"));
}

// The leader that was stopped for a while has the store open until it learns that it leads no more.
class StandbyWithAStoreInUse : public Standby {
 protected:
  void SetUp() override {
    Standby::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(PrepareStore(store_).ok());
    auto held = OpenDatabase(SafeOptions(), store_ + "/checkpoints", "the store", {});
    ASSERT_TRUE(held.ok()) << held.status();
    held_ = *std::move(held);
    server_ = Start(store_, [this] { std::call_once(once_, [this] { waits_.set_value(); }); });
    ASSERT_EQ(waits_.get_future().wait_for(std::chrono::duration<double>(kStandbySeconds)),
              std::future_status::ready);
  }

  Directory directory_;
  const std::string store_ = directory_.path() + "/store";
  std::unique_ptr<rocksdb::DB> held_;
  std::once_flag once_;
  std::promise<void> waits_;
  std::unique_ptr<Running> server_;
};

TEST_F(StandbyWithAStoreInUse, WaitsForItAndServesWhenItIsFree) {
  held_.reset();
  EXPECT_TRUE(server_->Serves());
}

TEST_F(StandbyWithAStoreInUse, StopsWhileItWaits) {
  server_->server->Stop();
  EXPECT_TRUE(server_->server->Wait(Seconds(kStandbySeconds)).ok());
}

TEST_F(Standby, WhatItIsStartedWithIsCheckedAtOnce) {
  ServerOptions options = Embedded();
  options.coord_store = "etcd://10.1.2.3:2379/job";
  EXPECT_THAT(Message(Server::Start(options).status()),
              testing::AllOf(HasSubstr("etcds://"), HasSubstr("--trusted-fabric")));
  options.coord_store = "etcd:/127.0.0.1:2379";
  EXPECT_EQ(Server::Start(options).status().code(), StatusCode::kInvalidArgument);
  options.coord_store = etcd_->address().text();
  options.coordinator = "127.0.0.1:1";
  EXPECT_EQ(Server::Start(options).status().code(), StatusCode::kInvalidArgument);
  options.coordinator = "";
  Directory foreign;
  options.store = foreign.path();
  std::ofstream(foreign.path() + "/thesis.tex") << "x";
  EXPECT_THAT(Message(Server::Start(options).status()), HasSubstr("is not a Ringwood store"));
  options.store = "";
  auto first = Start();
  options.listen = "127.0.0.1:" + std::to_string(first->server->port());
  ASSERT_TRUE(first->Serves());
  EXPECT_THAT(Message(Server::Start(options).status()), HasSubstr("in use"));
  options.http = std::exchange(options.listen, "127.0.0.1:0");
  EXPECT_THAT(Message(Server::Start(options).status()),
              testing::AllOf(HasSubstr("--http"), HasSubstr("the port is in use")));
}

}  // namespace
}  // namespace ringwood

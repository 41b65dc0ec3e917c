// The coordinator's record in etcd: three real members, and what servers may and may not do with
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "server/coordinator/etcd/coord_store.h"
#include "server/coordinator/etcd/leadership.h"
#include "tests/server/etcd/cluster.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kPatienceSeconds = 20;    // a loaded machine; no test passes by its end
constexpr int64_t kLongLeaseSeconds = 30;  // where leadership must last
constexpr int64_t kShortLeaseSeconds = 5;  // where its end is waited for

v1::EpochRecord EpochRecordOf(uint64_t number, uint64_t incarnation = 4711) {
  v1::EpochRecord record;
  record.set_job(9);
  record.set_epoch(number);
  v1::RecordedMember* member = record.add_members();
  member->set_rank(1);
  member->set_host("h1");
  member->set_incarnation(incarnation);
  return record;
}

// A server as far as the election can tell.
class Candidate {
 public:
  Candidate(const EtcdCluster& etcd, const std::string& address,
            int64_t lease_seconds = kLongLeaseSeconds)
      : etcd_(etcd.address()) {
    Leadership::Options options;
    options.etcd = etcd_;
    options.address = address;
    options.lease_seconds = lease_seconds;
    options.leads = [this](int64_t revision) { leads_.set_value(revision); };
    options.deposed = [this](const Status& why) { deposed_.set_value(why); };
    leadership_ = std::make_unique<Leadership>(std::move(options));
  }

  int64_t AwaitLeads() {
    auto leads = leads_.get_future();
    if (leads.wait_for(std::chrono::seconds(60)) != std::future_status::ready) return 0;
    return leads.get();
  }
  Status AwaitDeposed() {
    auto deposed = deposed_.get_future();
    if (deposed.wait_for(std::chrono::seconds(60)) != std::future_status::ready) return OkStatus();
    return deposed.get();
  }
  std::unique_ptr<CoordStore> Store(int64_t revision, double patience = kPatienceSeconds) const {
    return MakeEtcdCoordStore({etcd_, revision, "token", Seconds(patience)});
  }
  // As if it were cut off: its lease ends by itself.
  void FallSilent() { leadership_->Close(); }
  void Resign() { leadership_.reset(); }

 private:
  const EtcdAddress etcd_;
  std::promise<int64_t> leads_;
  std::promise<Status> deposed_;
  std::unique_ptr<Leadership> leadership_;  // last: it calls back
};

class EtcdStore : public testing::Test {
 protected:
  void SetUp() override {
    if (EtcdProgram().empty()) GTEST_SKIP() << "etcd is not installed (Debian: etcd-server)";
    etcd_ = std::make_unique<EtcdCluster>("jobs/a");
    ASSERT_TRUE(etcd_->ready().ok()) << etcd_->ready();
  }
  std::unique_ptr<EtcdCluster> etcd_;
};

TEST_F(EtcdStore, KeepsTheNewestRecordWithoutIncarnations) {
  Candidate server(*etcd_, "h1:70");
  const int64_t revision = server.AwaitLeads();
  ASSERT_GT(revision, 0);
  auto store = server.Store(revision);
  const auto empty = store->Load();
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->epoch(), 0u);
  for (uint64_t epoch : {1, 2, 7}) ASSERT_TRUE(store->Save(EpochRecordOf(epoch)).ok());
  const Status old = store->Save(EpochRecordOf(7));
  EXPECT_EQ(old.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(old), HasSubstr("epoch 7 is recorded already"));

  auto again = server.Store(revision);
  const auto loaded = again->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->epoch(), 7u);
  EXPECT_EQ(loaded->members(0).host(), "h1");
  EXPECT_EQ(loaded->members(0).incarnation(), 0u);
  EXPECT_EQ(loaded->members(0).incarnation_hash().size(), 32u);
  EXPECT_FALSE(again->Save(EpochRecordOf(6)).ok());
  EXPECT_TRUE(again->Save(EpochRecordOf(8)).ok());
}

TEST_F(EtcdStore, KeepsTheEndOfAnEpoch) {
  Candidate server(*etcd_, "h1:70");
  const int64_t revision = server.AwaitLeads();
  auto store = server.Store(revision);
  ASSERT_TRUE(store->Save(EpochRecordOf(2)).ok());
  v1::EpochRecord over = EpochRecordOf(2);
  over.clear_members();
  EXPECT_TRUE(store->Save(over).ok());
  const auto loaded = server.Store(revision)->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->epoch(), 2u);
  EXPECT_EQ(loaded->members_size(), 0);
  EXPECT_FALSE(store->Save(EpochRecordOf(2)).ok());
}

TEST_F(EtcdStore, AnEarlierSaveThatArrivesLateIsNotTakenBack) {
  Candidate server(*etcd_, "h1:70");
  const int64_t revision = server.AwaitLeads();
  auto store = server.Store(revision);
  ASSERT_TRUE(store->Load().ok());
  auto lost = server.Store(revision);  // the same leader's, whose answers never came
  ASSERT_TRUE(lost->Load().ok());
  ASSERT_TRUE(lost->Save(EpochRecordOf(1)).ok());
  EXPECT_TRUE(store->Save(EpochRecordOf(1)).ok()) << "the same record, written already";
  ASSERT_TRUE(lost->Save(EpochRecordOf(2, 1)).ok());
  EXPECT_TRUE(store->Save(EpochRecordOf(2, 2)).ok()) << "nobody was told of the other one";
  EXPECT_TRUE(store->Save(EpochRecordOf(3)).ok());
  ASSERT_TRUE(lost->Save(EpochRecordOf(9)).ok());
  EXPECT_FALSE(store->Save(EpochRecordOf(4)).ok()) << "epochs never decrease";
  EXPECT_TRUE(store->Save(EpochRecordOf(10)).ok());
}

TEST_F(EtcdStore, ADamagedRecordIsNamedWithWhatToDo) {
  Candidate server(*etcd_, "h1:70");
  const int64_t revision = server.AwaitLeads();
  EtcdClient client(etcd_->address());
  etcdserverpb::TxnRequest request;
  etcdserverpb::PutRequest* const put = request.add_success()->mutable_request_put();
  put->set_key("jobs/a/epoch");
  put->set_value("nothing of ours");
  ASSERT_TRUE(client.Txn(request, Now() + Seconds(kPatienceSeconds)).ok());
  const Status damaged = server.Store(revision)->Load().status();
  EXPECT_EQ(damaged.code(), StatusCode::kDataLoss);
  EXPECT_THAT(Message(damaged), AllOf(HasSubstr("record jobs/a/epoch in etcd://"),
                                      HasSubstr("`etcdctl del jobs/a/epoch`")));
}

TEST_F(EtcdStore, ADeposedLeaderWritesAndReadsNothing) {
  Candidate first(*etcd_, "h1:70", kShortLeaseSeconds);
  const int64_t revision = first.AwaitLeads();
  auto store = first.Store(revision);
  ASSERT_TRUE(store->Save(EpochRecordOf(1)).ok());
  Candidate second(*etcd_, "h2:70");
  first.FallSilent();
  const int64_t next = second.AwaitLeads();
  ASSERT_GT(next, revision);
  const Status refused = store->Save(EpochRecordOf(2));
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(refused), AllOf(HasSubstr("h2:70 does"), HasSubstr("no longer leads")));
  EXPECT_EQ(store->Load().status().code(), StatusCode::kFailedPrecondition);
  auto seconds = second.Store(next);
  ASSERT_TRUE(seconds->Load().ok());
  EXPECT_EQ(seconds->Load()->epoch(), 1u);
  EXPECT_TRUE(seconds->Save(EpochRecordOf(2)).ok());
}

TEST_F(EtcdStore, WhoResignsIsFollowedAtOnce) {
  Candidate first(*etcd_, "h1:70");
  ASSERT_GT(first.AwaitLeads(), 0);
  Candidate second(*etcd_, "h2:70");
  first.Resign();
  EXPECT_GT(second.AwaitLeads(), 0);
}

TEST_F(EtcdStore, GoesOnWhicheverMemberIsKilled) {
  Candidate server(*etcd_, "h1:70");
  const int64_t revision = server.AwaitLeads();
  auto store = server.Store(revision);
  for (int member = 0; member < EtcdCluster::kMembers; ++member) {  // one of them leads
    etcd_->Kill(member);
    const Status saved = store->Save(EpochRecordOf(member + 1));
    EXPECT_TRUE(saved.ok()) << saved;
    etcd_->Start(member);
    // Until it is there again: of the others one more must not be missing.
    EtcdAddress alone = etcd_->address();
    alone.endpoints = {alone.endpoints[member]};
    EtcdClient client(alone);
    const TimePoint end = Now() + Seconds(30);
    while (!client.Get("x", Now() + Seconds(5)).ok() && Now() < end) usleep(50'000);
  }
  EXPECT_EQ(store->Load()->epoch(), 3u);
}

TEST_F(EtcdStore, AMinorityRefusesInTimeAndLeavesARecordWhole) {
  Candidate first(*etcd_, "h1:70", kShortLeaseSeconds);
  const int64_t revision = first.AwaitLeads();
  ASSERT_TRUE(first.Store(revision)->Save(EpochRecordOf(1)).ok());
  auto store = first.Store(revision, 1);
  for (int member : {0, 1}) etcd_->Signal(member, SIGSTOP);
  const Status failed = store->Save(EpochRecordOf(2));
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(failed),
              AllOf(HasSubstr(etcd_->address().endpoints[2]), HasSubstr("most of its members"),
                    HasSubstr("--coord-store etcd://")));
  const Status deposed = first.AwaitDeposed();
  EXPECT_EQ(deposed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(deposed), AllOf(HasSubstr("no longer leads jobs/a"), HasSubstr("stands by")));
  for (int member : {0, 1}) etcd_->Signal(member, SIGCONT);

  Candidate second(*etcd_, "h2:70");
  auto next = second.Store(second.AwaitLeads());
  const auto loaded = next->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->epoch() == 1 || loaded->epoch() == 2) << loaded->epoch();
  EXPECT_EQ(loaded->members_size(), 1);
  EXPECT_FALSE(store->Save(EpochRecordOf(3)).ok());
  EXPECT_TRUE(next->Save(EpochRecordOf(3)).ok());
}

TEST(EtcdAddress, IsReadOrRefusedWithAnExample) {
  const auto address = ParseEtcdAddress("etcd://127.0.0.1:1,localhost:2/jobs/a/");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->endpoints, (std::vector<std::string>{"127.0.0.1:1", "localhost:2"}));
  EXPECT_EQ(address->prefix, "jobs/a");
  EXPECT_EQ(address->text(), "etcd://127.0.0.1:1,localhost:2/jobs/a");
  EXPECT_TRUE(address->on_loopback());
  EXPECT_FALSE(ParseEtcdAddress("etcd://127.0.0.1:1,h2:1/a")->on_loopback());
  EXPECT_FALSE(ParseEtcdAddress("etcd://127.0.0.1.example:1/a")->on_loopback());
  EXPECT_TRUE(ParseEtcdAddress("etcd://[::1]:1/a")->on_loopback());
  EXPECT_EQ(ParseEtcdAddress("etcd://[fd00::1]:1/a")->text(), "etcd://[fd00::1]:1/a");
  EXPECT_THAT(Message(ParseEtcdAddress("etcds://h1:1/a").status()), HasSubstr("--etcd-tls"));
  EXPECT_THAT(Message(ParseEtcdAddress("etcd://h1:1/a", "/tls").status()),
              HasSubstr("write etcds://"));
  for (const char* wrong : {"", "http://h1:1/a", "etcd://h1:1", "etcd://h1:1/", "etcd:///a",
                            "etcd://h1/a", "etcd://h1:0/a", "etcd://h1:x/a", "etcd://h1:1,,h2:1/a",
                            "etcd://:1/a", "etcd://h1:99999/a", "etcd://fd00::1:1/a"}) {
    const auto refused = ParseEtcdAddress(wrong);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(Message(refused.status()), HasSubstr("etcd://h1:2379")) << wrong;
  }
}

}  // namespace
}  // namespace ringwood

// A server with a token, and callers without: every call of every service is refused before it does
// anything, and what lies on the disk is of no use to them either.
#include "proto/token.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor_database.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "proto/call.h"
#include "proto/job_token.h"
#include "proto/token_file.h"
#include "ringwood/v1/parts.grpc.pb.h"
#include "server/calls/call_guard.h"
#include "server/calls/call_rights.h"
#include "server/coordinator/coord_store.h"
#include "server/server.h"
#include "tests/server/peers/worker.h"
#include "tests/server/simulation/bare_call.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "the token of this job";

ServerOptions Guarded(const std::string& store = "") {
  ServerOptions options = Embedded(store);
  options.token = kToken;
  return options;
}

// "/ringwood.v1.Coordinator/Join" and all others; also some that are not there.
std::vector<std::string> AllMethods() {
  std::vector<std::string> methods = {
      "/ringwood.v1.Coordinator/NoSuchMethod", "/grpc.health.v1.Health/Watch",
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"};
  for (const CallRight& right : CallRights()) methods.emplace_back(right.method);
  return methods;
}

TEST(Token, IsAskedForByEveryMethodOfEveryService) {
  auto server = Server::Start(Guarded());
  ASSERT_TRUE(server.ok()) << server.status();
  const std::vector<std::string> methods = AllMethods();
  EXPECT_GE(methods.size(), 19u);
  for (const std::string& method : methods) {
    for (const std::string token : {"", "another", "the token of this jo"}) {
      const grpc::Status status = CallAt((*server)->port(), token, method);
      EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << method;
      EXPECT_NE(status.error_message().find("RINGWOOD_TOKEN"), std::string::npos)
          << method << ": " << status.error_message();
    }
  }
  // With the token the calls arrive, and are answered as what they are.
  EXPECT_TRUE(CallAt((*server)->port(), kToken, "/ringwood.v1.Coordinator/Status").ok());
  // Streams of gRPC's own services would stay as long as a caller likes, each on a thread or in a
  // table.
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(CallAt((*server)->port(), kToken, methods[i]).error_code(),
              grpc::StatusCode::UNIMPLEMENTED)
        << methods[i];
  }
}

std::string Issued(CallerRole role, int64_t seconds) {
  return IssueToken(kToken, role, std::time(nullptr) + seconds, Unpredictable());
}

TEST(Token, OfARoleReachesTheCallsOfThatRoleAlone) {
  auto server = Server::Start(Guarded());
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  for (const CallRight& right : CallRights()) {
    const std::string method(right.method);
    for (const CallerRole role : {kRankRole, kServerRole, kObserverRole}) {
      const grpc::Status expired = CallAt(port, Issued(role, -1), method);
      EXPECT_EQ(expired.error_code(), grpc::StatusCode::PERMISSION_DENIED) << method;
      EXPECT_NE(expired.error_message().find(CallName(method) + " has a token of the role " +
                                             RoleNames(role) + " that expired at "),
                std::string::npos)
          << expired.error_message();
      if ((right.roles & role) != 0) continue;
      const grpc::Status other = CallAt(port, Issued(role, 600), method);
      EXPECT_EQ(other.error_code(), grpc::StatusCode::PERMISSION_DENIED) << method;
      EXPECT_NE(other.error_message().find("needs a token of the role"), std::string::npos)
          << method << ": " << other.error_message();
    }
  }
  EXPECT_TRUE(CallAt(port, Issued(kObserverRole, 600), "/ringwood.v1.Coordinator/Status").ok());
}

TEST(Token, ThatHasExpiredIsRenewedInItsFileForAChannelThatStands) {
  constexpr char kStatus[] = "/ringwood.v1.Coordinator/Status";
  auto server = Server::Start(Guarded());
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string file = ::testing::TempDir() + "/renewed-token-" + std::to_string(getpid());
  const std::string expired = Issued(kObserverRole, -1);
  ASSERT_TRUE(KeepToken(file, expired).ok());
  const auto channel = OpenChannel("127.0.0.1:" + std::to_string((*server)->port()),
                                   OwnConnection().Arguments(), {expired, nullptr, file});
  EXPECT_THAT(CallOn(channel, kStatus).error_message(), HasSubstr("that expired at "));
  ASSERT_TRUE(KeepToken(file, Issued(kObserverRole, 3600)).ok());
  for (const TimePoint end = Now() + Seconds(60); !CallOn(channel, kStatus).ok();) {
    ASSERT_LT(Now(), end) << CallOn(channel, kStatus).error_message();
  }
  std::filesystem::remove(file);  // as for a moment, while it is replaced
  EXPECT_TRUE(CallOn(channel, kStatus).ok());
}

TEST(Token, OfARankJoinsAsARankAndGetsTheKeyOfTheEpoch) {
  auto server = Server::Start(Guarded());
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  Worker as_server(port, 0, 1, false, Issued(kServerRole, 600));
  const grpc::Status refused = as_server.Join();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_NE(refused.error_message().find("Join as a rank needs a token of that role, this one is "
                                         "of the role server"),
            std::string::npos)
      << refused.error_message();

  Worker a(port, 0, 2, false, Issued(kRankRole, 600)), b(port, 1, 2, false, kToken);
  JoinBoth(a, b);
  AgreeBoth(a, b);
  ExpectCommit(a, b, 1);
  EXPECT_EQ(a.joined.fabric_key().size(), 32u);
  EXPECT_EQ(a.joined.fabric_key(), b.joined.fabric_key());
}

// Says what token the first call to it brought.
class TellingStore : public v1::Parts::Service {
 public:
  TellingStore() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~TellingStore() override { server_->Shutdown(DeadlineIn(Seconds(10))); }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::future<std::string> shown() { return shown_.get_future(); }

  grpc::Status Gather(grpc::ServerContext* context, const v1::GatherRequest*,
                      grpc::ServerWriter<v1::GatheredPart>*) override {
    const auto found = context->client_metadata().find(kTokenKey);
    std::call_once(told_, [&] {
      shown_.set_value(found == context->client_metadata().end()
                           ? ""
                           : std::string(found->second.data(), found->second.size()));
    });
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "it has no disk");
  }

 private:
  int port_ = 0;
  std::once_flag told_;
  std::promise<std::string> shown_;
  std::unique_ptr<grpc::Server> server_;
};

TEST(Token, OfAServerDoesNotBringAboutThatItsBearerIsShownTheSecret) {
  const Directory directory;
  ServerOptions options = Guarded(directory.path());
  options.servers = 2;
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  TellingStore store;
  std::future<std::string> shown = store.shown();
  Worker a(port, 0, 2, false, kToken), b(port, 1, 2, false, kToken),
      further(port, 1, 0, false, Issued(kServerRole, 600));
  further.request().set_role(v1::ROLE_REDUCER);
  further.request().set_store_address(store.address());
  std::thread joins([&] { EXPECT_TRUE(further.Join().ok()); });
  JoinBoth(a, b);
  joins.join();
  (void)a.Save(10, "the weights of this");  // the other half belongs to the further store
  ASSERT_EQ(shown.wait_for(Seconds(30)), std::future_status::ready);
  const auto rights = CheckToken(kToken, shown.get(), std::time(nullptr));
  ASSERT_TRUE(rights.ok()) << rights.status();
  EXPECT_EQ(rights->roles, kServerRole);
}

TEST(Token, WhoHasAnIncarnationButNoTokenEndsNothingAndSavesNothing) {
  Directory directory;
  auto server = Server::Start(Guarded(directory.path()));
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  Worker a(port, 0, 2, false, kToken), b(port, 1, 2, false, kToken);
  JoinBoth(a, b);
  AgreeBoth(a, b);
  // The forger knows all that a member knows: its epoch, node and incarnation.
  Worker forger(port, 1, 2);
  forger.joined = b.joined;
  forger.request() = b.request();
  EXPECT_EQ(forger.Leave("forged").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(forger.Save(1'000'000'000, "forged").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  v1::Commit commit;
  EXPECT_EQ(forger.Vote(1, &commit).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  forger.Attend();  // would take the member's stream
  v1::Notice notice;
  EXPECT_FALSE(forger.Read(&notice));
  for (uint64_t round = 1; round <= 3; ++round) ExpectCommit(a, b, round);
}

std::string EverythingIn(const std::string& directory) {
  std::string all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    std::ifstream file(entry.path(), std::ios::binary);
    if (entry.is_regular_file()) all.append(std::istreambuf_iterator<char>(file), {});
  }
  return all;
}

v1::EpochRecord RecordOf(uint64_t epoch, uint64_t incarnation) {
  v1::EpochRecord record;
  record.set_epoch(epoch);
  v1::RecordedMember* member = record.add_members();
  member->set_host("a host by which the record is found");
  member->set_incarnation(incarnation);
  return record;
}

TEST(Token, IncarnationsAreNotOnTheDisk) {
  Directory directory;
  const uint64_t incarnation = 0x6d656d6265722121;
  for (uint64_t epoch = 1; epoch <= 2; ++epoch) {
    auto store = OpenCoordStore(directory.path(), kToken);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Save(RecordOf(epoch, incarnation)).ok());
    const std::string all = EverythingIn(directory.path());
    EXPECT_NE(all.find("a host by which the record is found"), std::string::npos);
    EXPECT_EQ(all.find(std::string(reinterpret_cast<const char*>(&incarnation), 8)),
              std::string::npos);
  }
  // Enough to compare with: the same for the same key and process only.
  std::vector<std::string> hashes;
  uint64_t epoch = 2;
  for (const auto& [key, who] : std::vector<std::pair<std::string, uint64_t>>{
           {kToken, incarnation}, {kToken, incarnation}, {kToken, 7}, {"another", incarnation}}) {
    auto store = OpenCoordStore(directory.path(), key);
    ASSERT_TRUE((*store)->Save(RecordOf(++epoch, who)).ok());
    store->reset();
    auto again = OpenCoordStore(directory.path(), key);
    ASSERT_TRUE(again.ok()) << again.status();
    auto record = (*again)->Load();
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->members(0).incarnation(), 0u);
    hashes.push_back(record->members(0).incarnation_hash());
  }
  EXPECT_EQ(hashes[0].size(), 32u);
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_NE(hashes[0], hashes[2]);
  EXPECT_NE(hashes[0], hashes[3]);
}

constexpr int64_t kNow = 1'790'000'000;
const std::string kTokenSecret = "5ec4e7";

// Of all services that are linked into this program, which has all of the server's.
std::vector<std::string> MethodsOfOurs() {
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  std::vector<std::string> files, methods;
  google::protobuf::DescriptorPool::internal_generated_database()->FindAllFileNames(&files);
  for (const std::string& name : files) {
    const auto* file = pool->FindFileByName(name);
    if (file == nullptr || file->package().rfind("ringwood.", 0) != 0) continue;
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const auto* method = file->service(s)->method(m);
        methods.push_back("/" + file->service(s)->full_name() + "/" + method->name());
      }
    }
  }
  return methods;
}

Status Admit(const std::string& method, std::vector<std::string_view> tokens) {
  return AdmitCall(kTokenSecret, method, tokens, kNow);
}

TEST(CallRights, EveryCallOfEveryServiceHasARow) {
  const std::vector<std::string> methods = MethodsOfOurs();
  EXPECT_GE(methods.size(), 15u);
  for (const std::string& method : methods) {
    const CallRight* right = RightOf(method);
    ASSERT_NE(right, nullptr) << method << " has no row in server/calls/call_rights.cc";
    EXPECT_NE(right->roles, 0u) << method;
  }
  std::set<std::string_view> rows;
  for (const CallRight& right : CallRights()) {
    EXPECT_TRUE(rows.insert(right.method).second) << right.method << " stands twice";
    const bool ours = right.method.rfind("/ringwood.", 0) == 0;
    const bool there = std::find(methods.begin(), methods.end(), right.method) != methods.end();
    EXPECT_TRUE(!ours || there) << right.method << " is no call any more";
  }
}

TEST(CallGuard, EveryCallIsOpenToItsRolesAloneAndTheSentenceSaysWhichItNeeds) {
  for (const CallRight& right : CallRights()) {
    const std::string method(right.method);
    EXPECT_TRUE(Admit(method, {kTokenSecret}).ok()) << method;
    for (const CallerRole role : {kRankRole, kServerRole, kObserverRole}) {
      const std::string token = IssueToken(kTokenSecret, role, kNow + 60, 1);
      const Status admitted = Admit(method, {token});
      EXPECT_EQ(admitted.ok(), (right.roles & role) != 0) << method << " as " << RoleNames(role);
      if (admitted.ok()) continue;
      EXPECT_EQ(admitted.code(), StatusCode::kPermissionDenied);
      EXPECT_THAT(Message(admitted), HasSubstr("the call " + CallName(method)));
      EXPECT_THAT(Message(admitted),
                  HasSubstr("needs a token of the role " + RoleNames(right.roles)));
      EXPECT_THAT(Message(admitted), HasSubstr("this one is of the role " + RoleNames(role)));
      EXPECT_THAT(Message(admitted), HasSubstr("ringwood token issue --role"));
    }
  }
}

TEST(CallGuard, AnObserverReadsAndNoMore) {
  const std::string token = IssueToken(kTokenSecret, kObserverRole, kNow + 60, 1);
  std::set<std::string> open;
  for (const CallRight& right : CallRights()) {
    const std::string name = CallName(right.method);
    if (Admit(std::string(right.method), {token}).ok()) open.insert(name);
  }
  for (const char* call : {"Coordinator.Join", "Coordinator.Vote", "Coordinator.Attend",
                           "Coordinator.Leave", "Store.Save", "Updates.Log"}) {
    EXPECT_EQ(open.count(call), 0u) << call;
  }
  for (const char* call : {"Coordinator.Status", "Coordinator.Pull", "Store.Hold", "Store.Load"}) {
    EXPECT_EQ(open.count(call), 1u) << call;
  }
}

TEST(CallGuard, AnExpiredTokenIsRefusedOnEveryCallWithTheTime) {
  const std::string token = IssueToken(kTokenSecret, kRankRole, kNow - 1, 1);
  for (const CallRight& right : CallRights()) {
    const Status admitted = Admit(std::string(right.method), {token});
    EXPECT_THAT(Message(admitted), HasSubstr("the call " + CallName(right.method) +
                                             " has a token of the role rank that expired at "
                                             "2026-09-21 14:13:19 UTC"));
    EXPECT_THAT(Message(admitted), HasSubstr("ringwood token issue"));
  }
}

TEST(CallGuard, OneTokenIsNeededAndNotMore) {
  const std::string vote = "/ringwood.v1.Coordinator/Vote";
  EXPECT_THAT(Message(Admit(vote, {})), HasSubstr("the call Coordinator.Vote has no token"));
  EXPECT_THAT(Message(Admit(vote, {"x"})), HasSubstr("has a wrong token: give the token of this"));
  EXPECT_THAT(Message(Admit(vote, {kTokenSecret, kTokenSecret})), HasSubstr("has 2 tokens"));
  EXPECT_THAT(Message(Admit(vote, {"x"})), Not(HasSubstr(kTokenSecret)));
}

TEST(CallGuard, CallsThatDoNotExistAreAskedForATokenToo) {
  EXPECT_THAT(Message(Admit("/ringwood.v1.Coordinator/NoSuchMethod", {})),
              HasSubstr("this call has no token"));
  EXPECT_TRUE(Admit("/ringwood.v1.Coordinator/NoSuchMethod", {kTokenSecret}).ok());
}

TEST(CallGuard, AnyRoleMayRead) {
  for (const CallerRole role : {kRankRole, kServerRole, kObserverRole}) {
    EXPECT_TRUE(AdmitReader(kTokenSecret, IssueToken(kTokenSecret, role, kNow + 1, 1), kNow).ok());
  }
  EXPECT_THAT(
      Message(AdmitReader(kTokenSecret, IssueToken(kTokenSecret, kObserverRole, kNow, 1), kNow)),
      HasSubstr("this request has a token of the role observer that expired"));
}

}  // namespace
}  // namespace ringwood

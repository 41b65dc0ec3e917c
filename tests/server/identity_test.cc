// A server with a certificate, and callers with another one, of another member, or with none: every
// call of every service is refused before it does anything.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "base/random.h"
#include "proto/call.h"
#include "proto/job_token.h"
#include "proto/token.h"
#include "server/calls/call_rights.h"
#include "server/server.h"
#include "tests/identity/issued.h"
#include "tests/server/peers/worker.h"
#include "tests/server/simulation/bare_call.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

constexpr IdentityRole kRank = IdentityRole::kRank, kServer = IdentityRole::kServer,
                       kObserver = IdentityRole::kObserver;

class CertifiedServer : public testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options = Embedded();
    options.transport = "ucx";  // as the addresses of these workers
    options.token = "token";
    options.credentials = issuer_.For(kServer, 0);
    auto started = Server::Start(options);
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    address_ = "127.0.0.1:" + std::to_string(port());
  }

  int port() const { return server_->port(); }
  Access With(std::shared_ptr<const Credentials> credentials) const {
    return {"token", std::move(credentials)};
  }

  grpc::Status Call(const Access& access, const std::string& method) {
    return CallAt(address_, access, method);
  }

  Issuer issuer_;
  std::unique_ptr<Server> server_;
  std::string address_;
};

TEST_F(CertifiedServer, ServesItsRanks) {
  Worker a(port(), 0, 2, false, With(issuer_.For(kRank, 0))),
      b(port(), 1, 2, false, With(issuer_.For(kRank, kAnySlot)));
  JoinBoth(a, b);
  AgreeBoth(a, b);
  ExpectCommit(a, b, 1);
}

TEST_F(CertifiedServer, RefusesStrangersOnEveryMethod) {
  Issuer other;
  const std::pair<Access, const char*> strangers[] = {
      {With(nullptr), "speaks TLS: give this process a certificate"},
      {With(other.For(kRank, 0)), "the certificate of the server at"},
      {With(issuer_.ExpiredFor(kRank, 0)), "expired 60 min ago"},
  };
  for (const auto& [access, sentence] : strangers) {
    for (const CallRight& right : CallRights()) {
      EXPECT_EQ(Call(access, std::string(right.method)).error_code(), grpc::StatusCode::UNAVAILABLE)
          << right.method << " for whom: " << sentence;
    }
    EXPECT_THAT(Message(WhyRefused(address_, access)), HasSubstr(sentence));
  }
  EXPECT_TRUE(WhyRefused(address_, With(issuer_.For(kRank, 0))).ok());
}

TEST_F(CertifiedServer, RefusesOtherJobsAndRolesWithASentence) {
  for (const CallRight& right : CallRights()) {
    const std::string method(right.method);
    if ((right.roles & kObserverRole) != 0) continue;
    const grpc::Status status = Call(With(issuer_.For(kObserver, 0)), method);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << method;
    EXPECT_THAT(status.error_message(), HasSubstr("this one is ringwood://job/observer/0"));
  }
  const Access next = With(issuer_.For(IdentityName{"next", kRank, 0}));
  EXPECT_EQ(Call(next, "/ringwood.v1.Coordinator/Status").error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(Message(WhyRefused(address_, next)), HasSubstr("belongs to another job"));
}

TEST_F(CertifiedServer, ARankIsOnlyWhomItsCertificateNames) {
  const Access second = With(issuer_.For(kRank, 1));
  Worker impostor(port(), 0, 2, false, second);
  const grpc::Status joined = impostor.Join();
  EXPECT_EQ(joined.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(joined.error_message(), HasSubstr("ringwood://job/rank/1 is not that of rank 0"));

  Worker a(port(), 0, 2, false, With(issuer_.For(kRank, 0))), b(port(), 1, 2, false, second);
  JoinBoth(a, b);
  AgreeBoth(a, b);
  Worker forger(port(), 0, 2, false, second);  // knows all that rank 0 knows
  forger.joined = a.joined;
  v1::Commit commit;
  const grpc::Status voted = forger.Vote(1, &commit);
  EXPECT_EQ(voted.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  ExpectCommit(a, b, 1);
}

TEST(DeploymentServer, ComparesTheJobsOfTokenAndCertificate) {
  Issuer issuer;
  ServerOptions options = Embedded();
  options.servers = 0;
  options.token = "mnist/secret";
  options.credentials = issuer.For(IdentityName{kAnyJob, kServer, 0});
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  for (const char* job : {"mnist", "cifar"}) {
    const Access access{"mnist/secret", issuer.For(IdentityName{job, kRank, 0})};
    const grpc::Status asked = CallAt((*server)->port(), access, "/ringwood.v1.Coordinator/Status");
    EXPECT_EQ(asked.ok(), std::string(job) == "mnist") << asked.error_message();
  }
}

TEST(PlaintextServer, IsNotSpokenToWithACertificate) {
  Issuer issuer;
  auto server = Server::Start(Embedded());
  ASSERT_TRUE(server.ok()) << server.status();
  const Access access{"", issuer.For(kRank, 0)};
  Worker worker((*server)->port(), 0, 1, false, access);
  EXPECT_EQ(worker.Join().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(Message(WhyRefused("127.0.0.1:" + std::to_string((*server)->port()), access)),
              HasSubstr("speaks plaintext"));
}

TEST(Listening, TakesOneAddressWithACertificateAndNotAll) {
  Issuer issuer;
  ServerOptions options;
  options.servers = 0;
  options.credentials = issuer.For(kServer, 0);
  EXPECT_TRUE(Server::Start(options).ok());  // loopback, without --insecure
  options.listen = "0.0.0.0:0";
  EXPECT_THAT(Message(Server::Start(options).status()), HasSubstr("all interfaces"));
}

// Half of it looks like a ClientHello.
TEST_F(CertifiedServer, LivesThroughGarbageAndKeepsNoneOfIt) {
  Random random(1);
  const auto annoy = [&](int times) {
    for (int i = 0; i < times; ++i) {
      const int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in name{};
      name.sin_family = AF_INET;
      name.sin_port = htons(static_cast<uint16_t>(port()));
      name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      ASSERT_EQ(connect(stranger, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
      std::string garbage =
          i % 2 == 0 ? "" : std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 9);
      for (uint64_t bytes = random.Below(3000); bytes > 0; --bytes) {
        garbage.push_back(static_cast<char>(random.Next()));
      }
      (void)send(stranger, garbage.data(), garbage.size(), MSG_NOSIGNAL);
      close(stranger);
    }
  };
  annoy(300);
  Worker a(port(), 0, 2, false, With(issuer_.For(kRank, 0))),
      b(port(), 1, 2, false, With(issuer_.For(kRank, 1)));
  JoinBoth(a, b);
  AgreeBoth(a, b);
  ExpectCommit(a, b, 1);
}

}  // namespace
}  // namespace ringwood

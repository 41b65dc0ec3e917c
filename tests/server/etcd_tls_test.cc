// etcd under TLS: three real members that ask for clients' certificates, and every way not to fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <ctime>
#include <future>

#include "base/files/whole_file.h"
#include "identity/openssl.h"
#include "tests/server/etcd/cluster.h"
#include "tests/server/peers/worker.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kDay = 86'400;
constexpr double kRefusedSeconds = 100;  // with a loaded machine; without one it takes 3 s

// An authority as etcd's operators have one: its certificates name hosts.
class HostAuthority {
 public:
  HostAuthority() {
    auto made = Authority::Make("etcd's", {Today() - 10 * kDay, Today() + 10 * kDay});
    EXPECT_TRUE(made.ok()) << made.status();
    authority_ = std::make_unique<Authority>(*std::move(made));
  }

  const std::string& certificate() const { return authority_->certificate(); }

  Leaf Issue(const std::string& names, int64_t last_second = Today() + kDay) const {
    const OpensslCertificate issuer = *CertificateFromPem("", authority_->certificate());
    const OpensslKey issuer_key = *KeyFromPem("", authority_->key());
    const OpensslKey key(EVP_EC_gen("P-256"));
    const OpensslCertificate made(X509_new());
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 4711);
    X509_set_pubkey(made.get(), key.get());
    EXPECT_TRUE(SetValidity(made.get(), {Today() - kDay, last_second}).ok());
    X509_set_issuer_name(made.get(), X509_get_subject_name(issuer.get()));
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer.get(), made.get(), nullptr, nullptr, 0);
    for (const auto& [id, value] :
         {std::pair(NID_ext_key_usage, std::string("serverAuth,clientAuth")),
          std::pair(NID_subject_alt_name, names)}) {
      X509_EXTENSION* const extension = X509V3_EXT_nconf_nid(nullptr, &context, id, value.c_str());
      EXPECT_EQ(X509_add_ext(made.get(), extension, -1), 1);
      X509_EXTENSION_free(extension);
    }
    EXPECT_GT(X509_sign(made.get(), issuer_key.get(), EVP_sha256()), 0);
    return {*ToPem(made.get()), *ToPem(key.get())};
  }

  static int64_t Today() { return std::time(nullptr); }

 private:
  std::unique_ptr<Authority> authority_;
};

class EtcdTls : public testing::Test {
 protected:
  // One cluster for all tests, which leave it as it was.
  static void SetUpTestSuite() {
    if (EtcdProgram().empty()) return;
    root_ = new std::string(testing::TempDir() + "/ringwood-etcd-tls-XXXXXX");
    ASSERT_NE(mkdtemp(root_->data()), nullptr);
    authority_ = new HostAuthority();
    const std::string served = Folder("served", *authority_, kMembers);
    auto client = HostCredentials::Open(Folder("client", *authority_, "URI:a:client"), "etcd",
                                        HostAuthority::Today());
    ASSERT_TRUE(client.ok()) << client.status();
    etcd_ = new EtcdCluster("job", served, *client);
  }
  static void TearDownTestSuite() {
    delete etcd_;
    delete authority_;
    if (root_ != nullptr) std::filesystem::remove_all(*root_);
    delete root_;
  }
  void SetUp() override {
    if (EtcdProgram().empty()) GTEST_SKIP() << "etcd is not installed (Debian: etcd-server)";
    ASSERT_TRUE(etcd_->ready().ok()) << etcd_->ready();
  }

  static std::string Folder(const std::string& name, const HostAuthority& issuer,
                            const std::string& names) {
    const std::string folder = *root_ + "/" + name;
    EXPECT_TRUE(WriteIdentity(folder, issuer.certificate(), issuer.Issue(names)).ok());
    return folder;
  }

  struct Running {
    std::promise<int> serves;        // the port
    std::unique_ptr<Server> server;  // last: it calls back
  };
  static std::unique_ptr<Running> Start(const std::string& folder,
                                        const std::string& url = etcd_->address().text()) {
    auto running = std::make_unique<Running>();
    ServerOptions options = Embedded();
    options.coord_store = url;
    options.etcd_tls = folder;
    options.token = "token";
    options.failure_timeout_seconds = 10;
    options.serves = [raw = running.get()](int port) { raw->serves.set_value(port); };
    auto server = Server::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    if (server.ok()) running->server = *std::move(server);
    return running;
  }
  static int PortOf(Running* running) {
    auto serves = running->serves.get_future();
    if (serves.wait_for(std::chrono::seconds(60)) != std::future_status::ready) return 0;
    return serves.get();
  }
  // Why a server that was started with it ends.
  static std::string Refusal(const std::string& folder,
                             const std::string& url = etcd_->address().text()) {
    const auto running = Start(folder, url);
    const Status over = running->server->Wait(Seconds(kRefusedSeconds));
    EXPECT_EQ(over.code(), StatusCode::kPermissionDenied) << over;
    return Message(over);
  }
  static std::string Plain(std::string url) { return url.replace(0, 5, "etcd"); }

  static constexpr char kMembers[] = "DNS:localhost,IP:127.0.0.1";
  static inline std::string* root_ = nullptr;
  static inline HostAuthority* authority_ = nullptr;
  static inline EtcdCluster* etcd_ = nullptr;
};

TEST_F(EtcdTls, AStandbyTakesOverWithTheRecordAndAMemberMayDie) {
  auto first = Start(*root_ + "/client");
  const int port = PortOf(first.get());
  ASSERT_NE(port, 0);
  auto second = Start(*root_ + "/client");
  {
    Worker a(port, 0, 2, false, "token"), b(port, 1, 2, false, "token");
    JoinBoth(a, b);
    EXPECT_EQ(a.joined.epoch(), 1u);
    EXPECT_TRUE(a.Leave().ok() && b.Leave().ok());
  }
  etcd_->Kill(0);
  first->server->Stop();
  const int next = PortOf(second.get());
  etcd_->Start(0);
  ASSERT_NE(next, 0);
  Worker a(next, 0, 2, false, "token"), b(next, 1, 2, false, "token");
  JoinBoth(a, b);
  EXPECT_EQ(a.joined.epoch(), 2u) << "the number of the epoch came with the record";
}

TEST_F(EtcdTls, AMemberOfAnotherAuthorityIsRefused) {
  const HostAuthority other;
  EXPECT_THAT(Refusal(Folder("other", other, "URI:a:client")),
              AllOf(HasSubstr("etcd at 127.0.0.1:"), HasSubstr("does not count"),
                    HasSubstr("/other/ca.pem")));
}

TEST_F(EtcdTls, AClientOfAnotherAuthorityIsRefused) {
  const HostAuthority other;
  const std::string folder = *root_ + "/stranger";
  ASSERT_TRUE(WriteIdentity(folder, authority_->certificate(), other.Issue("URI:a:client")).ok());
  EXPECT_THAT(Refusal(folder),
              AllOf(HasSubstr("does not take the certificate"), HasSubstr("/stranger/cert.pem")));
}

TEST_F(EtcdTls, WhoShowsNoCertificateIsRefused) {
  const std::string folder = *root_ + "/nobody";
  ASSERT_TRUE(MakePrivateFolder(folder).ok());
  ASSERT_TRUE(WriteWhole(folder + "/ca.pem", authority_->certificate(), 0644).ok());
  EXPECT_THAT(Refusal(folder), AllOf(HasSubstr("asks for a client's certificate"),
                                     HasSubstr("cert.pem and key.pem")));
}

TEST_F(EtcdTls, PlaintextToATlsMemberIsRefused) {
  EXPECT_THAT(Refusal("", Plain(etcd_->address().text())),
              AllOf(HasSubstr("speaks TLS"), HasSubstr("etcds:// and --etcd-tls")));
}

TEST_F(EtcdTls, TlsToAPlaintextMemberIsRefused) {
  EtcdCluster plain("job");
  ASSERT_TRUE(plain.ready().ok()) << plain.ready();
  EXPECT_THAT(Refusal(*root_ + "/client", "etcds" + plain.address().text().substr(4)),
              HasSubstr("speaks plaintext, and this process was told to speak TLS"));
}

TEST_F(EtcdTls, AMembersCertificateThatExpiredOrNamesAnotherHostIsRefused) {
  const std::string served = *root_ + "/served";
  const auto serve = [&](const Leaf& leaf) {
    return WriteIdentity(served, authority_->certificate(), leaf).ok();
  };
  ASSERT_TRUE(serve(authority_->Issue(kMembers, HostAuthority::Today() - 3600)));
  EXPECT_THAT(Refusal(*root_ + "/client"),
              AllOf(HasSubstr("does not count"), HasSubstr("expired")));
  ASSERT_TRUE(serve(authority_->Issue("DNS:another.example,IP:127.0.0.2")));
  EXPECT_THAT(Refusal(*root_ + "/client"),
              AllOf(HasSubstr("does not count"), HasSubstr("IP address mismatch")));
  ASSERT_TRUE(serve(authority_->Issue(kMembers)));
}

TEST_F(EtcdTls, TheFolderIsCheckedBeforeEtcdIsAsked) {
  const std::string url = etcd_->address().text();
  const auto refused = [&](const std::string& folder) {
    ServerOptions options = Embedded();
    options.coord_store = url;
    options.etcd_tls = folder;
    const auto server = Server::Start(options);
    EXPECT_FALSE(server.ok());
    return server.ok() ? "" : Message(server.status());
  };
  EXPECT_THAT(refused(""), HasSubstr("--etcd-tls"));
  EXPECT_THAT(refused(*root_ + "/none"), HasSubstr("there is no " + *root_ + "/none/ca.pem"));
  const std::string folder = Folder("checked", *authority_, "URI:a:client");
  ASSERT_EQ(chmod((folder + "/key.pem").c_str(), 0644), 0);
  EXPECT_THAT(refused(folder), HasSubstr("can be read by others"));
  ASSERT_EQ(unlink((folder + "/key.pem").c_str()), 0);
  EXPECT_THAT(refused(folder), HasSubstr("one of cert.pem and key.pem"));
  const std::string late = *root_ + "/late";
  ASSERT_TRUE(WriteIdentity(late, authority_->certificate(),
                            authority_->Issue("URI:a:client", HostAuthority::Today() - 3600))
                  .ok());
  EXPECT_THAT(refused(late), AllOf(HasSubstr("/late/cert.pem"), HasSubstr("expired")));
}

}  // namespace
}  // namespace ringwood

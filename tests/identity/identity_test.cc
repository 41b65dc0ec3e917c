#include "identity/identity.h"

#include <gmock/gmock.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/files/whole_file.h"
#include "identity/authority.h"
#include "identity/credentials.h"
#include "identity/openssl.h"
#include "identity/private_file.h"

namespace ringwood {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kDay = 86400;

class IdentityFolder : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ringwood-identity-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  Authority MakeAuthority() {
    auto made = Authority::Make("test", {now_ - kDay, now_ + 10 * kDay});
    EXPECT_TRUE(made.ok()) << made.status();
    return *made;
  }
  Leaf Issue(const Authority& authority, Validity validity) {
    auto leaf = authority.Issue(name_, validity);
    EXPECT_TRUE(leaf.ok()) << leaf.status();
    return *leaf;
  }
  Leaf Issue(const Authority& authority) { return Issue(authority, {now_ - 60, now_ + kDay}); }
  std::string Write(const std::string& authority, const Leaf& leaf) {
    const std::string folder = root_ + "/identity";
    const Status written = WriteIdentity(folder, authority, leaf);
    EXPECT_TRUE(written.ok()) << written;
    return folder;
  }
  std::string Why(const std::string& folder) {
    return Message(ReadIdentity(folder, now_).status());
  }

  const int64_t now_ = std::time(nullptr);
  const IdentityName name_{"job", IdentityRole::kRank, 3};
  std::string root_;
};

TEST_F(IdentityFolder, IsReadAsItWasIssued) {
  const Authority authority = MakeAuthority();
  const auto identity = ReadIdentity(Write(authority.certificate(), Issue(authority)), now_);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->name, name_);
  EXPECT_EQ(identity->validity, (Validity{now_ - 60, now_ + kDay}));
}

TEST_F(IdentityFolder, AHandshakeThatFailsAgainAndAgainIsSaidOnce) {
  const Authority authority = MakeAuthority();
  ASSERT_TRUE(Credentials::Open(Write(authority.certificate(), Issue(authority)), now_).ok());
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);  // as grpc_init does
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    gpr_log(GPR_ERROR, "Handshake failed: one reason");
    gpr_log(GPR_ERROR, "Handshake failed: another");
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
  EXPECT_THAT(said, AllOf(HasSubstr("one reason"), HasSubstr("another")));
}

TEST_F(IdentityFolder, IsItsOwnersAlone) {
  const Authority authority = MakeAuthority();
  const std::string folder = Write(authority.certificate(), Issue(authority));
  struct stat about {};
  ASSERT_EQ(stat(folder.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0700u);
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    ASSERT_EQ(stat(file.path().c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 07777, 0600u) << file.path();
  }
}

TEST_F(IdentityFolder, AKeyThatOthersReadIsRefused) {
  const Authority authority = MakeAuthority();
  const std::string folder = Write(authority.certificate(), Issue(authority));
  for (const int mode : {0640, 0604, 0660, 0644}) {
    ASSERT_EQ(chmod((folder + "/key.pem").c_str(), mode), 0);
    EXPECT_THAT(Why(folder), AllOf(HasSubstr("key.pem can be read by others"), HasSubstr("chmod")));
  }
}

TEST_F(IdentityFolder, AFolderThatOthersReadGetsNoKey) {
  const Authority authority = MakeAuthority();
  const std::string folder = root_ + "/open";
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  EXPECT_THAT(Message(WriteIdentity(folder, authority.certificate(), Issue(authority))),
              HasSubstr("chmod 700"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/key.pem"));
}

TEST_F(IdentityFolder, AnotherAuthoritysCertificateIsRefused) {
  const Authority authority = MakeAuthority(), other = MakeAuthority();
  EXPECT_THAT(Why(Write(other.certificate(), Issue(authority))),
              AllOf(HasSubstr("cert.pem was not issued by the authority in"), HasSubstr("ca.pem")));
}

TEST_F(IdentityFolder, CertificatesCountOnlyInTheirTime) {
  const Authority authority = MakeAuthority();
  EXPECT_THAT(Why(Write(authority.certificate(), Issue(authority, {now_ - 7200, now_ - 3600}))),
              AllOf(HasSubstr("cert.pem expired 60 min ago"), HasSubstr("ringwood ca issue")));
  EXPECT_THAT(Why(Write(authority.certificate(), Issue(authority, {now_ + 7200, now_ + 9000}))),
              AllOf(HasSubstr("cert.pem is not yet valid"), HasSubstr("clock")));
}

TEST_F(IdentityFolder, ALeafDoesNotOutlastItsAuthority) {
  const Authority authority = MakeAuthority();
  const std::string folder =
      Write(authority.certificate(), Issue(authority, {now_ - 60, now_ + 100 * kDay}));
  const auto identity = ReadIdentity(folder, now_);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->validity.until, now_ + 10 * kDay);
  EXPECT_THAT(Message(ReadIdentity(folder, now_ + 11 * kDay).status()),
              HasSubstr("ca.pem expired"));
}

TEST_F(IdentityFolder, AnotherCertificatesKeyIsRefused) {
  const Authority authority = MakeAuthority();
  Leaf mixed = Issue(authority);
  mixed.key = Issue(authority).key;
  EXPECT_THAT(Why(Write(authority.certificate(), mixed)),
              HasSubstr("key.pem is not the key of the certificate"));
}

TEST_F(IdentityFolder, ARenewedCertificateKeepsItsKey) {
  const Authority authority = MakeAuthority();
  const Leaf leaf = Issue(authority);
  const std::string folder = Write(authority.certificate(), leaf);
  const auto renewed = authority.Renew(name_, leaf.key, {now_, now_ + 2 * kDay});
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  ASSERT_TRUE(ReplaceCertificate(folder, *renewed).ok());
  const auto identity = ReadIdentity(folder, now_);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->validity.until, now_ + 2 * kDay);
}

TEST_F(IdentityFolder, ALeafIssuesNothing) {
  const Authority authority = MakeAuthority();
  const Leaf leaf = Issue(authority);
  EXPECT_THAT(Message(Authority::Read(leaf.certificate, leaf.key).status()),
              HasSubstr("not an authority's"));
  EXPECT_THAT(Message(CheckIssued("x", leaf.certificate, "leaf", leaf.certificate, now_)),
              HasSubstr("no authority's certificate"));
}

// As tools of others make them: signed by `issuer`, or null: by itself.
struct MadeAuthority {
  MadeAuthority(const char* name, const MadeAuthority* issuer, const Validity& validity)
      : key(EVP_EC_gen("P-256")), certificate(X509_new()) {
    X509* const by = issuer == nullptr ? certificate.get() : issuer->certificate.get();
    X509_set_version(certificate.get(), 2);
    X509_set_pubkey(certificate.get(), key.get());
    EXPECT_TRUE(SetValidity(certificate.get(), validity).ok());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(by));
    X509V3_CTX context;
    X509V3_set_ctx(&context, by, certificate.get(), nullptr, nullptr, 0);
    for (const auto& [id, value] : {std::pair(NID_basic_constraints, "critical,CA:TRUE"),
                                    std::pair(NID_subject_key_identifier, "hash")}) {
      X509_EXTENSION* const extension = X509V3_EXT_nconf_nid(nullptr, &context, id, value);
      EXPECT_EQ(X509_add_ext(certificate.get(), extension, -1), 1);
      X509_EXTENSION_free(extension);
    }
    EXPECT_GT(X509_sign(certificate.get(), issuer == nullptr ? key.get() : issuer->key.get(),
                        EVP_sha256()),
              0);
  }
  std::string pem() const { return *ToPem(certificate.get()); }

  OpensslKey key;
  OpensslCertificate certificate;
};

TEST_F(IdentityFolder, AnAuthorityBetweenStandsBehindTheCertificate) {
  const Validity valid{now_ - kDay, now_ + kDay}, over{now_ - kDay, now_ - 7200};
  const MadeAuthority root("root", nullptr, valid), between("between", &root, valid),
      expired("expired", &root, over);
  Leaf leaf = Issue(*Authority::Read(between.pem(), *ToPem(between.key.get())));
  EXPECT_THAT(Why(Write(root.pem(), leaf)), HasSubstr("was not issued by the authority in"));
  leaf.certificate += between.pem();
  const auto identity = ReadIdentity(Write(root.pem(), leaf), now_);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->name, name_);

  const auto authority = Authority::Read(expired.pem(), *ToPem(expired.key.get()));
  Leaf late = Issue(*authority, {now_ - 10800, now_ + 60});
  late.certificate += expired.pem();
  EXPECT_THAT(Why(Write(root.pem(), late)), HasSubstr("cert.pem expired 2 h ago"));
}

// While a job's authority is replaced by another both count.
TEST_F(IdentityFolder, SeveralAuthoritiesAreTrusted) {
  const Authority one = MakeAuthority(), other = MakeAuthority(), third = MakeAuthority();
  const std::string both = one.certificate() + other.certificate();
  for (const Authority& authority : {one, other}) {
    const auto identity = ReadIdentity(Write(both, Issue(authority)), now_);
    EXPECT_TRUE(identity.ok()) << identity.status();
  }
  EXPECT_THAT(Why(Write(both, Issue(third))), HasSubstr("was not issued by the authority in"));
  const std::string damaged = one.certificate() + other.certificate().substr(0, 200);
  EXPECT_THAT(Why(Write(damaged, Issue(one))), HasSubstr("a damaged certificate beside good"));
}

TEST_F(IdentityFolder, AnAuthorityIsReadBack) {
  const Authority authority = MakeAuthority();
  const auto again = Authority::Read(authority.certificate(), authority.key());
  ASSERT_TRUE(again.ok()) << again.status();
  const Leaf leaf = Issue(*again);
  EXPECT_TRUE(
      CheckIssued("leaf", leaf.certificate, "authority", authority.certificate(), now_).ok());
  EXPECT_THAT(Message(Authority::Read(authority.certificate(), MakeAuthority().key()).status()),
              HasSubstr("does not belong"));
}

TEST_F(IdentityFolder, MissingAndForeignFilesAreNamed) {
  const Authority authority = MakeAuthority();
  const Leaf leaf = Issue(authority);
  for (const char* file : {"ca.pem", "cert.pem", "key.pem"}) {
    const std::string folder = Write(authority.certificate(), leaf), path = folder + "/" + file;
    std::filesystem::remove(path);
    EXPECT_THAT(Why(folder), AllOf(HasSubstr(path), HasSubstr("ringwood ca issue")));
    ASSERT_TRUE(WriteWhole(path, "hello", 0600).ok());
    EXPECT_THAT(Why(folder), AllOf(HasSubstr(path), HasSubstr("PEM")));
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_THAT(Why(folder), HasSubstr("is not a file"));
    std::filesystem::remove(path);
  }
}

TEST_F(IdentityFolder, WritesFollowNoLink) {
  const Authority authority = MakeAuthority();
  const Leaf leaf = Issue(authority);
  const std::string folder = Write(authority.certificate(), leaf), target = root_ + "/target";
  ASSERT_TRUE(WriteWhole(target, "mine", 0600).ok());
  std::filesystem::create_symlink(target, folder + "/cert.pem.new");
  ASSERT_TRUE(ReplaceCertificate(folder, leaf.certificate).ok());
  EXPECT_EQ(*ReadPemFile(target, true), "mine");
}

TEST_F(IdentityFolder, WhatALinkNamesIsReplacedAndNotTheLink) {
  const std::string target = root_ + "/target", link = root_ + "/link";
  std::filesystem::create_symlink("target", link);
  for (const char* text : {"none was there", "one was there"}) {
    ASSERT_TRUE(WriteWhole(link, text, 0600).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_EQ(*ReadPemFile(target, true), text);
  }
}

TEST_F(IdentityFolder, NoFileTakesThePlaceOfADevice) {
  const std::string folder = root_;
  const std::string pipe = folder + "/pipe", link = folder + "/link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(pipe, link);
  for (const std::string& path : {pipe, link}) {
    EXPECT_THAT(Message(WriteWhole(path, "hello", 0600)), HasSubstr("no regular file")) << path;
  }
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

TEST_F(IdentityFolder, ALongFileIsNoCertificate) {
  const std::string path = root_ + "/long";
  ASSERT_TRUE(WriteWhole(path, std::string((256 << 10) + 1, '-'), 0600).ok());
  EXPECT_THAT(Message(ReadPemFile(path, false).status()), HasSubstr("is no small file"));
}

TEST(PrivateFile, IsOneThatOnlyItsOwnerCanRead) {
  const uid_t user = geteuid(), another = user + 1;
  EXPECT_TRUE(IsPrivate({"", user, 0600}));
  EXPECT_FALSE(IsPrivate({"", user, 0604}));
  EXPECT_FALSE(IsPrivate({"", another, 0600}));
  EXPECT_EQ(IsPrivate({"", 0, 0640}), user != 0);
  EXPECT_TRUE(IsPrivateOrAnothers({"", another, 0644}));
  EXPECT_FALSE(IsPrivateOrAnothers({"", user, 0640}));
}

}  // namespace
}  // namespace ringwood

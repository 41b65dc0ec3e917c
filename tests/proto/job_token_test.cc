#include "proto/job_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "proto/token_file.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kNow = 1'790'000'000;  // 2026-09-21 14:13:20 UTC
const std::string kSecret = "1b5f0c0ffee";

std::string TextOf(const StatusOr<TokenRights>& rights) {
  EXPECT_EQ(rights.status().code(), StatusCode::kPermissionDenied) << rights.status();
  return Message(rights.status());
}

TEST(JobToken, TheSecretMayDoAllAndNeverExpires) {
  const auto rights = CheckToken(kSecret, kSecret, INT64_MAX);
  ASSERT_TRUE(rights.ok()) << rights.status();
  EXPECT_EQ(rights->roles, kEveryRole);
  EXPECT_EQ(rights->expires_unix_seconds, 0);
}

TEST(JobToken, IsOfItsRoleUntilItExpires) {
  for (const CallerRole role : {kRankRole, kServerRole, kObserverRole}) {
    const std::string token = IssueToken(kSecret, role, kNow + 10, 7);
    const auto rights = CheckToken(kSecret, token, kNow + 9);
    ASSERT_TRUE(rights.ok()) << rights.status();
    EXPECT_EQ(rights->roles, role);
    EXPECT_EQ(ClaimedRoles(token), role);
    EXPECT_EQ(rights->expires_unix_seconds, kNow + 10);
    EXPECT_THAT(TextOf(CheckToken(kSecret, token, kNow + 10)),
                HasSubstr("the role " + RoleNames(role) + " that expired at 2026-09-21 14:13:30"));
  }
}

TEST(JobToken, NoChangedByteIsAccepted) {
  const std::string token = IssueToken(kSecret, kObserverRole, kNow + 10, 7);
  EXPECT_THAT(token, Not(HasSubstr(kSecret)));
  for (size_t i = 0; i < token.size(); ++i) {
    for (const char other : {'0', '1', '.', '/', 'x'}) {
      std::string changed = token;
      changed[i] = other;
      if (changed == token) continue;
      EXPECT_EQ(TextOf(CheckToken(kSecret, changed, kNow)), "a wrong token") << changed;
    }
  }
  for (size_t length = 0; length < token.size(); ++length) {
    EXPECT_EQ(TextOf(CheckToken(kSecret, token.substr(0, length), kNow)), "a wrong token");
  }
  EXPECT_EQ(TextOf(CheckToken("another", token, kNow)), "a wrong token");
  EXPECT_EQ(TextOf(CheckToken(kSecret, std::string(2000, '.'), kNow)), "a wrong token");
}

TEST(JobToken, RolesHaveNames) {
  EXPECT_EQ(*ParseRole("server"), kServerRole);
  EXPECT_FALSE(ParseRole("admin").ok());
  EXPECT_EQ(RoleNames(kRankRole | kServerRole), "rank or server");
  EXPECT_EQ(RoleNames(kEveryRole), "rank, server or observer");
}

TEST(JobToken, OfADeploymentNamesItsJobAndIsOfNoOther) {
  const std::string a = JobSecret("deployment", "a"), b = JobSecret("deployment", "b");
  EXPECT_EQ(JobOfToken(a), "a");
  EXPECT_EQ(a.size(), 2 + 64u);
  const std::string token = IssueToken(a, kRankRole, kNow + 10, 7);
  EXPECT_EQ(JobOfToken(token), "a");
  EXPECT_TRUE(CheckToken(a, token, kNow).ok());
  EXPECT_EQ(TextOf(CheckToken(b, token, kNow)), "a wrong token");
  EXPECT_EQ(TextOf(CheckToken(b, "b" + token.substr(1), kNow)), "a wrong token");
  EXPECT_EQ(ClaimedRoles(token), kRankRole);
  EXPECT_EQ(ClaimedRoles(a), kEveryRole);
}

TEST(JobToken, NamesOfJobsAreWordsThatFilesMayHave) {
  for (const char* good : {"a", "resnet-50_b", "0123456789"}) EXPECT_TRUE(CheckJobName(good).ok());
  for (const std::string& bad :
       {std::string(), std::string("a/b"), std::string(".."), std::string("a b"),
        std::string(65, 'a'), std::string("a\0b", 3)}) {
    EXPECT_FALSE(CheckJobName(bad).ok()) << bad;
  }
  EXPECT_EQ(JobOfToken("../x"), "");
  EXPECT_EQ(JobOfToken("no slash"), "");
}

TEST(JobToken, KeysOfOtherPurposesAreOtherKeys) {
  EXPECT_EQ(DerivedKey("s", "a").size(), 32u);
  EXPECT_NE(DerivedKey("s", "a"), DerivedKey("s", "b"));
  EXPECT_NE(DerivedKey("s", "a"), DerivedKey("t", "a"));
  EXPECT_NE(NewSecret(), NewSecret());
}

class TokenFileTest : public testing::Test {
 protected:
  TokenFileTest() {
    std::string pattern = testing::TempDir() + "/ringwood-token-XXXXXX";
    file_ = mkdtemp(pattern.data());
    file_ += "/token";
  }
  ~TokenFileTest() override {
    unlink(file_.c_str());
    rmdir(file_.substr(0, file_.rfind('/')).c_str());
  }
  void Write(const std::string& text, mode_t mode) {
    std::ofstream(file_) << text;
    ASSERT_EQ(chmod(file_.c_str(), mode), 0);
  }
  std::string Why() {
    const auto read = ReadTokenFile("--token-file", file_);
    EXPECT_FALSE(read.ok());
    return Message(read.status());
  }

  std::string file_;
};

TEST_F(TokenFileTest, IsReadWhereItsOwnerAloneCanReadIt) {
  Write("\n secret\n", 0600);
  EXPECT_EQ(*ReadTokenFile("--token-file", file_), "secret");
  Write("secret", 0400);
  EXPECT_EQ(*ReadTokenFile("--token-file", file_), "secret");
}

TEST_F(TokenFileTest, IsRefusedWhereOthersCanReadItAndNothingOfItIsSaid) {
  for (const mode_t mode : {0640, 0604, 0666}) {
    Write("secret", mode);
    const std::string why = Why();
    EXPECT_THAT(why, HasSubstr("others can read " + file_));
    EXPECT_THAT(why, HasSubstr("chmod 600"));
    EXPECT_THAT(why, Not(HasSubstr("secret")));
  }
}

TEST_F(TokenFileTest, WithoutATokenIsNamed) {
  EXPECT_THAT(Why(), HasSubstr("cannot read " + file_));
  Write(" \n", 0600);
  EXPECT_THAT(Why(), HasSubstr("no token in " + file_));
  unlink(file_.c_str());
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT(Why(), HasSubstr("is not a file"));
}

TEST_F(TokenFileTest, IsNotCutWhereItIsTooLong) {
  Write(std::string(4096, 'a'), 0600);
  EXPECT_EQ(ReadTokenFile("--token-file", file_)->size(), 4096u);
  Write(std::string(4097, 'a'), 0600);
  EXPECT_THAT(Why(), HasSubstr(file_ + " is longer than 4096 bytes"));
}

TEST_F(TokenFileTest, IsKeptForThisUserAlone) {
  Write("an older one, for all", 0644);
  ASSERT_TRUE(KeepToken(file_, "newer").ok());
  EXPECT_EQ(*ReadTokenFile("x", file_), "newer");
}

}  // namespace
}  // namespace ringwood

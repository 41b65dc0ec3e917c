// `ringwood ca` as a person uses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CaCommand, IssuesWhatItCanRead) {
  TemporaryDirectory directory;
  const std::string authority = directory.path() + "/ca", out = directory.path() + "/ranks";
  const Finished made = RunProgram({"ca", "init", authority});
  ASSERT_EQ(made.code, 0) << made.err;
  const Finished issued = RunProgram({"ca", "issue", authority, "--job", "mnist", "--role", "rank",
                                      "--slot", "0-2", "--out", out});
  ASSERT_EQ(issued.code, 0) << issued.err;
  EXPECT_THAT(issued.out, HasSubstr("ringwood://mnist/rank/2"));
  const Finished shown = RunProgram({"ca", "show", out + "/rank-1"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("ringwood://mnist/rank/1"), HasSubstr("valid from")));
  for (const char* secret : {"/ca/ca-key.pem", "/ranks/rank-0/key.pem"}) {
    struct stat about {};
    ASSERT_EQ(stat((directory.path() + secret).c_str(), &about), 0) << secret;
    EXPECT_EQ(about.st_mode & 0077, 0u) << secret;
  }
}

TEST(CaCommand, ASecondAuthorityDoesNotReplaceTheFirst) {
  TemporaryDirectory directory;
  const std::string authority = directory.path() + "/ca";
  ASSERT_EQ(RunProgram({"ca", "init", authority}).code, 0);
  const std::string before = directory.Read("ca/ca.pem");
  const Finished again = RunProgram({"ca", "init", authority});
  EXPECT_EQ(again.code, 78);
  EXPECT_THAT(again.err, HasSubstr("name another folder"));
  EXPECT_EQ(directory.Read("ca/ca.pem"), before);
}

TEST(CaCommand, SaysHowLongACertificateIsValid) {
  TemporaryDirectory directory;
  const std::string authority = directory.path() + "/ca", out = directory.path() + "/rank";
  ASSERT_EQ(RunProgram({"ca", "init", authority, "--days", "10"}).code, 0);
  for (const char* days : {"5", "100"}) {
    const Finished issued =
        RunProgram({"ca", "issue", authority, "--role", "rank", "--out", out, "--days", days});
    ASSERT_EQ(issued.code, 0) << issued.err;
    const std::string shown = RunProgram({"ca", "show", out}).out;
    const std::string until = shown.substr(shown.find(" to ") + 4, strlen("2026-01-01 00:00 UTC"));
    EXPECT_THAT(issued.out, HasSubstr("valid until " + until));
    const bool cut = issued.out.find("when the authority ends") != std::string::npos;
    EXPECT_EQ(cut, std::string(days) == "100");
  }
}

TEST(CaCommand, AnAuthorityThatCannotBeFinishedLeavesNoKey) {
  TemporaryDirectory directory;
  const std::string authority = directory.path() + "/ca";
  std::filesystem::create_directories(authority + "/ca.pem");  // no certificate can be written
  std::filesystem::permissions(authority, std::filesystem::perms::owner_all);
  const Finished failed = RunProgram({"ca", "init", authority});
  EXPECT_EQ(failed.code, 78) << failed.err;
  EXPECT_THAT(failed.err, HasSubstr("ca.pem"));
  EXPECT_FALSE(std::filesystem::exists(authority + "/ca-key.pem"));
  std::filesystem::remove(authority + "/ca.pem");
  EXPECT_EQ(RunProgram({"ca", "init", authority}).code, 0);
}

TEST(CaCommand, AKeyAloneIsOfAnAuthorityThatWasNotFinished) {
  TemporaryDirectory directory;
  const std::string authority = directory.path() + "/ca";
  ASSERT_EQ(RunProgram({"ca", "init", authority}).code, 0);
  std::filesystem::remove(authority + "/ca.pem");
  const Finished again = RunProgram({"ca", "init", authority});
  EXPECT_EQ(again.code, 78);
  EXPECT_THAT(again.err, AllOf(HasSubstr("was not finished"), HasSubstr("remove the key")));
}

TEST(CaCommand, NamesWhatItCannotIssue) {
  TemporaryDirectory directory;
  const std::string authority = directory.path() + "/ca", out = directory.path() + "/out";
  ASSERT_EQ(RunProgram({"ca", "init", authority}).code, 0);
  const auto issue = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"ca", "issue", authority, "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    const Finished finished = RunProgram(words);
    EXPECT_EQ(finished.code, 78);
    return finished.err;
  };
  EXPECT_THAT(issue({"--role", "rank", "--slot", "3-1"}), HasSubstr("--slot 3-1"));
  EXPECT_THAT(issue({"--role", "rank", "--slot", "70000"}), HasSubstr("--slot 70000"));
  EXPECT_THAT(issue({"--role", "rank", "--job", "a/b"}), HasSubstr("no name of a job"));
  EXPECT_THAT(issue({"--role", "rank", "--job", "any"}), HasSubstr("only a server"));
  EXPECT_FALSE(std::filesystem::exists(out + "/key.pem"));
}

}  // namespace
}  // namespace ringwood

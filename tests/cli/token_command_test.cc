// `ringwood token` as a person uses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "proto/job_token.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(TokenCommand, ASecretThatIsThereIsNotReplaced) {
  const TemporaryDirectory directory;
  const std::string secret = directory.path() + "/secret", job = directory.path() + "/job";
  ASSERT_EQ(RunProgram({"token", "new", "--out", secret}).code, 0);
  ASSERT_EQ(RunProgram({"token", "job", "a", "--token-file", secret, "--out", job}).code, 0);
  const std::string first = directory.Read("secret"), of_job = directory.Read("job");
  EXPECT_THAT(of_job, StartsWith("a/"));
  for (const auto& words : {std::vector<std::string>{"token", "new", "--out", secret},
                            {"token", "new", "--out", job},
                            {"token", "job", "b", "--token-file", secret, "--out", job}}) {
    const Finished again = RunProgram(words);
    EXPECT_EQ(again.code, 78) << again.err;
    EXPECT_THAT(again.err, HasSubstr("is there"));
  }
  EXPECT_EQ(directory.Read("secret"), first);
  EXPECT_EQ(directory.Read("job"), of_job);
}

TEST(TokenCommand, ATokenIsRenewedInItsFile) {
  const TemporaryDirectory directory;
  const std::string secret = directory.path() + "/secret", token = directory.path() + "/token";
  ASSERT_EQ(RunProgram({"token", "new", "--out", secret}).code, 0);
  const std::vector<std::string> issue = {"token", "issue", "--token-file", secret, "--out", token};
  ASSERT_EQ(RunProgram(issue).code, 0);
  const std::string first = directory.Read("token");
  const Finished again = RunProgram(issue);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(directory.Read("token"), first);
}

TEST(TokenCommand, AnIssuedTokenTakesThePlaceOfATokenOnly) {
  const TemporaryDirectory directory;
  const std::string secret = directory.path() + "/secret", job = directory.path() + "/job";
  ASSERT_EQ(RunProgram({"token", "new", "--out", secret}).code, 0);
  ASSERT_EQ(RunProgram({"token", "job", "a", "--token-file", secret, "--out", job}).code, 0);
  directory.Write("train.py", "import torch\n");
  directory.Write("two", "rank.1.2.3 observer.1.2.3\n");
  std::filesystem::create_symlink("secret", directory.path() + "/link");
  for (const char* name : {"secret", "job", "train.py", "two", "link"}) {
    const std::string before = directory.Read(name);
    const Finished refused = RunProgram(
        {"token", "issue", "--token-file", secret, "--out", directory.path() + "/" + name});
    EXPECT_EQ(refused.code, 78) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("what is in it would be lost")) << name;
    EXPECT_EQ(directory.Read(name), before);
  }
  const std::string token = directory.path() + "/token", other = directory.path() + "/other";
  std::filesystem::create_symlink("token", other);
  for (int i = 0; i < 2; ++i) {
    const Finished issued = RunProgram({"token", "issue", "--token-file", job, "--out", other});
    EXPECT_EQ(issued.code, 0) << issued.err;
    EXPECT_THAT(directory.Read("token"), StartsWith("a/observer."));
    EXPECT_TRUE(std::filesystem::is_symlink(other));
  }
}

TEST(TokenCommand, APlaceThatCannotBeWrittenIsWrongInput) {
  const TemporaryDirectory directory;
  const std::string secret = directory.path() + "/secret";
  ASSERT_EQ(RunProgram({"token", "new", "--out", secret}).code, 0);
  for (const std::string& out : {directory.path() + "/none/token", directory.path()}) {
    for (std::vector<std::string> words : {std::vector<std::string>{"token", "new"},
                                           {"token", "job", "a", "--token-file", secret},
                                           {"token", "issue", "--token-file", secret}}) {
      words.insert(words.end(), {"--out", out});
      const Finished refused = RunProgram(words);
      EXPECT_EQ(refused.code, 78) << refused.err;
      EXPECT_THAT(refused.err, HasSubstr("--out: ")) << words[1];
      EXPECT_THAT(refused.err, HasSubstr(out)) << words[1];
    }
  }
}

TEST(TokenCommand, ATimeHasAUnit) {
  const TemporaryDirectory directory;
  const std::string secret = directory.path() + "/secret";
  ASSERT_EQ(RunProgram({"token", "new", "--out", secret}).code, 0);
  const Finished refused = RunProgram({"token", "issue", "--token-file", secret, "--for", "8"});
  EXPECT_EQ(refused.code, 78);
  EXPECT_THAT(refused.err, HasSubstr("--for: \"8\" is not a time; write it like 90s, 30m, 8h"));
  EXPECT_EQ(refused.out, "");
  const Finished long_time =
      RunProgram({"token", "issue", "--token-file", secret, "--for", "100000d"});
  EXPECT_EQ(long_time.code, 78);
  EXPECT_THAT(long_time.err, HasSubstr("--for: \"100000d\" is too long: at most 10000d"));
}

TEST(TokenCommand, NoTokenIsMadeFromASecretThatServersRefuse) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("secret", "short");
  std::filesystem::permissions(
      file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  for (std::vector<std::string> words :
       {std::vector<std::string>{"token", "issue"}, {"token", "job", "a"}}) {
    for (const bool variable : {false, true}) {
      std::vector<std::string> given = words;
      if (!variable) given.insert(given.end(), {"--token-file", file});
      const Finished refused =
          RunProgram(given, {{"RINGWOOD_TOKEN_FILE", variable ? file : std::string()}});
      EXPECT_EQ(refused.code, 78) << refused.err;
      EXPECT_THAT(refused.err, HasSubstr(file + " has 5 characters, and has to have 16"));
      EXPECT_EQ(refused.out, "");
    }
  }
}

TEST(TokenCommand, TheSecretOfAClosedJobIsMadeFromItsDeployments) {
  const TemporaryDirectory directory;
  const std::string store = directory.path() + "/store", job = store + "/jobs/mnist";
  std::filesystem::create_directories(job);
  ASSERT_EQ(RunProgram({"token", "new", "--out", store + "/token"}).code, 0);
  const std::string secret = directory.path() + "/mnist.secret";
  ASSERT_EQ(RunProgram({"token", "job", "mnist", "--store", store, "--out", secret}).code, 0);
  const Finished issued = RunProgram({"token", "issue", "--role", "rank", "--store", job});
  EXPECT_EQ(issued.code, 0) << issued.err;
  std::string word = directory.Read("mnist.secret");
  word.pop_back();  // the end of the line
  const auto rights = CheckToken(word, issued.out.substr(0, issued.out.find('\n')), 0);
  ASSERT_TRUE(rights.ok()) << rights.status();
  EXPECT_EQ(rights->roles, kRankRole);
  std::filesystem::permissions(store + "/token", std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  EXPECT_THAT(RunProgram({"token", "issue", "--store", job}).err, HasSubstr("chmod 600"));
}

TEST(TokenCommand, AStoreWithoutASecretIsNamedWithWhatToDo) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() + "/jobs/mnist");
  for (const char* name : {"/none", "", "/jobs/mnist"}) {
    const std::string store = directory.path() + name;
    const Finished refused = RunProgram({"token", "issue", "--store", store});
    EXPECT_EQ(refused.code, 78) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("cannot read " + store + "/token: No such file"));
    EXPECT_THAT(refused.err, HasSubstr("or the secret with --token-file"));
  }
}

TEST(TokenCommand, AServerTakesNoSecretThatIsNone) {
  const TemporaryDirectory directory;
  for (const auto& [text, why] :
       Environment{{"short",
                    "has 5 characters, and has to have 16 at least; make one with `ringwood token"},
                   {"twenty\x01letters-or-so", "something else than the printable characters"}}) {
    const std::string file = directory.Write("secret", text);
    std::filesystem::permissions(
        file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    for (const Environment& given :
         {Environment{{"", file}}, {{"RINGWOOD_TOKEN_FILE", file}}, {{"RINGWOOD_TOKEN", text}}}) {
      const auto& [variable, value] = *given.begin();
      std::vector<std::string> words = {"server", "--insecure", "--listen", "127.0.0.1:0"};
      if (variable.empty()) words.insert(words.end(), {"--token-file", file});
      words.insert(words.end(), {"--", "true"});
      const Finished refused = RunProgram(words, variable.empty() ? Environment() : given);
      EXPECT_EQ(refused.code, 78) << refused.err;
      EXPECT_THAT(refused.err, HasSubstr(why));
      EXPECT_THAT(refused.err, HasSubstr(variable == "RINGWOOD_TOKEN" ? variable : file));
      EXPECT_EQ(refused.err.find(text), std::string::npos);
    }
  }
}

TEST(TokenCommand, ATokenFileWinsOverTheStores) {
  const TemporaryDirectory directory;
  const std::string secret = directory.path() + "/secret", kept = directory.path() + "/token";
  ASSERT_EQ(RunProgram({"token", "new", "--out", secret}).code, 0);
  ASSERT_EQ(RunProgram({"token", "new", "--out", kept}).code, 0);
  const Finished alone = RunProgram({"token", "job", "a", "--token-file", secret});
  const Finished both =
      RunProgram({"token", "job", "a", "--token-file", secret, "--store", directory.path()});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(both.out, alone.out);
}

}  // namespace
}  // namespace ringwood

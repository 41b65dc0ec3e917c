// Which server a command asks, and with which token: the command line, the environment, a store.
#include "cli/flags/access_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "proto/job_token.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kSecretOfStore(64, 'a');

// What a server leaves in its store; nothing listens at the address.
void Leave(const TemporaryDirectory& directory) {
  directory.Write("address", "127.0.0.1:2\n");
  std::filesystem::permissions(directory.Write("token", kSecretOfStore + "\n"),
                               std::filesystem::perms::owner_read);
}

ServerAccess On(const std::string& store, const std::string& token_file = "") {
  ServerAccess access;
  access.store = store;
  access.token_file = token_file;
  return access;
}

std::string TokenOf(const FoundServer& found) { return found.access.token->At(Now()); }

TEST(ServerAccess, AStoreOnTheCommandLineWinsOverTheEnvironment) {
  const TemporaryDirectory directory;
  Leave(directory);
  const Environment job = {{"RINGWOOD_COORDINATOR", "127.0.0.1:1"},
                           {"RINGWOOD_IDENTITY", "/nonexistent/identity"}};
  const std::vector<std::string> ask = {"--timeout", "0.2", "--store", directory.path()};
  for (const char* command : {"status", "jobs"}) {
    std::vector<std::string> words = {command};
    words.insert(words.end(), ask.begin(), ask.end());
    const Finished asked = RunProgram(words, job);
    EXPECT_EQ(asked.code, 75) << asked.err;
    EXPECT_THAT(asked.err, HasSubstr("127.0.0.1:2")) << command;
  }
  const Finished pulled = RunProgram({"pull", "--newest-stored", "--timeout", "0.2", "--store",
                                      directory.path(), "--out", directory.path() + "/model"},
                                     job);
  EXPECT_THAT(pulled.err, HasSubstr("127.0.0.1:2"));
}

TEST(ServerAccess, AnAddressOnTheCommandLineWinsOverTheStores) {
  const TemporaryDirectory directory;
  Leave(directory);
  const Finished asked = RunProgram(
      {"status", "--store", directory.path(), "--coordinator", "127.0.0.1:1", "--timeout", "0.2"});
  EXPECT_THAT(asked.err, HasSubstr("127.0.0.1:1"));
}

TEST(ServerAccess, TheEnvironmentCountsWhereNoStoreIsNamed) {
  const Finished asked =
      RunProgram({"status", "--timeout", "0.2"}, {{"RINGWOOD_COORDINATOR", "127.0.0.1:1"}});
  EXPECT_THAT(asked.err, HasSubstr("127.0.0.1:1"));
}

TEST(ServerAccess, ATokenFileOnTheCommandLineWinsOverTheStores) {
  const TemporaryDirectory directory;
  Leave(directory);
  const std::string file = directory.Write("mine", "observer\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  const auto both = FindServer({}, On(directory.path(), file));
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(TokenOf(*both), "observer");
  EXPECT_EQ(both->address, "127.0.0.1:2");
  const auto store = FindServer({{"RINGWOOD_TOKEN", "other"}}, On(directory.path()));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(TokenOf(*store), kSecretOfStore);
}

TEST(ServerAccess, AClosedJobIsFoundByItsDeployment) {
  const TemporaryDirectory directory;
  Leave(directory);
  std::filesystem::create_directories(directory.path() + "/jobs/mnist");
  for (const char* name : {"/jobs/mnist", "/jobs/mnist/"}) {
    const auto found = FindServer({}, On(directory.path() + name));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->address, "127.0.0.1:2");
    EXPECT_EQ(TokenOf(*found), JobSecret(kSecretOfStore, "mnist"));
  }
  for (const char* name : {"/jobs/other", "/jobs", "/elsewhere/mnist"}) {
    const bool there = std::string(name) == "/jobs";
    EXPECT_THAT(Message(FindServer({}, On(directory.path() + name)).status()),
                HasSubstr(there ? "no server runs on" : "does not exist"));
  }
}

TEST(ServerAccess, WhereNoServerRunsItIsSaidWhatCanBeRead) {
  const TemporaryDirectory directory;
  for (const char* command : {"status", "top", "jobs", "pull"}) {
    const auto asked = [&](const std::string& store) {
      std::vector<std::string> words = {command, "--store", store};
      if (words[0] == "pull") words.insert(words.end(), {"--out", directory.path() + "/model"});
      const Finished finished = RunProgram(words);
      EXPECT_EQ(finished.code, 78) << finished.err;
      return finished.err;
    };
    EXPECT_THAT(asked(directory.path() + "/none"), HasSubstr("/none does not exist"));
    std::filesystem::remove(directory.path() + "/FORMAT");
    EXPECT_THAT(asked(directory.path()), AllOf(HasSubstr("no server runs on " + directory.path()),
                                               Not(HasSubstr("ringwood checkpoint list"))));
    directory.Write("FORMAT", "ringwood-store 2\n");
    EXPECT_THAT(asked(directory.path()),
                HasSubstr("`ringwood checkpoint list --store " + directory.path() + "`"));
  }
}

}  // namespace
}  // namespace ringwood

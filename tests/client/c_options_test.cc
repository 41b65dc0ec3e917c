// Options through the C interface.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "include/ringwood.h"

namespace ringwood {
namespace {

ringwood_options FromEnvironment() {
  ringwood_options options{};
  EXPECT_EQ(ringwood_options_from_environment(&options, sizeof options), RINGWOOD_OK)
      << ringwood_last_error();
  return options;
}

class COptions : public ::testing::Test {
 protected:
  COptions() {
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    SetCoordinator("a.host.with.a.name.that.is.not.short:7000");
  }
  ~COptions() override {
    for (const char* name : {"RANK", "WORLD_SIZE", "RINGWOOD_COORDINATOR"}) unsetenv(name);
  }
  static void SetCoordinator(const char* value) { setenv("RINGWOOD_COORDINATOR", value, 1); }
};

TEST_F(COptions, StringsStayWhatTheyAreWhenTheEnvironmentIsReadAgain) {
  const ringwood_options first = FromEnvironment();
  SetCoordinator("another.host.with.a.name.that.is.not.short:7001");
  const ringwood_options second = FromEnvironment();
  EXPECT_STREQ(first.coordinator, "a.host.with.a.name.that.is.not.short:7000");
  EXPECT_STREQ(second.coordinator, "another.host.with.a.name.that.is.not.short:7001");
}

TEST_F(COptions, TheHostIsTheMachineWhereNobodyNamesIt) {
  char machine[256] = {};
  ASSERT_EQ(::gethostname(machine, sizeof machine - 1), 0);
  unsetenv("RINGWOOD_HOST");
  unsetenv("SLURMD_NODENAME");
  EXPECT_STREQ(FromEnvironment().host, machine);
  setenv("SLURMD_NODENAME", "n7", 1);
  EXPECT_STREQ(FromEnvironment().host, "n7");
  unsetenv("SLURMD_NODENAME");
}

TEST_F(COptions, AskingAgainTakesNoMemory) {
  EXPECT_EQ(FromEnvironment().coordinator, FromEnvironment().coordinator);
}

TEST_F(COptions, ManyThreadsMayReadTheEnvironment) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 1000; ++i) {
        EXPECT_STREQ(FromEnvironment().coordinator, "a.host.with.a.name.that.is.not.short:7000");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(COption, EachIsDescribedAsAFieldOfTheStruct) {
  std::map<std::string, ringwood_option> options;
  ringwood_option option{};
  option.size = sizeof option;
  size_t count = 0;
  for (; ringwood_describe_option(count, &option) == RINGWOOD_OK; ++count) {
    EXPECT_EQ(option.size, sizeof option);
    EXPECT_STRNE(option.help, "") << option.name;
    options[option.name] = option;
  }
  EXPECT_EQ(options.size(), count);
  EXPECT_EQ(options["sparse_keep"].offset, offsetof(ringwood_options, sparse_keep));
  EXPECT_EQ(options["sparse_keep"].type, RINGWOOD_OPTION_NUMBER);
  EXPECT_EQ(options["adapt"].type, RINGWOOD_OPTION_SWITCH);
  EXPECT_EQ(options["momentum_masking"].type, RINGWOOD_OPTION_SWITCH_ON);
  EXPECT_STREQ(options["join_timeout_seconds"].keyword, "join_timeout");
  EXPECT_EQ(options["token"].keyword, nullptr);
}

TEST(COption, BehindTheLastThereIsNoneAndTheStructsSizeIsNeeded) {
  ringwood_option option{};
  EXPECT_EQ(ringwood_describe_option(0, &option), RINGWOOD_INVALID);
  EXPECT_EQ(ringwood_describe_option(0, nullptr), RINGWOOD_INVALID);
  option.size = sizeof option;
  EXPECT_EQ(ringwood_describe_option(10000, &option), RINGWOOD_NOT_FOUND);
}

}  // namespace
}  // namespace ringwood

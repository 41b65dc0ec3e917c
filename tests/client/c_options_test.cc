// Options through the C interface.
#include <gtest/gtest.h>

#include <cstdlib>
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

}  // namespace
}  // namespace ringwood

#include "base/files/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "base/check.h"

namespace ringwood {
namespace {

// In a process of its own: a hard limit does not rise again.
TEST(Descriptors, ThoseToStartWithAreReservedOrTheHardLimitIsNamed) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto start = [](rlim_t soft, rlim_t hard) {
    const rlimit limit{soft, hard};
    RW_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    const Status status = ReserveDescriptors();
    rlimit now{};
    RW_CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0);
    std::fprintf(stderr, "%s, the soft limit %s", status.ok() ? "OK" : Message(status).c_str(),
                 now.rlim_cur > soft ? "rose" : "stayed");
    _exit(0);
  };
  EXPECT_EXIT(start(30, 30), testing::ExitedWithCode(0),
              "may open 30 files .ulimit -Hn. and needs .* to start, .* the soft limit stayed");
  EXPECT_EXIT(start(30, 256), testing::ExitedWithCode(0), "OK, the soft limit rose");
  EXPECT_EXIT(start(200, 256), testing::ExitedWithCode(0), "OK, the soft limit stayed");
}

}  // namespace
}  // namespace ringwood

#include "launch/process.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

namespace ringwood {
namespace {

constexpr uid_t kNobody = 65534;  // the limit on processes does not hold for root

// In a process of its own, since it gives up root and may make no process afterwards.
[[noreturn]] void SpawnWithoutRoomForAProcess() {
  const rlimit none{0, 0};
  if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(2);
  if (::setrlimit(RLIMIT_NPROC, &none) != 0) ::_exit(3);
  ProcessOptions options;
  options.command = {"/bin/true"};
  const Status status = Process::Spawn(options).status();
  std::fprintf(stderr, "%s", Message(status).c_str());
  ::_exit(status.code() == StatusCode::kResourceExhausted ? 0 : 4);
}

TEST(Process, OneThatCannotBeMadeSaysWhy) {
  EXPECT_EXIT(SpawnWithoutRoomForAProcess(), testing::ExitedWithCode(0),
              "Resource temporarily unavailable.*ulimit -u");
}

}  // namespace
}  // namespace ringwood

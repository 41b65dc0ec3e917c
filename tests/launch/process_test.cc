#include "launch/process.h"

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

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

size_t Descriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    count += entry.path().empty() ? 0 : 1;
  }
  return count;
}

// A launcher that tries again and again must not lose more each time.
TEST(Process, OneThatCannotBeMadeForLackOfDescriptorsLeavesNoneOpen) {
  ProcessOptions options;
  options.command = {"/bin/true"};
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const size_t open = Descriptors();
  const int next = ::dup(STDERR_FILENO);  // the lowest number that is free
  ::close(next);
  for (const bool feed : {false, true}) {
    options.feed = feed;
    for (int room = 0; room < 7; ++room) {  // it needs seven or eight for a moment
      const rlimit scarce{static_cast<rlim_t>(next + room), before.rlim_max};
      ::setrlimit(RLIMIT_NOFILE, &scarce);
      const Status status = Process::Spawn(options).status();
      ::setrlimit(RLIMIT_NOFILE, &before);
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << feed << room << status;
      EXPECT_EQ(Descriptors(), open) << feed << room;
    }
  }
}

// As one does that waits in the kernel for a disk: a tracer that does not look keeps its death from
// us.
pid_t HoldInDeath(pid_t pid) {
  int told[2];
  if (::pipe(told) != 0) return -1;
  const pid_t tracer = ::fork();
  if (tracer == 0) {
    if (::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) ::_exit(1);
    [[maybe_unused]] const ssize_t written = ::write(told[1], "", 1);
    for (;;) ::pause();
  }
  ::close(told[1]);
  char byte = 0;
  const bool holds = ::read(told[0], &byte, 1) == 1;
  ::close(told[0]);
  if (!holds) ::waitpid(tracer, nullptr, 0);
  return holds ? tracer : -1;
}

TEST(Process, OneThatIsHeldUpInItsDeathIsNotWaitedForForEver) {
  ProcessOptions options;
  options.command = {"sleep", "1000"};
  options.environment = {{"PATH", "/usr/bin:/bin"}};
  auto process = Process::Spawn(options);
  ASSERT_TRUE(process.ok()) << process.status();
  const pid_t pid = (*process)->pid();
  const pid_t tracer = HoldInDeath(pid);
  if (tracer < 0) GTEST_SKIP() << "this user may not trace";
  process->reset();
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), 0) << "it is left behind";
  ::kill(tracer, SIGKILL);
  EXPECT_EQ(::waitpid(tracer, nullptr, 0), tracer);
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
}

}  // namespace
}  // namespace ringwood

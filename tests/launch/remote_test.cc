#include "launch/remote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "launch/signals.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kHangs[] = "echo Password: >&2; exec sleep 600";

std::unique_ptr<Remote> StartOn(const std::string& host, const std::string& shell, double seconds) {
  Reach reach;
  reach.remote_shell = {"sh", "-c", shell};
  reach.program = reach.remote_program = "/bin/cat";
  reach.start_seconds = seconds;
  Job job;
  job.host = host;
  job.slots.push_back({"rank 0", {}});
  auto remote = Remote::Start(reach, job, 0);
  EXPECT_TRUE(remote.ok()) << remote.status();
  return *std::move(remote);
}

// The first error, or OK where there was none for so long.
Status FirstError(Remote* remote, double seconds, bool read = true) {
  for (const TimePoint end = Now() + Seconds(seconds); Now() < end;) {
    const Status status = remote->Progress(read, [](const Report&) {});
    if (!status.ok()) return status;
    ::poll(nullptr, 0, 10);
  }
  return OkStatus();
}

TEST(Remote, AShellThatHangsAtTheStartIsLostWithItsHostNamed) {
  const auto remote = StartOn("h2", kHangs, 0.2);
  EXPECT_THAT(Message(FirstError(remote.get(), 20)),
              AllOf(HasSubstr("the remote shell to host h2 has started no worker"),
                    HasSubstr("Password:"), HasSubstr("without asking anything")));
  EXPECT_TRUE(FirstError(remote.get(), 0.1).ok());  // said once
  remote->Cut();
}

TEST(Remote, AShellThatHasStartedAWorkerIsWaitedForAndSoIsOneWithoutALimit) {
  const auto started = StartOn("h2", "printf '\\nringwood worker 2\\n'; exec sleep 600", 0.2);
  const auto unlimited = StartOn("h2", kHangs, 0);
  EXPECT_TRUE(FirstError(started.get(), 0.5).ok());
  EXPECT_TRUE(FirstError(unlimited.get(), 0.1).ok());
  started->Cut();
  unlimited->Cut();
}

// What it wrote is not known then.
TEST(Remote, WhileItIsNotReadAShellIsNotSaidToHang) {
  const auto remote = StartOn("h2", kHangs, 0.2);
  EXPECT_TRUE(FirstError(remote.get(), 0.5, false).ok());
  remote->Cut();
}

// It may have ended before the worker's job is written to it.
TEST(Remote, AShellThatEndsIsSaidToHaveEndedWithItsWords) {
  SignalDescriptor signals{SIGPIPE};
  const auto remote = StartOn("h2", "echo no route >&2; exit 255", 20);
  EXPECT_THAT(Message(FirstError(remote.get(), 20)),
              AllOf(HasSubstr("the connection to host h2 ended"), HasSubstr("no route")));
}

}  // namespace
}  // namespace ringwood

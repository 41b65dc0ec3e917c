// A worker and the launcher's end of it, each with a partner that falls silent.
#include "launch/agent.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/remote.h"
#include "launch/run.h"
#include "paths.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

const std::string kWorker = std::string(RINGWOOD_BINARY_DIR) + "/bin/ringwood";
constexpr double kLongest = 60;

Job Sleeping(const std::string& mark) {
  Job job;
  job.host = "h1";
  job.command = {"sleep", mark};
  job.slots = {{"rank 0", {}}};
  return job;
}

// A worker that this test talks to itself.
StatusOr<std::unique_ptr<Process>> StartWorker(const Job& job) {
  ProcessOptions options;
  options.command = {kWorker, "worker", "-"};
  options.environment = {{"PATH", "/usr/bin:/bin"}};
  options.feed = true;
  RW_ASSIGN_OR_RETURN(auto worker, Process::Spawn(options));
  const std::string line = ToJson(job) + "\n";
  if (::write(worker->input(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return Unavailable("the worker does not read");
  }
  return worker;
}

bool WaitForEnd(Process* worker) {
  const TimePoint deadline = Now() + Seconds(kLongest);
  while (!worker->Ended()) {
    if (Now() > deadline) return false;
    bool end = false;
    (void)ReadSome(worker->output(), 4096, &end);
    ::usleep(5000);
  }
  return true;
}

TEST(Agent, EndsWithItsProcessesWhenTheLauncherIsSilent) {
  const std::string mark = UniqueSeconds();
  Job job = Sleeping(mark);
  job.silence_seconds = 0.3;
  auto worker = StartWorker(job);
  ASSERT_TRUE(worker.ok()) << Message(worker.status());
  EXPECT_TRUE(WaitForEnd(worker->get())) << "its standard input is open all the time";
  EXPECT_TRUE(WaitUntilGone(mark));
}

TEST(Agent, AnswersAndStaysWhileItHearsTheLauncher) {
  const std::string mark = UniqueSeconds();
  Job job = Sleeping(mark);
  job.silence_seconds = 30;
  auto worker = StartWorker(job);
  ASSERT_TRUE(worker.ok()) << Message(worker.status());
  ASSERT_EQ(::write((*worker)->input(), "ping\nping\n", 10), 10);
  int answers = 0;
  ReportReader reader;
  const TimePoint deadline = Now() + Seconds(kLongest);
  while (answers < 2 && Now() < deadline) {
    pollfd wait = {(*worker)->output(), POLLIN, 0};
    ::poll(&wait, 1, 100);
    bool end = false;
    ASSERT_TRUE(
        reader
            .Feed(ReadSome((*worker)->output(), 4096, &end),
                  [&](const Report& report) { answers += report.kind == ReportKind::kAlive; })
            .ok());
  }
  EXPECT_EQ(answers, 2);
  (*worker)->CloseInput();
  EXPECT_TRUE(WaitForEnd(worker->get()));
  EXPECT_TRUE(WaitUntilGone(mark));
}

TEST(Agent, KillsOneOfItsProcesses) {
  const std::string mark = UniqueSeconds();
  Job job = Sleeping(mark);
  job.slots.push_back({"rank 1", {}});
  auto worker = StartWorker(job);
  ASSERT_TRUE(worker.ok()) << Message(worker.status());
  ASSERT_EQ(::write((*worker)->input(), "kill 1\nkill 7\n", 14), 14);
  std::vector<uint32_t> ended;
  ReportReader reader;
  const TimePoint deadline = Now() + Seconds(kLongest);
  while (ended.empty() && Now() < deadline) {
    pollfd wait = {(*worker)->output(), POLLIN, 0};
    ::poll(&wait, 1, 100);
    bool end = false;
    ASSERT_TRUE(reader
                    .Feed(ReadSome((*worker)->output(), 4096, &end),
                          [&](const Report& report) {
                            if (report.kind == ReportKind::kEnded) ended.push_back(report.slot);
                          })
                    .ok());
  }
  ASSERT_EQ(ended, std::vector<uint32_t>{1});
  EXPECT_EQ(ProcessesWith(mark).size(), 1u);
  (*worker)->CloseInput();
  EXPECT_TRUE(WaitForEnd(worker->get()));
}

TEST(Agent, MakesATemporaryStoreForItsOwnerAlone) {
  const TemporaryDirectory directory;
  const mode_t before = ::umask(0);
  Job job = Sleeping("0");
  job.scratch = directory.path() + "/store";
  for (int start = 0; start < 2; ++start) {  // a restart finds it there
    auto worker = StartWorker(job);
    ASSERT_TRUE(worker.ok() && WaitForEnd(worker->get()));
    EXPECT_EQ((*worker)->ending().code, 0);
  }
  ::umask(before);
  struct stat state {};
  ASSERT_EQ(::stat(job.scratch.c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0700u);
  ASSERT_EQ(::chmod(job.scratch.c_str(), 0777), 0);
  auto worker = StartWorker(job);
  ASSERT_TRUE(worker.ok() && WaitForEnd(worker->get()));
  EXPECT_EQ((*worker)->ending().code, 78) << "somebody else may have put it there";
}

// The other host answers once and then never again.
TEST(Remote, AWorkerThatFallsSilentIsLostAndNamed) {
  const TemporaryDirectory directory;
  const std::string mark = UniqueSeconds();
  Reach reach;
  reach.remote_shell = {directory.Write(
      "rsh", "#!/bin/sh\nprintf '\\nringwood worker 2\\n'\nexec sleep " + mark + "\n", true)};
  reach.remote_program = kWorker;
  reach.environment = {{"PATH", "/usr/bin:/bin"}};
  Job job = Sleeping(mark);
  job.silence_seconds = 0.3;
  auto remote = Remote::Start(reach, job, 0);
  ASSERT_TRUE(remote.ok());
  Status status;
  const TimePoint deadline = Now() + Seconds(kLongest);
  while (status.ok() && Now() < deadline) {
    status = (*remote)->Progress(true, [](const Report&) {});
    ::usleep(5000);
  }
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), HasSubstr("host h1 was silent"));
  EXPECT_LE((*remote)->over(), Now()) << "by then nothing runs there any more";
  (*remote)->Cut();
  EXPECT_TRUE(WaitUntilGone(mark));
}

}  // namespace
}  // namespace ringwood

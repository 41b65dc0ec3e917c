// A job with a coordinator of which one rank dies: what the launcher says of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

// The process with `word` in its command line and `variable` in its environment.
pid_t Find(const std::string& word, const std::string& variable) {
  for (pid_t pid : ProcessesWith(word)) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    if (('\0' + text).find('\0' + variable + '\0') != std::string::npos) return pid;
  }
  return 0;
}

TEST(Verdict, TheCoordinatorsSentenceIsTheHeadline) {
  const TemporaryDirectory directory;
  const std::string profile =
      directory.Write("t.csv", "tensor,numel,ready_time_us\nfc,1000,0\nconv,2000,100\n");
  Program job({"replay", "--trace", profile, "--workers", "2", "--steps", "1000000", "--route",
               "dense", "--planner", "wfbp"});
  ASSERT_TRUE(job.WaitForOutput("data plane")) << job.Wait(0).err;  // rank 0 says it, and attends
  const pid_t victim = Find("--trace=" + profile, "RANK=0");
  ASSERT_GT(victim, 0);
  ::kill(victim, SIGKILL);
  const Finished run = job.Wait();
  EXPECT_EQ(run.code, 75);
  EXPECT_THAT(run.err, HasSubstr("ringwood: rank 0 (host localhost) failed at step "));
  EXPECT_THAT(run.err,
              HasSubstr("rank 0 (host localhost) failed first: it was killed by signal 9"));
}

TEST(TemporaryStore, IsItsOwnersAloneAndGoesWithTheJobAlsoOnAnotherHost) {
  const TemporaryDirectory directory;
  const std::string rsh = directory.Write("rsh", "#!/bin/sh\nshift\nexec \"$@\"\n", true);
  const std::string mark = UniqueSeconds();
  Program job({"run", "-H", "h1:1", "--rsh", rsh, "--", "sleep", mark});
  ASSERT_TRUE(job.WaitForOutput("checkpoints in "));
  ASSERT_TRUE(WaitUntilThere(mark, 2));
  const std::string seen = job.Wait(0.01).err;
  const size_t at = seen.find("checkpoints in ") + 15;
  const std::string store = seen.substr(at, seen.find_first_of(" \n", at) - at);
  struct stat state {};
  ASSERT_EQ(::stat(store.c_str(), &state), 0) << store;
  EXPECT_EQ(state.st_mode & 0777, 0700u);
  job.Signal(SIGINT);
  EXPECT_EQ(job.Wait().code, 130);
  EXPECT_NE(::stat(store.c_str(), &state), 0) << store << " is still there";
}

}  // namespace
}  // namespace ringwood

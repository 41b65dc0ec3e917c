// `ringwood run` from outside, with shell commands as ranks and no server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "launch/hosts.h"
#include "server/calls/limits.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

std::vector<std::string> Shell(const std::string& script, std::vector<std::string> flags) {
  std::vector<std::string> arguments = {"run", "--no-server"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), {"--", "sh", "-c", script});
  return arguments;
}

TEST(Run, EveryRankKnowsItsPlaceAndRankZeroIsNotPrefixed) {
  const Finished run =
      RunProgram(Shell("echo I am $RANK/$WORLD_SIZE on $RINGWOOD_HOST", {"-np", "3"}));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT("\n" + run.out, AllOf(HasSubstr("\nI am 0/3 on localhost\n"),
                                    HasSubstr("[1] I am 1/3 on localhost\n"),
                                    HasSubstr("[2] I am 2/3 on localhost\n")))
      << run.out;
}

TEST(Run, EachHostHasAServerUnlessANumberIsGiven) {
  const auto plan = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "--dry-run", "--trusted-fabric", "--network-interface",
                                 "lo", "--rsh", "false"});
    flags.insert(flags.end(), {"--", "true"});
    const Finished run = RunProgram(flags);
    return run.out + run.err;
  };
  EXPECT_THAT(plan({"-np", "3"}), HasSubstr("servers: 1, the first on host localhost"));
  EXPECT_THAT(plan({"-H", "h1:2,h2:2"}), HasSubstr("servers: 2, the first on host h1"));
  EXPECT_THAT(plan({"-np", "2", "-H", "h1:2,h2:2"}), HasSubstr("servers: 1, the first on host h1"));
  EXPECT_THAT(plan({"-H", "h1:2,h2:2", "--elastic"}),
              HasSubstr("servers: 2, and a coordinator on host h1"));
  EXPECT_THAT(plan({"-H", "h1:2,h2:2", "--elastic", "--servers", "0"}), HasSubstr("servers: 0"));
  EXPECT_THAT(plan({"-H", "h1:2,h2:2", "--servers", "1"}), HasSubstr("servers: 1"));
  EXPECT_THAT(plan({"-np", "1", "--servers", "0"}), HasSubstr("--servers must be 1 to"));
  EXPECT_THAT(plan({"-H", "h1:2,h2:2", "--store", "s", "--stores", "2"}), HasSubstr("servers: 2"));
}

// What the coordinator would refuse when all processes are there is refused before the first one.
TEST(Run, AJobIsNoLargerThanItsCoordinatorAdmits) {
  static_assert(kMaxRanks == kMaxWorld && kMostServers == kMaxServers);
  const auto plan = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "--dry-run", "--elastic"});
    flags.insert(flags.end(), {"--", "true"});
    const Finished run = RunProgram(flags);
    return run.out + run.err;
  };
  EXPECT_THAT(plan({"-np", "4096"}), HasSubstr("host localhost: ranks 0..4095"));
  EXPECT_THAT(plan({"-np", "4097"}), HasSubstr("4097: give 1 to 4096 ranks"));
  EXPECT_THAT(plan({"-np", "4096", "--spares", "1"}), HasSubstr("4097: give 1 to 4096 ranks"));
  EXPECT_THAT(plan({"-np", "1", "--servers", "257"}), HasSubstr("--servers must be 0 to 256"));
  std::string hosts = "h0";
  for (int host = 1; host < 300; ++host) hosts += absl::StrFormat(",h%d", host);
  EXPECT_THAT(plan({"-H", hosts, "-np", "300", "--rsh", "false", "--network-interface", "lo",
                    "--trusted-fabric"}),
              HasSubstr("servers: 256, and a coordinator on host h0"));
}

TEST(Run, FlagsOfSparseTensorsReachTheRanksAndWinOverTheEnvironment) {
  const std::string echo =
      "echo $RINGWOOD_SPARSE_KEEP $RINGWOOD_SPARSE_CHUNK $RINGWOOD_CLIP_NORM "
      "$RINGWOOD_MOMENTUM_MASKING.";
  const Finished flags =
      RunProgram(Shell(echo, {"-np", "1", "--sparse-keep", "0.5", "--sparse-chunk=4096",
                              "--clip-norm=2.5", "--no-momentum-masking"}),
                 {{"RINGWOOD_SPARSE_KEEP", "3"}, {"RINGWOOD_CLIP_NORM", "7"}});
  EXPECT_EQ(flags.code, 0) << flags.err;
  EXPECT_THAT(flags.out, HasSubstr("0.5 4096 2.5 0.\n"));
  const Finished environment =
      RunProgram(Shell(echo, {"-np", "1"}),
                 {{"RINGWOOD_SPARSE_KEEP", "3"}, {"RINGWOOD_MOMENTUM_MASKING", "0"}});
  EXPECT_THAT(environment.out, HasSubstr("3 0.\n"));
  const Finished on = RunProgram(Shell(echo, {"-np", "1", "--momentum-masking"}),
                                 {{"RINGWOOD_MOMENTUM_MASKING", "0"}});
  EXPECT_THAT(on.out, HasSubstr("1.\n"));
}

TEST(Run, TheTimeToJoinReachesTheRanks) {
  const std::string echo = "echo $RINGWOOD_JOIN_TIMEOUT.";
  EXPECT_EQ(RunProgram(Shell(echo, {"-np", "1", "--join-timeout", "600.5"})).out, "600.5.\n");
  EXPECT_EQ(RunProgram(Shell(echo, {"-np", "1"}), {{"RINGWOOD_JOIN_TIMEOUT", "7"}}).out, "7.\n");
}

TEST(Run, WrongFlagsOfSparseTensorsAreRefusedByName) {
  for (const char* flag : {"--sparse-keep=-1", "--sparse-keep=x", "--sparse-chunk=-1",
                           "--sparse-chunk=2000000000", "--clip-norm=-1"}) {
    const Finished run = RunProgram(Shell("exit 0", {"-np", "1", flag}));
    EXPECT_EQ(run.code, 78) << flag;
    EXPECT_THAT(run.err, HasSubstr(std::string(flag).substr(0, std::string(flag).find('='))));
  }
}

TEST(Run, TheFirstFailureIsNamedWithTheEndOfItsOutput) {
  const Finished run = RunProgram(Shell(
      "[ $RANK = 1 ] || exec sleep 0.3; seq 100 >&2; echo last words >&2; exit 3", {"-np", "3"}));
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.err, HasSubstr("rank 1 (host localhost) failed first: it exited with code 3"));
  EXPECT_THAT(run.err, AllOf(HasSubstr("  | 100\n"), HasSubstr("  | last words"),
                             HasSubstr("  | 62\n"), Not(HasSubstr("  | 50\n"))));
}

TEST(Run, AllRanksAreRestartedWithResumeUntilItWorks) {
  const Finished run = RunProgram(
      Shell("echo attempt $RINGWOOD_RESTART resume=$RINGWOOD_RESUME.; [ $RINGWOOD_RESTART = 2 ]",
            {"-np", "2", "--max-restarts", "5", "--restart-on-failure"}));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("[1] attempt 0 resume=."), HasSubstr("[1] attempt 1 resume=auto."),
                    HasSubstr("[1] attempt 2 resume=auto."), Not(HasSubstr("attempt 3"))));
}

TEST(Run, AFailureOfTheCommandsOwnEndsTheJobWithItsCode) {
  const Finished run =
      RunProgram(Shell("echo attempt $RINGWOOD_RESTART; exit 5", {"-np", "2", "--max-restarts=2"}));
  EXPECT_EQ(run.code, 5);
  EXPECT_THAT(run.out, Not(HasSubstr("attempt 1")));
}

TEST(Run, ACommandThatAShellCannotFindIsConfiguration) {
  const Finished run = RunProgram(Shell("no-such-command", {"-np", "1", "--max-restarts=2"}));
  EXPECT_EQ(run.code, 78);
  EXPECT_THAT(run.err, Not(HasSubstr("restarting")));
}

TEST(Run, RestartsEndAtTheirNumber) {
  const Finished run = RunProgram(
      Shell("echo attempt $RINGWOOD_RESTART; kill -9 $$", {"-np", "1", "--max-restarts=2"}));
  EXPECT_EQ(run.code, 75);
  EXPECT_THAT(run.out, AllOf(HasSubstr("attempt 2"), Not(HasSubstr("attempt 3"))));
}

TEST(Run, AJobThatFailsAtOnceAgainAndAgainIsRestartedEverMoreSeldom) {
  const Finished run = RunProgram(Shell("kill -9 $$", {"-np", "1", "--max-restarts=3"}));
  EXPECT_EQ(run.code, 75);
  EXPECT_THAT(run.err, HasSubstr("newest checkpoint (1 of 3)\n"));
  EXPECT_THAT(run.err, HasSubstr("newest checkpoint (3 of 3) in 2 s\n"));
}

TEST(Run, AConfigurationErrorIsNeverRestarted) {
  const Finished run = RunProgram(
      Shell("echo attempt $RINGWOOD_RESTART; exit 78", {"-np", "2", "--max-restarts=2"}));
  EXPECT_EQ(run.code, 78);
  EXPECT_THAT(run.out, Not(HasSubstr("attempt 1")));
}

TEST(Run, AKilledRankIsNamedWithItsSignal) {
  const Finished run =
      RunProgram(Shell("[ $RANK = 1 ] && kill -9 $$; sleep 0.2; exit 75", {"-np", "2"}));
  EXPECT_EQ(run.code, 75);
  EXPECT_THAT(
      run.err,
      HasSubstr("rank 1 (host localhost) failed first: it was killed by signal 9 (SIGKILL)"));
}

// The failure timeout is longer than a test may take: nothing waits for a process that cannot act.
TEST(Run, AStoppedRankIsKilledAtOnceAndNamed) {
  const std::string mark = UniqueSeconds();
  TemporaryDirectory directory;
  const std::string script =
      "if [ $RANK = 1 ]; then echo $$ > " + directory.path() + "/new; mv " + directory.path() +
      "/new " + directory.path() + "/pid; kill -STOP $$; exit; fi; cd " + directory.path() +
      "; until grep -q ') T' /proc/$(cat pid)/stat; do sleep 0.01; done; exit 75; : " + mark;
  const Finished run = RunProgram(Shell(script, {"-np", "2", "--failure-timeout", "600"}));
  EXPECT_EQ(run.code, 75);
  EXPECT_THAT(run.err, HasSubstr("rank 1 (host localhost) failed first: it was stopped (SIGSTOP)"));
  EXPECT_TRUE(WaitUntilGone(mark));
}

TEST(Run, CtrlCEndsEveryProcess) {
  const std::string mark = UniqueSeconds();
  Program program(Shell("sleep " + mark + " & sleep " + mark, {"-np", "3"}));
  ASSERT_TRUE(WaitUntilThere("sleep", 6));
  ASSERT_TRUE(WaitUntilThere(mark, 6));
  program.Signal(SIGINT);
  const Finished finished = program.Wait();
  EXPECT_EQ(finished.code, 130);
  EXPECT_THAT(finished.err, HasSubstr("Ctrl-C again kills them"));
  EXPECT_TRUE(WaitUntilGone(mark));
}

// The first gives more time than a test may take.
TEST(Run, ACtrlCKillsWhatIgnoresTheSignalBefore) {
  const std::string mark = UniqueSeconds();
  Program program(Shell("trap '' TERM INT; echo up; while :; do sleep 0.01; done; : " + mark,
                        {"-np", "1", "--grace", "600"}));
  ASSERT_TRUE(program.WaitForOutput("up"));
  program.Signal(SIGTERM);
  ASSERT_TRUE(program.WaitForOutput("(--grace)"));
  program.Signal(SIGINT);
  EXPECT_EQ(program.Wait().code, 130);
  EXPECT_TRUE(WaitUntilGone(mark));
}

TEST(Run, ARankThatIgnoresSigtermIsKilledInTime) {
  const std::string mark = UniqueSeconds();
  Program program(
      Shell("trap '' TERM INT; echo up; while :; do sleep 0.01; done; : " + mark, {"-np", "2"}));
  ASSERT_TRUE(program.WaitForOutput("[1] up"));
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait().code, 130);
  EXPECT_TRUE(WaitUntilGone(mark));
}

TEST(Run, KillingTheLauncherLeavesNoProcess) {
  const std::string mark = UniqueSeconds();
  Program program(Shell("setsid sleep " + mark + " & sleep " + mark, {"-np", "2"}));
  ASSERT_TRUE(WaitUntilThere("sleep " + mark, 2));
  ASSERT_TRUE(WaitUntilThere(mark, 5));
  program.Signal(SIGKILL);
  EXPECT_EQ(program.Wait().code, 137);
  EXPECT_TRUE(WaitUntilGone(mark));
}

TEST(Run, WhatARankLeavesBehindGoesWithTheRun) {
  const std::string mark = UniqueSeconds();
  const Finished run = RunProgram(Shell("setsid sleep " + mark + " & sleep 0.1", {"-np", "2"}));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(WaitUntilGone(mark));
}

TEST(Run, CtrlCWorksWhenNobodyReadsTheOutput) {
  const std::string mark = UniqueSeconds();
  Program program(Shell("yes " + mark, {"-np", "2"}));
  const std::string yes = std::string("yes") + '\0' + mark;
  ASSERT_TRUE(WaitUntilThere(yes, 2));
  ::usleep(500 * 1000);  // every buffer on the way is full
  program.Signal(SIGINT);
  ASSERT_TRUE(WaitUntilGone(yes));  // nothing has read a byte until here
  ASSERT_TRUE(WaitUntilGone(mark));
  EXPECT_EQ(program.Wait().code, 130);
}

TEST(Run, LinesOfManyRanksStayWhole) {
  const Finished run = RunProgram(
      Shell("i=0; while [ $i -lt 200 ]; do printf 'rank %s ' $RANK; echo line $i; i=$((i+1)); done",
            {"-np", "4"}));
  EXPECT_EQ(run.code, 0);
  for (int rank = 1; rank < 4; ++rank) {
    for (int i = 0; i < 200; ++i) {
      const std::string line = "[" + std::to_string(rank) + "] rank " + std::to_string(rank) +
                               " line " + std::to_string(i) + "\n";
      EXPECT_THAT(run.out, HasSubstr(line));
    }
  }
}

TEST(Run, OutputGoesToFilesToo) {
  TemporaryDirectory directory;
  const Finished run = RunProgram(
      Shell("echo out $RANK; echo err $RANK >&2; exit $((75 - 75 * RINGWOOD_RESTART))",
            {"-np", "2", "--max-restarts=1", "--output-filename", directory.path() + "/log"}));
  EXPECT_EQ(run.code, 0);
  const std::string log = directory.Read("log.rank1.log");
  EXPECT_THAT(log, AllOf(HasSubstr("out 1\n"), HasSubstr("err 1\n"), Not(HasSubstr("[1]"))));
  EXPECT_NE(log.find("out 1"), log.rfind("out 1")) << "the second attempt continues the file";
}

TEST(Run, AnOutputFileThatIsALinkIsNotFollowed) {
  TemporaryDirectory directory;
  const std::string target = directory.Write("target", "mine\n");
  std::filesystem::create_symlink(target, directory.path() + "/log.rank0.log");
  const Finished run = RunProgram(
      Shell("echo theirs", {"-np", "1", "--output-filename", directory.path() + "/log"}));
  EXPECT_EQ(run.code, 78);
  EXPECT_THAT(run.err, HasSubstr("log.rank0.log: it is a symbolic link"));
  EXPECT_EQ(directory.Read("target"), "mine\n");
}

TEST(Run, WhatTheJobListensOnLiesInThePortRange) {
  const std::string script = "echo $MASTER_PORT ${RINGWOOD_COORDINATOR#*:} $RINGWOOD_PORT_RANGE";
  const std::vector<std::string> ports = {"run", "-np", "1", "--port-range", "21400-21419"};
  std::vector<std::string> served = ports, alone = ports;
  served.insert(served.end(), {"--", "sh", "-c", script});
  alone.insert(alone.end(), {"--no-server", "--", "sh", "-c", script});
  const Finished with_server = RunProgram(served);
  EXPECT_EQ(with_server.code, 0) << with_server.err;
  EXPECT_THAT(with_server.out, MatchesRegex("214[01][0-9] 214[01][0-9] 21400-21418\n"));
  EXPECT_THAT(RunProgram(alone).out, MatchesRegex("214[01][0-9] .*21400-21418\n"));
}

TEST(Run, OtherHostsAreReachedByTheRemoteShell) {
  TemporaryDirectory directory;
  const std::string rsh = directory.Write(
      "rsh", "#!/bin/sh\necho Welcome to $2!\n[ $1 = -q ] || exit 9\nshift 2\nexec \"$@\"\n", true);
  const std::string hosts = directory.Write("hosts", "h1 slots=2 # big\nh2 slots=1\n");
  const Finished run = RunProgram(Shell(
      "echo $RINGWOOD_HOST $GROUP_RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE \"$A\"",
      {"--hostfile", hosts, "--rsh", rsh + " -q", "--network-interface", "lo", "-x", "A=b c"}));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("h1 0 0/2 b c\n"), HasSubstr("[1] h1 0 1/2 b c\n"),
                             HasSubstr("[2] h2 1 0/1 b c\n"), Not(HasSubstr("Welcome"))));
}

TEST(Run, GlooAndNcclAreToldOfTheInterfaceUnlessTheUserHas) {
  const auto told = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"-np", "1", "--network-interface", "lo"});
    const Finished run = RunProgram(Shell("echo $GLOO_SOCKET_IFNAME $NCCL_SOCKET_IFNAME", flags));
    EXPECT_EQ(run.code, 0) << run.err;
    return run.out;
  };
  EXPECT_EQ(told({}), "lo =lo\n");
  EXPECT_EQ(told({"-x", "GLOO_SOCKET_IFNAME=eth9"}), "eth9 =lo\n");
}

TEST(Run, RanksOfAHostShareItsCoresUnlessTheUserSaysOtherwise) {
  ::unsetenv("OMP_NUM_THREADS");
  const auto threads = [](std::vector<std::string> flags) {
    const Finished run = RunProgram(Shell("echo $OMP_NUM_THREADS", flags));
    EXPECT_EQ(run.code, 0) << run.err;
    return run.out;
  };
  const unsigned share = std::max(1u, std::thread::hardware_concurrency() / 4);
  EXPECT_THAT(threads({"-np", "4"}), HasSubstr("[3] " + std::to_string(share) + "\n"));
  EXPECT_EQ(threads({"-np", "1"}), "\n");
  EXPECT_THAT(threads({"-np", "2", "-x", "OMP_NUM_THREADS=3"}), HasSubstr("[1] 3\n"));
  const Finished set =
      RunProgram(Shell("echo $OMP_NUM_THREADS", {"-np", "2"}), {{"OMP_NUM_THREADS", "5"}});
  EXPECT_THAT(set.out, HasSubstr("[1] 5\n"));
}

TEST(Run, AHostThatCannotBeReachedIsNamedWithTheShellsWords) {
  TemporaryDirectory directory;
  const std::string rsh =
      directory.Write("rsh",
                      "#!/bin/sh\n[ $1 = h2 ] && echo no route to $1 >&2 && exit 255\n"
                      "shift\nexec \"$@\"\n",
                      true);
  const std::string mark = UniqueSeconds();
  const Finished run =
      RunProgram(Shell("sleep " + mark, {"-H", "h1:1,h2:1", "--rsh", rsh, "--network-interface=lo",
                                         "--failure-timeout=0.1"}));
  EXPECT_EQ(run.code, 75);
  EXPECT_THAT(run.err, AllOf(HasSubstr("host h2"), HasSubstr("no route to h2")));
  EXPECT_TRUE(WaitUntilGone(mark));
}

TEST(Run, ARemoteShellThatDiesTakesItsRanksAlong) {
  TemporaryDirectory directory;
  const std::string rsh = directory.Write("rsh", "#!/bin/sh\nshift\n\"$@\"\nexit 255\n", true);
  const std::string mark = UniqueSeconds();
  Program program(Shell("sleep " + mark, {"-H", "h1:2", "--rsh", rsh}));
  ASSERT_TRUE(WaitUntilThere(mark, 2));
  for (pid_t pid : ProcessesWith(rsh)) {
    if (pid != program.pid()) ::kill(pid, SIGKILL);
  }
  EXPECT_EQ(program.Wait().code, 75);
  EXPECT_TRUE(WaitUntilGone(mark));
}

TEST(Run, TheTokenIsInNoCommandLine) {
  Program program(Shell("echo token $RINGWOOD_TOKEN.; exec sleep 100", {"-np", "1"}));
  ASSERT_TRUE(program.WaitForOutput(".\n"));
  const std::string out = program.Wait(0.1).out;  // so far
  const size_t at = out.find("token ") + 6;
  const std::string token = out.substr(at, out.find('.', at) - at);
  EXPECT_EQ(token.size(), 64u) << out;
  EXPECT_TRUE(ProcessesWith(token).empty());
  program.Signal(SIGINT);
  EXPECT_EQ(program.Wait().code, 130);
}

}  // namespace
}  // namespace ringwood

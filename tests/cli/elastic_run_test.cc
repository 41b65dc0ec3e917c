// `ringwood run --elastic` from outside: shell commands as ranks, and a script in the server's
// place that says what the test wants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "launch/server_line.h"
#include "paths.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kReal = std::string(RINGWOOD_BINARY_DIR) + "/bin/ringwood";

// Stands for the ringwood of a host: its worker is the real one, its servers do nothing, but the
// coordinator prints the file `say` when there is one.
constexpr char kFake[] = R"(#!/bin/sh
[ $1 = worker ] && exec REAL worker -
cd DIRECTORY
case " $* " in *--no-reducer*) name=coordinator ;; *) name=reducer ;; esac
echo "$@ " >> $name.arguments
echo $$ > $name.pid
listen=127.0.0.1:4321
for word; do case $word in --listen=1*) listen=${word#*=} ;; esac; done
trap 'exit 0' TERM
echo ringwood server listening on $listen
while :; do
  [ $name = coordinator ] && [ -e say ] && cat say && rm say
  sleep 0.01
done
)";

// A directory in which ranks wait for files, and hosts that are this machine.
class ElasticRunTest : public ::testing::Test {
 protected:
  ElasticRunTest() {
    rsh_ = directory_.Write("rsh", "#!/bin/sh\nshift\nexec \"$@\"\n", true);
    const std::string script =
        absl::StrReplaceAll(kFake, {{"REAL", kReal}, {"DIRECTORY", directory_.path()}});
    fake_ = directory_.Write("ringwood", script, true);
  }
  std::string At(const std::string& name) const { return directory_.path() + "/" + name; }
  // For a script: waits until there is a file of this name.
  std::string Until(const std::string& name) const {
    return "until [ -e " + At(name) + " ]; do sleep 0.01; done";
  }
  std::string Touch(const std::string& name) const { return "touch " + At(name); }
  void Make(const std::string& name, const std::string& text = "") const {
    directory_.Write(name + ".new", text);
    ASSERT_EQ(::rename(At(name + ".new").c_str(), At(name).c_str()), 0);
  }
  // The ranks that wait for the file "done" go on, and the job ends well.
  Finished Finish(Program* run) const {
    Make("done");
    Finished finished = run->Wait();
    EXPECT_EQ(finished.code, 0) << finished.err;
    return finished;
  }
  // Waits until a process has written it there. Never 0, which would be this program's own group.
  pid_t PidIn(const std::string& name) const {
    for (int look = 0; look < 6000; ++look) {
      const pid_t pid = std::atoi(directory_.Read(name).c_str());
      if (pid > 0) return pid;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "no process in " << name;
    return std::numeric_limits<pid_t>::max();
  }

  std::vector<std::string> Alone(const std::string& script, std::vector<std::string> flags) const {
    flags.insert(flags.begin(), {"run", "--elastic", "--no-server"});
    flags.insert(flags.end(), {"--", "sh", "-c", script});
    return flags;
  }
  // On the host h1, with the script as its server.
  std::vector<std::string> Served(const std::string& script, std::vector<std::string> flags) const {
    flags.insert(flags.begin(), {"run", "--elastic", "--rsh", rsh_, "--remote-program", fake_});
    flags.insert(flags.end(), {"--", "sh", "-c", script});
    return flags;
  }

  const TemporaryDirectory directory_;
  std::string rsh_, fake_;
};

// What a coordinator says of two epochs, and of the rank that failed in the first.
std::string LossLines(const std::string& ranks, int lost, const std::string& left) {
  return absl::StrFormat("%s1 %s\n%srank %d (host h1) failed\n%s2 %s\n", kEpoch, ranks, kRecovery,
                         lost, kEpoch, left);
}

size_t CountOf(const std::string& word, const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST_F(ElasticRunTest, ARankThatIsKilledIsStartedAgainAndTheOthersGoOn) {
  const Finished run = RunProgram(
      Alone("echo rank $RANK, restart $RINGWOOD_RESTART of $WORLD_SIZE; if [ $RANK = 1 ]; then [ "
            "$RINGWOOD_RESTART = 0 ] && kill -9 $$; " +
                Touch("back") + "; fi; " + Until("back"),
            {"-np", "3"}));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(CountOf("rank 0, restart 0 of 3\n", run.out), 1u);
  EXPECT_EQ(CountOf("rank 1, restart 1 of 3\n", run.out), 1u);
  EXPECT_EQ(CountOf("rank 2, restart", run.out), 1u);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("rank 1 (host localhost) was killed by signal 9 (SIGKILL); it "
                              "is started again (1 of 10)"),
                    HasSubstr("0 restarts, 1 of single processes")));
}

TEST_F(ElasticRunTest, AllAskToContinueSoThatOneThatComesLaterIsNoOther) {
  const Finished run = RunProgram(Alone(
      "[ $RANK$RINGWOOD_RESTART = 00 ] && kill -9 $$; echo $RINGWOOD_RESUME $RINGWOOD_JOB.; [ "
      "$RANK = 1 ] || " +
          Touch("back") + "; " + Until("back"),
      {"-np", "2"}));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(CountOf("auto ", run.out), 2u);
  const size_t first = run.out.find("auto "), second = run.out.rfind("auto ");
  EXPECT_EQ(run.out.substr(first, 22), run.out.substr(second, 22));
}

TEST_F(ElasticRunTest, RestartsOfOneRankEndAtTheirNumber) {
  Program run(
      Alone("[ $RANK = 1 ] && kill -9 $$; " + Until("done"), {"-np", "2", "--max-restarts=1"}));
  ASSERT_TRUE(run.WaitForOutput("(SIGKILL); the others go on without it"));
  const Finished finished = Finish(&run);
  EXPECT_EQ(CountOf("is started again", finished.err), 1u);
}

TEST_F(ElasticRunTest, ExitCodesKeepTheirMeaning) {
  EXPECT_EQ(RunProgram(Alone("exit 78", {"-np", "2"})).code, 78);
  EXPECT_EQ(RunProgram(Alone("no-such-command", {"-np", "2"})).code, 78);
  EXPECT_EQ(RunProgram(Alone("exit 5", {"-np", "2"})).code, 5);
  EXPECT_EQ(RunProgram(Alone("kill -9 $$", {"-np", "2", "--max-restarts=0"})).code, 75);
  const Finished missing =
      RunProgram({"run", "--elastic", "--no-server", "-np", "2", "--", "pyton"});
  EXPECT_EQ(missing.code, 78);
  EXPECT_THAT(missing.err, HasSubstr("cannot start \"pyton\""));
}

TEST_F(ElasticRunTest, TheOutputOfTheOneThatFailedFirstIsShownEvenIfItWasStartedAgain) {
  const Finished run = RunProgram(
      Alone("if [ $RANK = 0 ]; then " + Until("second") +
                "; exit 75; fi; if [ $RINGWOOD_RESTART = 0 ]; then echo the cause; exit 3; fi; "
                "echo a consequence; " +
                Touch("second") + "; exit 4",
            {"-np", "2", "--max-restarts=1"}));
  EXPECT_EQ(run.code, 3) << run.err;
  EXPECT_THAT(run.out, HasSubstr("[1] a consequence"));
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("rank 1 (host localhost) failed first: it exited with code 3"),
                    HasSubstr("  | the cause"), Not(HasSubstr("  | a consequence"))));
}

TEST_F(ElasticRunTest, SparesAreRanksBeyondTheWorldAndEndWithIt) {
  const std::string mark = UniqueSeconds();
  const Finished run =
      RunProgram(Alone("echo $RANK of $WORLD_SIZE; [ $RANK = 2 ] && { " + Touch("spare") +
                           "; exec sleep " + mark + "; }; " + Until("spare"),
                       {"-np", "2", "--spares", "1"}));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("0 of 2\n"), HasSubstr("1 of 2\n"), HasSubstr("2 of 2\n")));
  EXPECT_TRUE(WaitUntilGone(mark));
}

TEST_F(ElasticRunTest, TheServerIsToldAndItsLinesAreNotTheUsers) {
  Program run(Served("echo up; " + Until("done"), {"-H", "h1:4", "-np", "3", "--spares", "1",
                                                   "--min-np", "2", "--max-np", "4"}));
  ASSERT_TRUE(run.WaitForOutput("up\n"));
  Make("say", LossLines("0-2", 2, "0-1,3"));
  ASSERT_TRUE(run.WaitForOutput("epoch 2 with 3 ranks: 0-1,3"));
  EXPECT_TRUE(run.WaitForOutput("rank 2 (host h1) failed; the others go on"));
  const Finished finished = Finish(&run);
  EXPECT_THAT(finished.out, Not(HasSubstr("ringwood server")));
  EXPECT_THAT(directory_.Read("coordinator.arguments"),
              AllOf(HasSubstr(" --elastic "), HasSubstr(" --min-np=2 "), HasSubstr(" --max-np=4"),
                    HasSubstr(" --reattach-grace=0 ")));
}

TEST_F(ElasticRunTest, ACoordinatorThatDiesIsBackAtItsAddressAndNoRankEnds) {
  Program run(Served("echo up $RANK $RINGWOOD_RESTART; " + Until("done"),
                     {"-H", "h1:2", "--servers", "0", "--coordinator-grace", "7"}));
  ASSERT_TRUE(run.WaitForOutput("up 0 0\n"));
  ASSERT_TRUE(run.WaitForOutput("up 1 0\n"));
  ASSERT_EQ(::kill(PidIn("coordinator.pid"), SIGKILL), 0);
  ASSERT_TRUE(run.WaitForOutput("coordinator again at 127.0.0.1:4321 on host h1"));
  const Finished finished = Finish(&run);
  EXPECT_EQ(CountOf("up ", finished.out), 2u);
  const std::string arguments = directory_.Read("coordinator.arguments");
  const std::string first = arguments.substr(0, arguments.find('\n'));
  const std::string second = arguments.substr(first.size() + 1);
  EXPECT_THAT(first, AllOf(HasSubstr("--listen=:0 "), HasSubstr(" --no-reducer "),
                           HasSubstr(" --servers=0 "), HasSubstr("--reattach-grace=0 ")));
  EXPECT_THAT(second, AllOf(HasSubstr("--listen=127.0.0.1:4321 "), HasSubstr("--reattach-grace=7 "),
                            HasSubstr("--store-patience=")));
  const size_t store = first.find("--store=");
  EXPECT_THAT(second, HasSubstr(first.substr(store, first.find(' ', store) - store)));
}

TEST_F(ElasticRunTest, AServerThatDiesIsStartedAgainAndJoinsAnew) {
  Program run(Served("echo up; " + Until("done"), {"-H", "h1:1"}));
  ASSERT_TRUE(run.WaitForOutput("up\n"));
  ASSERT_EQ(::kill(PidIn("reducer.pid"), SIGKILL), 0);
  EXPECT_TRUE(run.WaitForOutput(
      "server 0 (host h1) was killed by signal 9 (SIGKILL); it is started again (1 of 5)"));
  Finish(&run);
  EXPECT_THAT(directory_.Read("reducer.arguments"),
              AllOf(HasSubstr(" --reducer-index=0 "), HasSubstr(" --servers=1 "),
                    HasSubstr(" --coordinator=127.0.0.1:4321 ")));
}

TEST_F(ElasticRunTest, ARankThatIsStoppedAndDoesNotComeBackIsEndedAndStartedAgain) {
  Program run(
      Served("[ $RANK$RINGWOOD_RESTART = 10 ] && { echo stops; kill -STOP $$; }; echo up "
             "$RANK $RINGWOOD_RESTART; " +
                 Until("done"),
             {"-H", "h1:2", "--join-timeout", "4"}));
  ASSERT_TRUE(run.WaitForOutput("stops"));
  ASSERT_TRUE(run.WaitForOutput("up 0 0"));
  Make("say", LossLines("0-1", 1, "0"));
  ASSERT_TRUE(run.WaitForOutput("rank 1 (host h1) has not come back for 4 s"));
  ASSERT_TRUE(run.WaitForOutput("up 1 1"));
  const Finished finished = Finish(&run);
  EXPECT_THAT(finished.err,
              HasSubstr("rank 1 (host h1) was stopped (SIGSTOP) and did not come back"));
}

TEST_F(ElasticRunTest, TheAttemptFailsWhenTheCoordinatorGivesUpAndTheCauseComesFirst) {
  Program run(Served("echo words of $RANK; [ $RANK$RINGWOOD_RESTART = 10 ] && kill -9 $$; " +
                         Until("over") + "; exit 75",
                     {"-H", "h1:2"}));
  ASSERT_TRUE(run.WaitForOutput("it is started again (1 of 10)"));
  Make("say", std::string(kVerdict) + "rank 1 (host h1) failed at step 4 of epoch 1: it died\n");
  Make("over");
  const Finished finished = run.Wait();
  EXPECT_EQ(finished.code, 75) << finished.err;
  const size_t told = finished.err.find("rank 1 (host h1) failed at step 4 of epoch 1: it died");
  const size_t tail = finished.err.find("last lines of rank 1");
  EXPECT_LT(told, tail);
  EXPECT_THAT(finished.err.substr(std::min(tail, finished.err.size())),
              HasSubstr("  | words of 1"));
}

TEST_F(ElasticRunTest, AHostWhoseProcessesFailAgainAndAgainIsSetAside) {
  Program run(Alone("[ $RINGWOOD_HOST = h2 ] && kill -9 $$; " + Until("done"),
                    {"-H", "h1:1,h2:1", "--rsh", rsh_, "--network-interface", "lo",
                     "--host-failures", "2", "--host-cooldown", "600"}));
  ASSERT_TRUE(run.WaitForOutput("host h2 is set aside for 600 s: its processes failed 2 times"));
  Finish(&run);
}

TEST_F(ElasticRunTest, ALostHostsRanksAreStartedAgainThere) {
  const std::string mark = UniqueSeconds();
  const std::string script =
      "[ $RINGWOOD_HOST = h1 ] && { " + Until("done") +
      "; exit 0; }; [ $RINGWOOD_RESTART = 0 ] || { echo back; exit 0; }; echo "
      "$PPID > " +
      At("worker") + "; echo waits; exec sleep " + mark;
  Program run(Alone(script, {"-H", "h1:1,h2:1", "--rsh", rsh_, "--network-interface", "lo"}));
  ASSERT_TRUE(run.WaitForOutput("waits"));
  ASSERT_EQ(::kill(PidIn("worker"), SIGKILL), 0);
  ASSERT_TRUE(run.WaitForOutput("[1] back"));
  const Finished finished = Finish(&run);
  EXPECT_THAT(finished.err,
              AllOf(HasSubstr("the connection to host h2 ended"),
                    HasSubstr("rank 1 (host h2) was lost with its host; it is started")));
  EXPECT_TRUE(WaitUntilGone(mark));
}

TEST_F(ElasticRunTest, AHostThatCannotBeReachedAtTheStartIsTriedAgainWithItsServer) {
  const std::string rsh =
      directory_.Write("away",
                       "#!/bin/sh\n[ $1 = h2 ] && [ ! -e " + At("reachable") +
                           " ] && echo no route to $1 >&2 && exit 255\nshift\nexec \"$@\"\n",
                       true);
  Program run(Served("echo up $RANK; " + Until("done"),
                     {"-H", "h1:1,h2:1", "--rsh", rsh, "--network-interface", "lo"}));
  ASSERT_TRUE(run.WaitForOutput("server 1 (host h2) was lost with its host; it is started again"));
  Make("reachable");
  ASSERT_TRUE(run.WaitForOutput("up 1"));
  const Finished finished = Finish(&run);
  EXPECT_EQ(CountOf("up 0", finished.out), 1u);
  EXPECT_THAT(finished.err, HasSubstr("no route to h2"));
}

TEST_F(ElasticRunTest, CtrlCEndsWhatWasStartedAgainToo) {
  const std::string mark = UniqueSeconds();
  Program run(
      Alone("[ $RANK$RINGWOOD_RESTART = 10 ] && kill -9 $$; echo $RANK up; exec sleep " + mark,
            {"-np", "2"}));
  ASSERT_TRUE(run.WaitForOutput("1 up"));
  ASSERT_TRUE(run.WaitForOutput("0 up"));
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait().code, 130);
  EXPECT_TRUE(WaitUntilGone(mark));
}

TEST_F(ElasticRunTest, FlagsThatDoNotFitAreRefused) {
  const auto refused = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "-np", "2", "--no-server"});
    flags.insert(flags.end(), {"--", "true"});
    const Finished run = RunProgram(flags);
    EXPECT_EQ(run.code, 78) << flags[4];
    return run.err;
  };
  EXPECT_THAT(refused({"--spares", "1"}), HasSubstr("--elastic"));
  EXPECT_THAT(refused({"--min-np", "1"}), HasSubstr("--elastic"));
  EXPECT_THAT(refused({"--elastic", "--min-np", "3"}), HasSubstr("--min-np 3"));
  EXPECT_THAT(refused({"--elastic", "--max-np", "1"}), HasSubstr("--max-np 1"));
  EXPECT_THAT(refused({"--elastic", "--spares", "-1"}), HasSubstr("--spares"));
}

}  // namespace
}  // namespace ringwood

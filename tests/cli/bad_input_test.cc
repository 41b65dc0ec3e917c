// Bad input: exit code 78, the cause and the remedy in one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::string name;
  std::vector<std::string> arguments;
  std::string says;
};

class BadInput : public ::testing::TestWithParam<Case> {};

TEST_P(BadInput, IsRefusedWithItsReason) {
  const Finished run = RunProgram(GetParam().arguments);
  EXPECT_EQ(run.code, 78) << run.err;
  EXPECT_THAT(run.err, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Launcher, BadInput,
    ::testing::ValuesIn(std::vector<Case>{
        {"NoCommand", {}, "subcommand"},
        {"UnknownFlag", {"run", "--nope"}, "--nope"},
        {"UnknownFlagsInTheirOrder",
         {"run", "-np", "2", "--job", "8", "--nope=3", "--", "true"},
         "not expected: --job 8 --nope=3; see ringwood run --help"},
        {"ProgramWithoutDashes",
         {"run", "-np", "2", "python", "train.py"},
         "not expected: python train.py; see ringwood run --help. "
         "Example: ringwood run -np 4 -- python train.py"},
        {"WordThatNoProgramIs",
         {"doctor", "hosts"},
         "not expected: hosts; see ringwood doctor --help\n"},
        {"UnknownCommand", {"runn"}, "runn"},
        {"NothingToRun", {"run", "-np", "2"}, "no command to run"},
        {"NoRanks", {"run", "--", "true"}, "-np N"},
        {"NegativeRanks", {"run", "-np", "-3", "--", "true"}, "-np"},
        {"RanksAreText", {"run", "-np", "four", "--", "true"}, "four"},
        {"RanksHaveAFraction",
         {"run", "-np", "4.5", "--", "true"},
         "\"4.5\" is not a whole number"},
        {"RanksHaveAnExponent",
         {"run", "-np", "1e1", "--", "true"},
         "\"1e1\" is not a whole number"},
        {"RanksAreHexadecimal",
         {"run", "-np", "0x10", "--", "true"},
         "\"0x10\" is not a whole number"},
        {"RanksAreTooLong", {"run", "-np", "99999999999", "--", "true"}, "is not within"},
        {"TimeIsHexadecimal", {"status", "--timeout", "0x10"}, "\"0x10\" is not a number"},
        {"SwitchIsNeitherOnNorOff",
         {"run", "-np", "1", "--adapt=maybe", "--", "true"},
         "--adapt: \"maybe\" is neither on nor off: give 1 or 0"},
        {"ContraryIsNeitherOnNorOff",
         {"run", "-np", "1", "--no-momentum-masking=x", "--", "true"},
         "--no-momentum-masking: \"x\" is neither"},
        {"ContraryIsALargeNumber",
         {"run", "-np", "1", "--no-momentum-masking=99999999999999999999", "--", "true"},
         "--no-momentum-masking: \"99999999999999999999\" is neither"},
        {"EmptyStore", {"run", "-np", "1", "--store", "", "--", "true"}, "--store: it is empty"},
        {"EmptyTokenFile",
         {"server", "--insecure", "--token-file", ""},
         "--token-file: it is empty: give a value, or leave the flag out"},
        {"EmptyIdentity",
         {"status", "--server", "h1:7070", "--identity", ""},
         "--identity: it is empty"},
        {"EmptyTimeline",
         {"run", "-np", "1", "--timeline", "", "--", "true"},
         "--timeline: it is empty"},
        {"EmptyFrozenPlan",
         {"run", "-np", "1", "--freeze-plan", "", "--", "true"},
         "--freeze-plan: it is empty"},
        {"EmptyCoordStore", {"server", "--insecure", "--coord-store", ""}, "--coord-store: it is"},
        {"StepGivenTwice",
         {"checkpoint", "verify", "0", "--step", "6", "--store", "s"},
         "--step and step: give one of them"},
        {"NoHostfile", {"run", "--hostfile", "/nonexistent", "--", "true"}, "/nonexistent"},
        {"TwoHostLists", {"run", "-H", "h1", "--hostfile", "f", "--", "true"}, "one of them"},
        {"TooManyRanks", {"run", "-np", "9", "-H", "h1:4", "--", "true"}, "slots (4)"},
        {"HostsWithoutACard", {"run", "-H", "h1,h2", "--", "true"}, "--network-interface"},
        {"UntrustedCard",
         {"run", "-np", "2", "--network-interface", "eth7", "--transport", "ucx", "--", "true"},
         "--trusted-fabric"},
        {"NoPorts", {"run", "-np", "2", "--port-range", "9-8", "--", "true"}, "20000-20099"},
        {"NoSuchPlanner",
         {"run", "-np", "2", "--planner", "crystal", "--", "true"},
         "--planner: there is no planner 'crystal'"},
        {"FrozenPlanThatAdapts",
         {"run", "-np", "2", "--adapt", "--freeze-plan", "/nonexistent/plan", "--", "true"},
         "one of --adapt and --freeze-plan"},
        {"NoServers", {"run", "-np", "2", "--servers", "0", "--", "true"}, "--servers"},
        {"NoTime",
         {"run", "-np", "2", "--failure-timeout", "0", "--", "true"},
         "--failure-timeout"},
        {"TimeIsNoNumber",
         {"run", "-np", "2", "--failure-timeout", "nan", "--", "true"},
         "--failure-timeout: \"nan\" is not a finite number"},
        {"EndlessJoin",
         {"run", "-np", "2", "--join-timeout", "inf", "--", "true"},
         "--join-timeout"},
        {"ForwardIsNoNumber", {"plan", "--trace", "t", "--forward", "nan"}, "--forward"},
        {"ContentionIsNoShare", {"plan", "--trace", "t", "--contention", "5"}, "--contention: 5"},
        {"RoundsOfNoShare",
         {"plan", "--trace", "t", "--rounds", "--utilisation", "1"},
         "--utilisation"},
        {"PlanWithoutServers", {"plan", "--trace", "t", "--servers", "0"}, "--servers"},
        {"SimulateWithoutServers",
         {"simulate", "--trace", "t", "--workers", "4", "--network", "alpha=1e-4,beta=1e-9",
          "--servers", "0"},
         "--servers"},
        {"ReplayWithoutServers",
         {"replay", "--trace", "t", "--workers", "2", "--servers", "0"},
         "--servers"},
        {"ReportIntoNowhere",
         {"run", "-np", "1", "--report", "/nonexistent/r.json", "--", "true"},
         "--report /nonexistent/r.json: there is no directory /nonexistent"},
        {"ReportIsADirectory", {"run", "-np", "1", "--report", "/tmp", "--", "true"}, "directory"},
        {"FlightRecordIntoNowhere",
         {"run", "-np", "1", "--flight-record", "/nonexistent/f", "--", "true"},
         "--flight-record"},
        {"NoFrozenPlan",
         {"run", "-np", "1", "--freeze-plan", "/nonexistent/plan", "--", "true"},
         "--freeze-plan /nonexistent/plan"},
        {"FrozenPlanIsADirectory",
         {"run", "-np", "1", "--freeze-plan", "/tmp", "--", "true"},
         "not a regular file"},
        {"TimelineIsADirectory", {"trace", "summary", "/tmp"}, "/tmp is a directory"},
        {"HostIsAnOption",
         {"run", "-H", "@x:2", "--network-interface", "lo", "--", "true"},
         "\"@x\" is not a host name"},
        {"RemoteProgramIsTwoWords",
         {"run", "-H", "h1:1", "--remote-program", "/opt/ring wood; true", "--", "true"},
         "--remote-program"},
        {"ArgumentIsNotUtf8", {"run", "-np", "1", "--", "echo", "a\xff"}, "word 2"},
        {"VariableIsNotUtf8", {"run", "-np", "1", "-x", "A=\xff", "--", "true"}, "variable A"},
        {"ResumeFromNowhere", {"run", "-np", "2", "--resume", "--", "true"}, "--store"},
        {"NoSuchCommand",
         {"run", "--no-server", "-np", "2", "--", "no-such-command"},
         "cannot start \"no-such-command\""},
        {"NoSuchVariable", {"run", "-np", "1", "-x", "NO_SUCH", "--", "true"}, "NO_SUCH"},
        {"UnwritableLog",
         {"run", "--no-server", "-np", "1", "--output-filename", "/nonexistent/x", "--", "true"},
         "/nonexistent/x"},
        {"NoRemoteShell",
         {"run", "--no-server", "-H", "h1:1", "--rsh", "no-such-shell", "--", "true"},
         "no-such-shell"},
        {"WorkerByHand", {"worker", "job.json"}, "source"},
        {"NoStore", {"checkpoint", "list", "--store", "/nonexistent/store"}, "/nonexistent/store"},
        {"NoCoordinator",
         {"server", "--insecure", "--coordinator", "h1:7070,here"},
         "--coordinator: \"here\" is not HOST:PORT"},
        {"NoEndpoint", {"status", "--coordinator", "here"}, "HOST:PORT"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(BadInput, AHostfileErrorNamesFileAndLine) {
  TemporaryDirectory directory;
  const std::string file = directory.Write("hosts", "h1 slots=2\n\nh2 slots=two\n");
  const Finished run = RunProgram({"run", "--hostfile", file, "--", "true"});
  EXPECT_EQ(run.code, 78);
  EXPECT_THAT(run.err, HasSubstr(file + " line 3"));
}

TEST(BadInput, AVariableOfTheEnvironmentIsCheckedLikeItsFlag) {
  const Finished run =
      RunProgram({"run", "-np", "1", "--", "true"}, {{"RINGWOOD_LOG_LEVEL", "loud"}});
  EXPECT_EQ(run.code, 78);
  EXPECT_THAT(run.err, HasSubstr("loud"));
}

TEST(BadInput, ASwitchOfTheEnvironmentIsCheckedLikeItsFlag) {
  for (const auto& [name, value] : Environment{{"RINGWOOD_TRUSTED_FABRIC", "maybe"},
                                               {"RINGWOOD_ADAPT", "99999999999999999999"}}) {
    const Finished run = RunProgram({"run", "-np", "1", "--", "true"}, {{name, value}});
    EXPECT_EQ(run.code, 78) << run.err;
    EXPECT_THAT(run.err, HasSubstr("\"" + value + "\" is neither on nor off"));
    EXPECT_THAT(run.err, HasSubstr("(" + name + ")"));
  }
}

TEST(BadInput, AVariableOfAnotherCommandIsNotLookedAt) {
  const Finished run =
      RunProgram({"token", "new"}, {{"RINGWOOD_ADAPT", "maybe"}, {"RINGWOOD_LOG_LEVEL", "loud"}});
  EXPECT_EQ(run.code, 0) << run.err;
}

TEST(BadInput, TheLeastDensityIsNotAboveTheGreatest) {
  TemporaryDirectory directory;
  const std::string profile = directory.Write("t.csv", "tensor,numel,ready_time_us\nfc,1000,0\n");
  const Finished plan = RunProgram({"plan", "--trace", profile, "--network", "alpha=1e-4,beta=1e-9",
                                    "--workers", "4", "--density", "0.5", "--max-density", "0.1"});
  EXPECT_EQ(plan.code, 78);
  EXPECT_THAT(plan.err, HasSubstr("--density 0.5 is above --max-density 0.1"));
}

TEST(BadInput, WhatDoesNotFitTheWorldIsNamed) {
  TemporaryDirectory directory;
  const std::string profile = directory.Write("t.csv", "tensor,numel,ready_time_us\nfc,1000,0\n");
  const Finished plan = RunProgram({"plan", "--trace", profile, "--network", "alpha=1e-4,beta=1e-9",
                                    "--workers", "4", "--ranks-per-host", "999"});
  EXPECT_EQ(plan.code, 78);
  EXPECT_THAT(plan.err, HasSubstr("--ranks-per-host 999: there are 4 workers"));
  const Finished simulate =
      RunProgram({"simulate", "--trace", profile, "--network", "alpha=1e-4,beta=1e-9", "--workers",
                  "2,4", "--straggler", "9=2"});
  EXPECT_EQ(simulate.code, 78);
  EXPECT_THAT(simulate.err, HasSubstr("rank 9"));
  const Finished hosts =
      RunProgram({"simulate", "--trace", profile, "--network", "alpha=1e-4,beta=1e-9", "--workers",
                  "4,2", "--ranks-per-host", "3"});
  EXPECT_EQ(hosts.code, 78);
  EXPECT_THAT(hosts.err, HasSubstr("--ranks-per-host 3: there are 2 workers"));
}

TEST(BadInput, WhatNoNetworkTakesIsRefused) {
  TemporaryDirectory directory;
  const std::string profile = directory.Write("t.csv", "tensor,numel,ready_time_us\nfc,1000,0\n");
  const auto refused = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin() + 1, {"--trace", profile, "--workers", "8"});
    const Finished run = RunProgram(flags);
    EXPECT_EQ(run.code, 78) << run.err;
    return run.err;
  };
  EXPECT_THAT(refused({"plan", "--network", "alpha=1e308,beta=1", "--planner", "hybrid"}),
              HasSubstr("alpha=1e+308"));
  EXPECT_THAT(refused({"simulate", "--network", "alpha=1,beta=1e308"}), HasSubstr("beta=1e+308"));
  EXPECT_THAT(refused({"plan", "--network", "alpha=1,beta=1", "--forward", "1e308"}),
              HasSubstr("the forward time is 1e+308"));
  EXPECT_THAT(refused({"simulate", "--network", "alpha=1,beta=1", "--straggler", "1=1e308"}),
              HasSubstr("'1=1e308': a factor is at most 1e+06"));
  const Finished run = RunProgram({"run", "-np", "2", "--plan-for", "1e-310gbit", "--", "true"});
  EXPECT_EQ(run.code, 78) << run.err;
  EXPECT_THAT(run.err, HasSubstr("a rate from 1 bit/s"));
}

TEST(BadInput, ADensityAboveTheHighestOneIsRefused) {
  TemporaryDirectory directory;
  const std::string profile = directory.Write("t.csv", "tensor,numel,ready_time_us\nfc,1000,0\n");
  for (const char* command : {"plan", "simulate"}) {
    const Finished run =
        RunProgram({command, "--trace", profile, "--network", "alpha=1e-4,beta=1e-9", "--workers",
                    "4", "--density", "0.5", "--max-density", "0.1"});
    EXPECT_EQ(run.code, 78) << run.err;
    EXPECT_THAT(run.err, HasSubstr("--density 0.5 is above --max-density 0.1; give"));
  }
}

TEST(BadInput, ADamagedTimelineIsConfiguration) {
  TemporaryDirectory directory;
  const Finished run =
      RunProgram({"trace", "summary", directory.Write("t.json", "[\n{\"ph\": nonsense\n]\n{}\n")});
  EXPECT_EQ(run.code, 78) << run.err;
}

TEST(Flags, NumbersAreDecimal) {
  for (const auto& [given, last] : Environment{{"010", "9"}, {"08", "7"}}) {
    const Finished run = RunProgram({"run", "-np", given, "--dry-run", "--", "true"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("ranks 0.." + last + "\n"));
  }
}

TEST(Flags, AnEmptyVariableCountsAsNotGiven) {
  const Finished run = RunProgram({"run", "-np", "1", "--dry-run", "--", "true"},
                                  {{"RINGWOOD_ADAPT", ""}, {"RINGWOOD_FREEZE_PLAN", ""}});
  EXPECT_EQ(run.code, 0) << run.err;
}

TEST(Flags, OfASwitchAndItsContraryTheLastCounts) {
  const Finished run =
      RunProgram({"run", "--no-server", "-np", "1", "--no-momentum-masking", "--momentum-masking",
                  "--", "sh", "-c", "echo masking=$RINGWOOD_MOMENTUM_MASKING"});
  EXPECT_THAT(run.out, HasSubstr("masking=1"));
}

TEST(Flags, ACountIsWhatItsOptionMayBe) {
  for (const char* variable : {"RINGWOOD_SPARSE_CHUNK", "RINGWOOD_WARMUP_STEPS"}) {
    const Finished most =
        RunProgram({"run", "-np", "1", "--dry-run", "--", "true"}, {{variable, "1000000000"}});
    EXPECT_EQ(most.code, 0) << most.err;
    const Finished more =
        RunProgram({"run", "-np", "1", "--dry-run", "--", "true"}, {{variable, "1000000001"}});
    EXPECT_EQ(more.code, 78) << variable;
  }
}

TEST(Flags, TheLastOfARepeatedFlagCounts) {
  const Finished run = RunProgram({"run", "--no-server", "-np", "4", "--num-proc", "3", "-np", "2",
                                   "--", "sh", "-c", "echo $WORLD_SIZE"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, ::testing::AnyOf("2\n[1] 2\n", "[1] 2\n2\n"));
}

TEST(DryRun, SaysWhereEveryRankWouldRunAndRunsNothing) {
  const Finished run =
      RunProgram({"run", "-H", "h1:2,h2:2", "--network-interface", "eth0", "--trusted-fabric",
                  "--dry-run", "--", "touch", "/nonexistent/x"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("host h1: ranks 0..1 by ssh h1 "));
  EXPECT_THAT(run.out, HasSubstr("host h2: ranks 2..3"));
}

TEST(Status, ACoordinatorThatIsNotThereIsWorthAnotherTry) {
  const Finished run = RunProgram({"status", "--coordinator", "127.0.0.1:1", "--timeout", "1"});
  EXPECT_EQ(run.code, 75) << run.err;
  EXPECT_THAT(run.err, HasSubstr("127.0.0.1:1"));
}

TEST(Doctor, NamesTheLoopbackCardAndTheLibraries) {
  const Finished run = RunProgram({"doctor"});
  EXPECT_EQ(run.code, 0);
  for (const char* word : {"UCX", "RocksDB", "gRPC", "127.0.0.1"})
    EXPECT_THAT(run.out, HasSubstr(word));
}

}  // namespace
}  // namespace ringwood

// `ringwood server … -- COMMAND`: the server of one job, which ends with it.
#include "launch/served_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "paths.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Serving(const std::string& script, std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), "server");
  flags.insert(flags.end(), {"--", "sh", "-c", script});
  return flags;
}

TEST(ServedCommand, FindsTheServerAndANewTokenInItsEnvironment) {
  const std::string print = "echo \"<$RINGWOOD_COORDINATOR $RINGWOOD_TOKEN $HERS>\"";
  const Finished first = RunProgram(Serving(print), {{"HERS", "kept"}});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, ContainsRegex("<127\\.0\\.0\\.1:[0-9]+ [0-9a-f]{64} kept>"));
  const Finished second = RunProgram(Serving(print));
  EXPECT_NE(first.out.substr(first.out.find('<')), second.out.substr(second.out.find('<')));
}

TEST(ServedCommand, AsksTheServerThatRunsBesideIt) {
  const std::string program = std::string(RINGWOOD_BINARY_DIR) + "/bin/ringwood";
  const Finished asked =
      RunProgram(Serving(program + " status --coordinator $RINGWOOD_COORDINATOR --timeout 60"));
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_THAT(asked.out, HasSubstr("waiting"));
}

TEST(ServedCommand, ItsCodeIsTheProgramsAndASignalCountsAsInAShell) {
  EXPECT_EQ(RunProgram(Serving("exit 75")).code, 75);
  EXPECT_EQ(RunProgram(Serving("kill -9 $$")).code, 137);
}

TEST(ServedCommand, ASignalIsForIt) {
  Program server(
      Serving("trap 'echo told; exit 75' TERM; echo there; while :; do sleep 0.1; done"));
  ASSERT_TRUE(server.WaitForOutput("there"));
  server.Signal(SIGTERM);
  const Finished finished = server.Wait();
  EXPECT_EQ(finished.code, 75) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("told"));
}

TEST(ServedCommand, DiesWithTheServer) {
  const std::string seconds = UniqueSeconds();
  const std::string command = std::string("sleep") + '\0' + seconds;  // and not the script
  Program server(Serving("exec sleep " + seconds));
  ASSERT_TRUE(WaitUntilThere(command, 1));
  server.Signal(SIGKILL);
  EXPECT_TRUE(WaitUntilGone(command));
}

TEST(ServedCommand, ItsFilesAreNotPrivateAsTheStoresAre) {
  EXPECT_THAT(RunProgram({"server", "--", "sh", "-c", "umask"}).out, Not(HasSubstr("0077")));
}

TEST(ServedCommand, WhatCannotServeOneJobIsRefused) {
  const Finished further = RunProgram(Serving("true", {"--coordinator", "127.0.0.1:1"}));
  EXPECT_EQ(further.code, 78);
  EXPECT_THAT(further.err, HasSubstr("without --coordinator"));
  EXPECT_EQ(RunProgram({"server", "--"}).code, 78);
  const Finished absent = RunProgram({"server", "--", "/no/such/program"});
  EXPECT_EQ(absent.code, 78);
  EXPECT_THAT(absent.err, HasSubstr("/no/such/program"));
}

TEST(ServedCommand, OnANetworkInterfaceTheServerListensThereAndTheRanksAreTold) {
  const Finished seen = RunProgram(
      {"server", "--network-interface", "lo", "--trusted-fabric", "--transport", "grpc",
       "--port-range", "29000-31999", "--join-timeout", "30", "--", "sh", "-c",
       "env | grep -E '^RINGWOOD_(COORDINATOR|JOIN|NETWORK|PORT|TR)' | sort | tr '\\n' ' '"});
  EXPECT_THAT(seen.out, ContainsRegex("RINGWOOD_COORDINATOR=127\\.0\\.0\\.1:[0-9]+ "
                                      "RINGWOOD_JOIN_TIMEOUT=30 RINGWOOD_NETWORK_INTERFACE=lo "
                                      "RINGWOOD_PORT_RANGE=29000-31999 RINGWOOD_TRANSPORT=grpc "
                                      "RINGWOOD_TRUSTED_FABRIC=1 "))
      << seen.err;
}

TEST(ServedCommand, TheTimeToJoinIsTheFlagsOrElseThatOfTheEnvironment) {
  const std::string print = "echo \"<$RINGWOOD_JOIN_TIMEOUT>\"";
  const Environment given = {{"RINGWOOD_JOIN_TIMEOUT", "600"}};
  EXPECT_THAT(RunProgram(Serving(print), given).out, HasSubstr("<600>"));
  EXPECT_THAT(RunProgram(Serving(print, {"--join-timeout", "30"}), given).out, HasSubstr("<30>"));
  EXPECT_THAT(RunProgram(Serving(print)).out, HasSubstr("<120>"));
  EXPECT_EQ(RunProgram(Serving(print), {{"RINGWOOD_JOIN_TIMEOUT", "soon"}}).code, 78);
}

TEST(ServedCommand, WhatIsNotGivenIsLeftToItsOwnEnvironment) {
  RankContext context;
  context.coordinator = "10.0.0.1:7070";
  context.token = "given";
  context.transport = "auto";
  context.join_timeout_seconds = 120;
  const Environment expected = {{"RINGWOOD_COORDINATOR", "10.0.0.1:7070"},
                                {"RINGWOOD_TOKEN", "given"},
                                {"RINGWOOD_TRANSPORT", "ucx"},
                                {"RINGWOOD_JOIN_TIMEOUT", "120"}};
  EXPECT_EQ(
      ServedEnvironment({{"RINGWOOD_TRANSPORT", "ucx"}, {"RINGWOOD_TOKEN", "old"}}, context, ""),
      expected);
}

}  // namespace
}  // namespace ringwood

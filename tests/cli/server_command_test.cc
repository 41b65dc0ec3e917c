// The server from outside: alone, and inside `ringwood run`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "base/random.h"
#include "launch/server_line.h"
#include "paths.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Waits until it listens.
std::string AddressOf(Program* server) {
  EXPECT_TRUE(server->WaitForOutput(kListening));
  const Finished seen = server->Wait(0.01);
  const size_t at = seen.out.find(kListening) + sizeof(kListening) - 1;
  return seen.out.substr(at, seen.out.find('\n', at) - at);
}

TEST(ServerCommand, SaysWhereItListensAndEndsInOrderOnSigterm) {
  TemporaryDirectory directory;
  Program server(
      {"server", "--listen", "127.0.0.1:0", "--store", directory.path() + "/store", "--insecure"});
  ASSERT_TRUE(server.WaitForOutput(kListening));
  server.Signal(SIGTERM);
  const Finished finished = server.Wait();
  EXPECT_EQ(finished.code, 0) << finished.err;
}

TEST(StatusCommand, AsksTheCoordinatorItselfWhateverProxyTheEnvironmentNames) {
  Program server({"server", "--listen", "127.0.0.1:0", "--servers", "0", "--insecure"});
  const std::string address = AddressOf(&server);
  const Finished status = RunProgram({"status", "--coordinator", address, "--timeout", "60"},
                                     {{"http_proxy", "http://127.0.0.1:1"}});
  EXPECT_EQ(status.code, 0) << status.err;
}

TEST(StatusCommand, OfSeveralAddressesAsksTheOneThatAnswers) {
  Program server({"server", "--listen", "127.0.0.1:0", "--servers", "0", "--insecure"});
  const std::string address = AddressOf(&server);
  const Finished status =
      RunProgram({"status", "--coordinator", "127.0.0.1:1," + address, "--timeout", "60"});
  EXPECT_EQ(status.code, 0) << status.err;
  const Finished wrong = RunProgram({"status", "--coordinator", address + ",here"});
  EXPECT_EQ(wrong.code, 78);
  EXPECT_NE(wrong.err.find("\"here\" is not HOST:PORT"), std::string::npos) << wrong.err;
}

// Until ranks have left: tests/python/entry/test_entry.py.
TEST(ServerCommand, DrainsAtOnceWhereNoJobRuns) {
  Program server({"server", "--listen", "127.0.0.1:0", "--insecure", "--drain"});
  const std::string address = AddressOf(&server);
  Program reducer({"server", "--coordinator", address, "--of-rank", "3", "--drain"});
  ASSERT_TRUE(reducer.WaitForOutput(kListening));
  for (Program* program : {&reducer, &server}) {
    program->Signal(SIGTERM);
    const Finished finished = program->Wait();
    EXPECT_EQ(finished.code, 0) << finished.err;
  }
}

TEST(ServerCommand, RefusesToDrainOrToBeARanksReducerWhereThatMeansNothing) {
  const auto error = [](const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"server", "--listen", "127.0.0.1:0", "--insecure"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished finished = RunProgram(arguments);
    EXPECT_EQ(finished.code, 78) << finished.err;
    return finished.err;
  };
  EXPECT_THAT(error({"--drain", "--", "true"}), HasSubstr("a signal is for the command after --"));
  EXPECT_THAT(error({"--drain", "--jobs", "2"}), HasSubstr("without --jobs and --coord-store"));
  EXPECT_THAT(error({"--drain", "--coord-store", "etcd://127.0.0.1:1/x"}),
              HasSubstr("without --jobs and --coord-store"));
  EXPECT_THAT(error({"--of-rank", "1"}), HasSubstr("give its address with --coordinator"));
}

TEST(ServerCommand, AReducerWithoutAStoreSaysThatItListensOnNoPort) {
  Program coordinator({"server", "--listen", "127.0.0.1:0", "--servers", "2", "--insecure"});
  const std::string address = AddressOf(&coordinator);
  Program reducer({"server", "--coordinator", address, "--servers", "2", "--reducer-index", "1"});
  EXPECT_EQ(AddressOf(&reducer), "no port: it joins the coordinator at " + address);
}

TEST(ServerCommand, ReducersEndInOrderWhateverTheirCallsWaitFor) {
  Random random(1);
  for (int round = 0; round < 8; ++round) {
    Program coordinator({"server", "--listen", "127.0.0.1:0", "--servers", "3", "--insecure"});
    const std::string address = AddressOf(&coordinator);
    std::vector<std::unique_ptr<Program>> reducers;
    for (const char* index : {"1", "2"}) {
      reducers.push_back(std::make_unique<Program>(std::vector<std::string>{
          "server", "--coordinator", address, "--servers", "3", "--reducer-index", index}));
      ASSERT_TRUE(reducers.back()->WaitForOutput(kListening));
    }
    // Joins wait for a world that does not come; half of the time the coordinator is lost first.
    std::this_thread::sleep_for(std::chrono::milliseconds(random.Below(60)));
    if (round % 2 == 0) coordinator.Signal(SIGKILL);
    for (const auto& reducer : reducers) reducer->Signal(SIGTERM);
    for (const auto& reducer : reducers) {
      const Finished finished = reducer->Wait();
      EXPECT_EQ(finished.code, 0) << finished.err;
      EXPECT_THAT(finished.err, Not(HasSubstr("ref_counted")));
    }
    if (round % 2 == 0) continue;
    coordinator.Signal(SIGTERM);
    EXPECT_EQ(coordinator.Wait().code, 0);
  }
}

TEST(ServerCommand, AStoreInUseIsRefused) {
  TemporaryDirectory directory;
  const std::vector<std::string> arguments = {
      "server", "--listen", "127.0.0.1:0", "--store", directory.path() + "/store", "--insecure"};
  Program first(arguments);
  ASSERT_TRUE(first.WaitForOutput(kListening));
  const Finished second = RunProgram(arguments);
  EXPECT_EQ(second.code, 78);
  EXPECT_THAT(second.err, AllOf(HasSubstr("in use"), HasSubstr("--store")));
  first.Signal(SIGINT);
  EXPECT_EQ(first.Wait().code, 0);
}

TEST(ServerCommand, APortInUseIsRefused) {
  Program first({"server", "--listen", "127.0.0.1:0", "--insecure"});
  const std::string address = AddressOf(&first);
  const Finished second = RunProgram({"server", "--listen", address, "--insecure"});
  EXPECT_EQ(second.code, 78) << address;
  EXPECT_THAT(second.err, HasSubstr(address + ": the port is in use"));
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait().code, 0);
}

TEST(ServerCommand, PlaintextOffLoopbackIsRefused) {
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--listen", "0.0.0.0:0", "--insecure"}, {"--listen", "127.0.0.1:0"}}) {
    std::vector<std::string> arguments = {"server"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished finished = RunProgram(arguments);
    EXPECT_EQ(finished.code, 78) << flags[1];
    EXPECT_THAT(finished.err, HasSubstr("--insecure"));
  }
}

TEST(RunWithServer, EveryRankReachesTheSameCoordinator) {
  TemporaryDirectory directory;
  const Finished run =
      RunProgram({"run", "-np", "2", "--servers", "3", "--store", directory.path() + "/store", "--",
                  "sh", "-c", "exec " + kProgram + " status"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("epoch"), HasSubstr("[1] "), Not(HasSubstr(kListening))));
  EXPECT_THAT(run.err, HasSubstr("coordinator at 127.0.0.1:"));
}

TEST(RunWithServer, AStoreInUseEndsTheRunWithTheServersWords) {
  TemporaryDirectory directory;
  const std::string store = directory.path() + "/store";
  Program server({"server", "--listen", "127.0.0.1:0", "--store", store, "--insecure"});
  ASSERT_TRUE(server.WaitForOutput(kListening));
  const Finished run = RunProgram(
      {"run", "-np", "2", "--store", store, "--max-restarts", "3", "--", "echo", "a rank ran"});
  EXPECT_EQ(run.code, 78);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("server 0 (host localhost) failed first"), HasSubstr("in use")));
  EXPECT_THAT(run.out, Not(HasSubstr("a rank ran")));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait().code, 0);
}

TEST(RunWithServer, ACardThatIsNotThereIsNamed) {
  const Finished run = RunProgram(
      {"run", "-np", "1", "--network-interface", "nocard7", "--trusted-fabric", "--", "true"});
  EXPECT_EQ(run.code, 78) << run.err;
  EXPECT_THAT(run.err, HasSubstr("nocard7"));
}

TEST(RunWithServer, CtrlCEndsServersToo) {
  TemporaryDirectory directory;
  const std::string mark = UniqueSeconds();
  Program run({"run", "-np", "2", "--servers", "2", "--store", directory.path() + "/store", "--",
               "sleep", mark});
  ASSERT_TRUE(WaitUntilThere("sleep", 2));
  ASSERT_TRUE(WaitUntilThere(mark, 3));
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait().code, 130);
  EXPECT_TRUE(WaitUntilGone(mark));
  EXPECT_TRUE(WaitUntilGone(directory.path()));
}

TEST(RunWithServer, KillingTheLauncherLeavesNoServer) {
  TemporaryDirectory directory;
  const std::string mark = UniqueSeconds();
  Program run({"run", "-np", "1", "--store", directory.path() + "/store", "--", "sleep", mark});
  ASSERT_TRUE(WaitUntilThere(mark, 2));
  run.Signal(SIGKILL);
  run.Wait();
  EXPECT_TRUE(WaitUntilGone(mark));
  EXPECT_TRUE(WaitUntilGone(directory.path()));
}

}  // namespace
}  // namespace ringwood

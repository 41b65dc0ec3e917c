// `ringwood bench allreduce`: as a job of its own, inside a job, and when a rank dies or stops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "paths.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Bench, AllReduceInAJobChecksItsSumsAndPrintsATable) {
  const Finished run = RunProgram(
      {"run", "-np", "3", "--", kProgram, "bench", "allreduce", "--sizes=4K,1M", "--repeat=3"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("3 ranks"), HasSubstr("4 KiB"), HasSubstr("1 MiB")));
  EXPECT_THAT(run.out, AllOf(HasSubstr("chosen: "), HasSubstr("by measuring: ")));
}

TEST(Bench, AllReduceChoosesByWhatItMeasuresWhenItAdapts) {
  for (const bool adapt : {false, true}) {
    std::vector<std::string> command = {"bench",      "allreduce", "--workers=3",
                                        "--bytes=4K", "--runs=2",  "--json"};
    if (adapt) command.push_back("--adapt");
    const Finished run = RunProgram(command);
    ASSERT_EQ(run.code, 0) << run.err;
    const auto report = nlohmann::json::parse(run.out);
    EXPECT_EQ(report["cost"] == report["measured"], adapt) << report;
    EXPECT_GT(report["measured"]["alpha"], 0);
    ASSERT_GE(report["switches"].size(), 1u);
    EXPECT_FALSE(report["switches"].back().contains("up_to_bytes"));
  }
}

TEST(Bench, AllReduceStartsItsOwnRanksAndPrintsJson) {
  for (const std::string wire : {"fp32", "bf16", "int8", "int4"}) {
    const Finished run = RunProgram({"bench", "allreduce", "--workers=2", "--bytes=4K,1M",
                                     "--runs=3", "--wire=" + wire, "--json"});
    ASSERT_EQ(run.code, 0) << run.err;
    const auto report = nlohmann::json::parse(run.out);
    EXPECT_EQ(report["wire"], wire);
    ASSERT_EQ(report["results"].size(), 2u);
    const auto& row = report["results"][1];
    EXPECT_EQ(row["bytes"], 1 << 20);
    EXPECT_EQ(row["runs"], 3);
    EXPECT_LE(row["p50_s"], row["p99_s"]);
    for (const char* key : {"p50_s", "algbw_gbit", "busbw_gbit", "cpu_s_per_gb"}) {
      EXPECT_GT(row[key], 0) << key;
    }
  }
}

TEST(Bench, NonsenseIsRefusedBeforeAnythingStarts) {
  const Finished run = RunProgram({"bench", "allreduce", "--workers=2", "--bytes=1"});
  EXPECT_EQ(run.code, 78);
  EXPECT_THAT(run.err, HasSubstr("between 4 bytes"));
}

// In the middle of an all-reduce; the others must not wait for ever.
void ExpectTheJobEnds(int signal, const std::string& verdict) {
  const std::string mark = UniqueSeconds();  // in the command line of every process of the job
  // Until each rank has taken part in one, silence has the join timeout.
  Program run({"run", "-np", "3", "--failure-timeout", "0.5", "--join-timeout", "25", "--",
               kProgram, "bench", "allreduce", "--bytes=64M", "--runs=100000", "--python=" + mark});
  ASSERT_TRUE(run.WaitForOutput("data plane"));
  pid_t victim = -1;
  for (const pid_t pid : ProcessesWith(mark)) victim = pid != run.pid() ? pid : victim;
  ASSERT_GT(victim, 0);
  ASSERT_EQ(kill(victim, signal), 0);
  const Finished finished = run.Wait();
  EXPECT_EQ(finished.code, 75) << finished.err;
  EXPECT_THAT(finished.err, AllOf(HasSubstr("failed first"), HasSubstr(verdict)));
  EXPECT_TRUE(WaitUntilGone(mark));
}

TEST(Bench, AKilledRankEndsTheAllReduceOfTheOthers) { ExpectTheJobEnds(SIGKILL, "SIGKILL"); }

TEST(Bench, AStoppedRankEndsTheAllReduceOfTheOthers) { ExpectTheJobEnds(SIGSTOP, "SIGSTOP"); }

}  // namespace
}  // namespace ringwood

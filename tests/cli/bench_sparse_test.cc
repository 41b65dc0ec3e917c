// `ringwood bench select`, `ringwood bench sparse` and a server's memory bound, from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "paths.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

nlohmann::json ResultsOf(const Finished& run) {
  EXPECT_EQ(run.code, 0) << run.err;
  const nlohmann::json parsed = nlohmann::json::parse(run.out, nullptr, false);
  EXPECT_TRUE(parsed.is_object() && parsed.contains("results")) << run.out;
  return parsed.is_object() ? parsed.value("results", nlohmann::json::array()) : parsed;
}

TEST(BenchSelect, SaysWhatSelectionCostsBesideThePlainUpdate) {
  const auto results = ResultsOf(RunProgram({"bench", "select", "--elements", "100000", "--density",
                                             "0.001,0.01", "--pairs", "3", "--json"}));
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0]["k"], 100);
  EXPECT_EQ(results[1]["k"], 1000);
  EXPECT_GT(results[0]["plain_s"], 0);
  EXPECT_GE(results[0]["ratio_most"], results[0]["ratio"]);
}

TEST(BenchSparse, MeasuresEachKOverSeveralServers) {
  const Finished run = RunProgram({"bench", "sparse", "--workers", "3", "--servers", "2",
                                   "--elements", "300000", "--entries", "100,3000", "--codec",
                                   "rice/int8", "--merge", "exact", "--rounds", "2", "--json"});
  const auto results = ResultsOf(run);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0]["workers"], 3);
  EXPECT_EQ(results[0]["servers"], 2);
  EXPECT_EQ(results[0]["ranges"], 1);
  EXPECT_EQ(results[1]["ranges"], 2);
  EXPECT_EQ(results[1]["k"], 3000);
  EXPECT_GT(results[1]["p50_s"], 0);
  EXPECT_GT(results[1]["bytes_busiest_link"], 3000);  // more than a byte an entry, fewer than six
  EXPECT_LT(results[1]["bytes_busiest_link"], 18000);
}

// Ranks and servers learn from the coordinator alike which of them share a host: the round ends.
TEST(BenchSparse, HostsOfSeveralWorkersGather) {
  TemporaryDirectory directory;
  const std::string rsh = directory.Write("rsh", "#!/bin/sh\nshift\nexec \"$@\"\n", true);
  for (const char* merge : {"gtopk", "exact"}) {
    const Finished run = RunProgram({"bench",      "sparse",    "--workers",
                                     "5",          "--hosts",   "h1:2,h2:3",
                                     "--rsh",      rsh,         "--network-interface",
                                     "lo",         "--servers", "2",
                                     "--elements", "300000",    "--entries",
                                     "100,3000",   "--merge",   merge,
                                     "--rounds",   "2",         "--json"});
    const auto results = ResultsOf(run);
    ASSERT_EQ(results.size(), 2u);
    EXPECT_EQ(results[1]["ranges"], 2);
    EXPECT_GT(results[1]["p50_s"], 0);
  }
}

TEST(BenchSparse, AWrongCodecIsRefusedBeforeAnythingStarts) {
  const Finished run = RunProgram({"bench", "sparse", "--codec", "gzip"});
  EXPECT_EQ(run.code, 78);
  EXPECT_THAT(run.err, HasSubstr("block16/fp32"));
  const Finished many = RunProgram({"bench", "sparse", "--elements", "10", "--entries", "11"});
  EXPECT_EQ(many.code, 78);
  EXPECT_THAT(many.err, HasSubstr("11 of 10"));
}

TEST(MaxMemory, AJobThatMayNeedMoreIsRefusedWithTheNumber) {
  const std::string program = std::string(RINGWOOD_BINARY_DIR) + "/bin/ringwood";
  const Finished run =
      RunProgram({"run", "-np", "2", "--max-memory", "64K", "--", program, "bench-sparse-worker",
                  "--elements=1000000", "--entries=20000", "--rounds=1"});
  EXPECT_EQ(run.code, 78);
  EXPECT_THAT(run.err, HasSubstr("server 0 (host localhost) may need"));
  EXPECT_THAT(run.err, HasSubstr("--max-memory allows 64 KiB"));
}

}  // namespace
}  // namespace ringwood

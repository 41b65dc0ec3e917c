// `ringwood probe` from outside: two ranks on this machine, and one, which has nothing to measure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "paths.h"
#include "plan/model/cost_option.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

Finished ProbeOn(int ranks, std::vector<std::string> flags) {
  std::vector<std::string> arguments = {"run",
                                        "-np",
                                        std::to_string(ranks),
                                        "--",
                                        std::string(RINGWOOD_BINARY_DIR) + "/bin/ringwood",
                                        "probe"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return RunProgram(arguments);
}

TEST(Probe, ItsTableIsACostThatThePlannerReads) {
  const TemporaryDirectory directory;
  const std::string table = directory.Write("ring.csv", "");
  const Finished run = ProbeOn(2, {"--json", "--table", table});
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json result = nlohmann::json::parse(run.out, nullptr, false);
  ASSERT_TRUE(result.is_object()) << run.out;
  EXPECT_EQ(result["workers"], 2);
  const auto cost = ParseCost("ring:table=" + table);
  ASSERT_TRUE(cost.ok()) << Message(cost.status());
  for (const nlohmann::json& median : result["medians"]) {
    const double seconds = median["seconds"];
    EXPECT_DOUBLE_EQ(cost->cost.Seconds(median["bytes"]), seconds);
    EXPECT_GT(seconds, 0);
  }
}

TEST(Probe, OneRankHasNothingToMeasure) {
  const Finished run = ProbeOn(1, {});
  EXPECT_EQ(run.code, 78);
  EXPECT_THAT(run.err, HasSubstr("one rank has no network to measure"));
}

}  // namespace
}  // namespace ringwood

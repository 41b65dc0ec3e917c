// `ringwood replay` from outside: two ranks on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

// 3000 elements, ready within 20 ms.
constexpr char kProfile[] =
    "tensor,numel,ready_time_us\n"
    "fc,1000,0\n"
    "conv,2000,20000\n";

nlohmann::json Replay(std::vector<std::string> flags) {
  const TemporaryDirectory directory;
  const std::string profile = directory.Write("tiny.csv", kProfile);
  std::vector<std::string> arguments = {"replay", "--trace", profile, "--forward-ms=5"};
  flags.insert(flags.end(), {"--workers=2", "--steps=3", "--json"});
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const Finished run = RunProgram(arguments);
  EXPECT_EQ(run.code, 0) << run.err;
  return nlohmann::json::parse(run.out, nullptr, false);
}

TEST(Replay, DenseStepsTakeAtLeastTheirComputeTimeAndSendTheRingsBytes) {
  const nlohmann::json result = Replay({"--route=dense", "--planner=wfbp", "--scale=2"});
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result["planner"], "wfbp");
  EXPECT_EQ(result["world"], 2);
  EXPECT_EQ(result["compute_s"], 2 * 0.025);
  ASSERT_EQ(result["steps_s"].size(), 3u);
  for (const double seconds : result["steps_s"]) EXPECT_GE(seconds, 0.05);
  EXPECT_GE(result["median_s"], 0.05);
  EXPECT_GE(result["predicted_s"], 0.05);
  EXPECT_EQ(result["bytes_per_worker_per_step"], 3000 * 4);  // 2(P-1)/P of them
}

TEST(Replay, SparseStepsSendFewBytes) {
  const nlohmann::json result = Replay({"--route=sparse", "--density=0.01"});
  ASSERT_TRUE(result.is_object());
  EXPECT_GT(result["bytes_per_worker_per_step"], 30 * 4);  // values alone
  EXPECT_LT(result["bytes_per_worker_per_step"], 3000);
}

TEST(Replay, AProfileThatCannotBeReadIsNamedBeforeAnythingStarts) {
  const Finished run = RunProgram({"replay", "--trace=/nonexistent.csv", "--workers=2"});
  EXPECT_EQ(run.code, 78);
  EXPECT_THAT(run.err, HasSubstr("/nonexistent.csv"));
}

}  // namespace
}  // namespace ringwood

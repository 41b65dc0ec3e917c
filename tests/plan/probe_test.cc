#include "plan/model/probe.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace ringwood {
namespace {

TEST(Probe, FindsTheCostBehindNoisyMessages) {
  Random random(3);
  int warm = 0;
  const auto message = [&](uint64_t bytes) -> StatusOr<double> {
    if (warm++ < 6) return 5.0;  // the first round sets up connections
    const double wild = random.Below(5) == 0 ? 0.05 : 0;
    return 3e-4 + 8e-9 * static_cast<double>(bytes) + 1e-5 * random.Unit() + wild;
  };
  const auto result = Probe(message, {});
  ASSERT_TRUE(result.ok()) << Message(result.status());
  EXPECT_NEAR(result->fit.startup_seconds, 3e-4, 3e-5);
  EXPECT_NEAR(result->fit.seconds_per_byte, 8e-9, 4e-10);
  EXPECT_TRUE(Cost::Table(result->medians).ok());
}

TEST(Probe, HowManyRoundsFollowIsAskedAfterTheFirst) {
  for (const int behind : {0, 2}) {
    int messages = 0;
    const auto message = [&](uint64_t bytes) -> StatusOr<double> {
      const double first = ++messages <= 6 ? 1 : 0;
      return first + 1e-3 + 1e-9 * static_cast<double>(bytes);
    };
    ProbeOptions options;
    options.repeats_behind = [&](double) { return behind; };
    const auto result = Probe(message, options);
    ASSERT_TRUE(result.ok()) << Message(result.status());
    EXPECT_EQ(messages, 6 * (behind + 1));
    EXPECT_NEAR(result->fit.startup_seconds, behind == 0 ? 1.001 : 0.001, 1e-6);
    EXPECT_EQ(result->samples.size(), behind == 0 ? 6u : 12u);
  }
}

TEST(Probe, AFailingMessageOrTooLittleTimeIsAnError) {
  const auto fails = [](uint64_t) -> StatusOr<double> { return Unavailable("rank 1 died"); };
  EXPECT_EQ(Probe(fails, {}).status().code(), StatusCode::kUnavailable);
  const auto runs = [](uint64_t) -> StatusOr<double> { return 1e-3; };
  EXPECT_EQ(Probe(runs, {.limit_seconds = 0}).status().code(), StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace ringwood

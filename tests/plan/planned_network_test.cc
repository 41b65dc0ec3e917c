#include "plan/model/planned_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "plan/model/cost_option.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

// The default is of 1 Gbit/s.
double RateOf(const Network& network) { return Network().beta / network.beta; }

TEST(PlannedNetwork, ALocalNetworkOfOneGigabitIsTheDefault) {
  Random random(11);
  for (int run = 0; run < 1000; ++run) {  // measurements of one network
    const MeasuredLink link{.bytes_per_second = 0.956e9 / 8 * (0.75 + 0.5 * random.Unit()),
                            .hop_seconds = 4e-4 * random.Unit()};
    ASSERT_EQ(PlannedNetwork(link), Network()) << link.bytes_per_second << " " << link.hop_seconds;
  }
  EXPECT_EQ(PlannedNetwork({}), Network()) << "nothing was measured";
}

TEST(PlannedNetwork, NoMeasurementIsFurtherFromItThanHalfAStep) {
  for (double gigabits = 0.01; gigabits < 200; gigabits *= 1.01) {
    const Network network = PlannedNetwork({.bytes_per_second = 0.956e9 / 8 * gigabits});
    const double factor = RateOf(network) / gigabits;
    EXPECT_LT(factor, 1.6) << gigabits;
    EXPECT_GT(factor, 1 / 1.6) << gigabits;
  }
  for (const double usual : {0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0}) {
    const Network network = PlannedNetwork({.bytes_per_second = 0.956e9 / 8 * usual * 0.95});
    EXPECT_NEAR(RateOf(network), usual, 1e-9 * usual);
  }
}

TEST(PlannedNetwork, ALongHopIsDelayAndAShortOneIsTheWorkOfItsEnds) {
  EXPECT_EQ(PlannedNetwork({.hop_seconds = 5e-4}).delay, 0);
  EXPECT_DOUBLE_EQ(PlannedNetwork({.hop_seconds = 0.0504}).delay, 0.05);
  EXPECT_DOUBLE_EQ(PlannedNetwork({.hop_seconds = 0.0098}).delay, 0.01);
  EXPECT_EQ(PlannedNetwork({.hop_seconds = 0.05}).alpha, Network().alpha);
  EXPECT_NEAR(DelayOf({.hop_seconds = 0.0504}), 0.0503, 1e-12) << "what was measured";
}

TEST(PlannedNetwork, IsReadAsItIsWritten) {
  EXPECT_EQ(*ParsePlannedNetwork("1gbit"), Network());
  EXPECT_EQ(*ParsePlannedNetwork("1000mbit"), Network());
  const auto far = ParsePlannedNetwork("100mbit,20ms");
  ASSERT_TRUE(far.ok()) << far.status();
  EXPECT_NEAR(RateOf(*far), 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(far->delay, 0.02);
  EXPECT_EQ(Describe(*far), "0.1 Gbit/s, 20 ms on the way to another host");
  EXPECT_DOUBLE_EQ(ParsePlannedNetwork("2.5gbit,500us")->delay, 5e-4);
  for (const char* text : {"", "fast", "10", "gbit", "-1gbit", "0gbit", "infgbit", "nangbit",
                           "1gbit,", "1gbit,2", "1gbit,0ms", "1gbit,2ms,3", "10 gbit/s"}) {
    const auto refused = ParsePlannedNetwork(text);
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(Message(refused.status()), HasSubstr("100mbit,20ms"));
  }
  for (const char* text : {"1e-310gbit", "1e-10gbit", "1e10gbit", "1gbit,1e9s"}) {
    const auto refused = ParsePlannedNetwork(text);
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(Message(refused.status()), HasSubstr("a rate from 1 bit/s to 1e+09 gbit"));
    EXPECT_THAT(Message(refused.status()), HasSubstr(text));
  }
  EXPECT_TRUE(ParsePlannedNetwork("1e-9gbit").ok());
}

TEST(NetworkText, WhatNoNetworkTakesIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"alpha=1e308,beta=1", "alpha=1e+308: a time is at most 1e+06 s"},
      {"alpha=1,beta=1,delay=2e6", "delay=2e+06: a time"},
      {"alpha=1,beta=1e308", "beta=1e+308: a byte takes at most 8 s, which is 1 bit/s"},
      {"alpha=1,beta=1,gamma=9", "gamma=9: a byte takes"}};
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(Message(ParseNetwork(text).status()), HasSubstr(expected));
  }
  EXPECT_THAT(Message(ParseCost("ring:a=1e7,b=0").status()), HasSubstr("a=1e+07: a time"));
  EXPECT_THAT(Message(ParseCost("tree:a=0,b=10").status()), HasSubstr("b=10: a byte takes"));
}

TEST(NetworkText, IsReadBack) {
  for (const Network& network : {Network{1e-4, 8e-9, 0, Network().inside_beta, 0.05},
                                 Network{2e-5, 1e-10, 0, Network().inside_beta, 0}}) {
    const auto read = ParseNetwork(NetworkText(network));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, network) << NetworkText(network);
  }
}

}  // namespace
}  // namespace ringwood

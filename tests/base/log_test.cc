#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/log_limit.h"
#include "base/log_line.h"
#include "tests/base/at.h"

namespace ringwood {
namespace {

using ::testing::Optional;

LogLine ALine(const std::string& who) {
  return {.level = LogLevel::kWarning,
          .who = who,
          .event = "coordinator_lost",
          .epoch = 3,
          .step = 120,
          .unix_seconds = 1'000'000'000.25,
          .text = "say \"x\"\nnow"};
}

TEST(LogLine, TextIsAsItWas) {
  EXPECT_EQ(
      FormatLogLine({.level = LogLevel::kInfo, .who = "rank 2", .text = "hello"}, LogFormat::kText),
      "I rank 2: hello\n");
}

TEST(LogLine, JsonIsOneLineWithItsFields) {
  const std::string text = FormatLogLine(ALine("rank 2"), LogFormat::kJson);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  EXPECT_EQ(text.rfind(kJsonLineOpening, 0), 0u);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["ts"], "2001-09-09T01:46:40.250000Z");
  EXPECT_EQ(json["level"], "warning");
  EXPECT_EQ(json["event"], "coordinator_lost");
  EXPECT_EQ(json["rank"], 2);
  EXPECT_EQ(json["epoch"], 3);
  EXPECT_EQ(json["step"], 120);
  EXPECT_EQ(json["message"], "say \"x\"\nnow");
  EXPECT_EQ(nlohmann::json::parse(FormatLogLine(ALine("server 0"), LogFormat::kJson))["server"], 0);
  EXPECT_EQ(nlohmann::json::parse(FormatLogLine(ALine("rank x"), LogFormat::kJson))["who"],
            "rank x");
}

TEST(LogLine, BytesThatAreNoTextStayJson) {
  LogLine line = ALine("rank 0");
  line.text = "\xff\x01";
  EXPECT_TRUE(nlohmann::json::accept(FormatLogLine(line, LogFormat::kJson)));
}

TEST(LogLimit, LeavesOutWhatRepeatsFastAndSaysHowMuch) {
  LogLimit limit;
  for (int i = 0; i < LogLimit::kMostLines; ++i) {
    EXPECT_THAT(limit.Admit("often", At(0.1 * i)), Optional(0u));
  }
  for (int i = 0; i < 7; ++i) EXPECT_EQ(limit.Admit("often", At(5)), std::nullopt);
  EXPECT_THAT(limit.Admit("other", At(5)), Optional(0u));
  EXPECT_THAT(limit.Admit("often", At(10)), Optional(7u));
  EXPECT_THAT(limit.Admit("often", At(10)), Optional(0u));
}

TEST(LogLimit, IsBoundedWhateverTheNames) {
  LogLimit limit;
  int admitted = 0;
  for (int i = 0; i < 10'000; ++i) {
    admitted += limit.Admit("name" + std::to_string(i), At(0)).has_value();
  }
  EXPECT_LT(admitted, static_cast<int>(LogLimit::kMostEvents) + LogLimit::kMostLines);
}

// Threads of ended jobs leave names behind.
TEST(LogLimit, NamesWhoseTimeIsOverMakeRoomForOthers) {
  LogLimit limit;
  for (size_t i = 0; i < LogLimit::kMostEvents; ++i) limit.Admit("job" + std::to_string(i), At(0));
  for (int i = 0; i <= LogLimit::kMostLines; ++i) {
    EXPECT_THAT(limit.Admit("next" + std::to_string(i), At(20)), Optional(0u)) << i;
  }
}

TEST(Log, FormatsHaveNames) {
  EXPECT_EQ(*ParseLogFormat("json"), LogFormat::kJson);
  EXPECT_EQ(*ParseLogFormat("text"), LogFormat::kText);
  EXPECT_FALSE(ParseLogFormat("xml").ok());
}

}  // namespace
}  // namespace ringwood

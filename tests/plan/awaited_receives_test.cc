#include "plan/predict/awaited_receives.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

TEST(AwaitedReceives, AnswerEachPeersMessagesInTheOrderOfTheSchedule) {
  AwaitedReceives awaited;
  awaited.Add(7, 0);
  awaited.Add(2, 1);
  awaited.Add(7, 2);
  awaited.Add(4, 3);
  awaited.Sort();
  EXPECT_EQ(awaited.First(), 0u);
  EXPECT_EQ(awaited.Come(7), 0u);
  EXPECT_EQ(awaited.First(), 1u);
  EXPECT_EQ(awaited.Come(4), 3u);
  EXPECT_EQ(awaited.Come(7), 2u);
  EXPECT_EQ(awaited.Come(7), std::nullopt);  // it is early for what comes later
  EXPECT_EQ(awaited.Come(3), std::nullopt);  // nobody awaits it
  EXPECT_EQ(awaited.Come(8), std::nullopt);
  EXPECT_EQ(awaited.First(), 1u);
  EXPECT_EQ(awaited.Come(2), 1u);
  EXPECT_EQ(awaited.First(), std::nullopt);
  awaited.Clear();
  awaited.Add(7, 9);
  EXPECT_EQ(awaited.First(), 9u);
  EXPECT_EQ(awaited.Come(2), std::nullopt);
}

}  // namespace
}  // namespace ringwood

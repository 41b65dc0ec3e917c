#include "plan/predict/early_arrivals.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "base/random.h"

namespace ringwood {
namespace {

TEST(EarlyArrivals, TheLargestKeyComesBackFromItsBits) {
  const int node = static_cast<int>(kMostNodes) - 1, play = static_cast<int>(kMostPlays) - 1;
  const int chunk = static_cast<int>(kMostChunks) - 1;
  for (const ArrivalKey& key :
       {ArrivalKey{node, 0, 0, 0}, ArrivalKey{0, node, 0, 0}, ArrivalKey{0, 0, play, 0},
        ArrivalKey{0, 0, 0, chunk}, ArrivalKey{node, node, play, chunk}, ArrivalKey{1, 2, 3, 4}}) {
    EXPECT_EQ(ArrivalKey::Unpacked(key.Packed()), key);
  }
}

TEST(EarlyArrivals, ThoseOfAKeyLeaveAsTheyCame) {
  constexpr int kNodes = 3;
  Random random(1);
  EarlyArrivals early(kNodes);
  std::map<uint64_t, std::deque<int>> reference;  // slots
  int at[kNodes] = {}, next = 0;
  for (int i = 0; i < 5000; ++i) {
    const auto below = [&](uint64_t most) { return static_cast<int>(random.Below(most)); };
    const ArrivalKey key{below(kNodes), below(kNodes), below(2), below(3)};
    std::deque<int>& expected = reference[key.Packed()];
    if (random.Below(2) == 0) {
      early.Push(key, {0.5, 8, next});
      expected.push_back(next++);
      ++at[key.to];
    } else {
      const auto arrival = early.Pop(key);
      ASSERT_EQ(arrival.has_value(), !expected.empty());
      if (arrival) {
        ASSERT_EQ(arrival->slot, expected.front());
        expected.pop_front();
        --at[key.to];
      }
    }
    ASSERT_EQ(early.AnyAt(key.to), at[key.to] > 0);
  }
  ASSERT_FALSE(early.empty());
  while (!early.empty()) ASSERT_TRUE(early.Pop(early.Any()));
  for (int node = 0; node < kNodes; ++node) EXPECT_FALSE(early.AnyAt(node));
}

}  // namespace
}  // namespace ringwood

#include "plan/predict/event_queue.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace ringwood {
namespace {

TEST(EventQueue, TimesRiseAndEventsOfOneTimeComeInTheirOrder) {
  Random random(1);
  EventQueue<int> queue;
  std::multimap<double, int> reference;  // keeps the order of equal keys
  double now = 0;
  int next = 0;
  for (int i = 0; i < 20000; ++i) {
    if (queue.empty() || random.Below(2) == 0) {
      const double at = now + static_cast<double>(random.Below(4)) * (i % 7 == 0 ? 1e3 : 1e-6);
      queue.Push(at) = next;
      reference.emplace(at, next++);
      continue;
    }
    const auto [at, event] = queue.Pop();
    ASSERT_EQ(at, reference.begin()->first);
    ASSERT_EQ(event, reference.begin()->second);
    reference.erase(reference.begin());
    now = at;
  }
  for (; !reference.empty(); reference.erase(reference.begin())) {
    ASSERT_EQ(queue.Pop().second, reference.begin()->second);
  }
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace ringwood

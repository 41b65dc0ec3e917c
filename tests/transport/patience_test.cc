#include "transport/patience.h"

#include <gtest/gtest.h>

#include <vector>

#include "transport/inbox.h"

namespace ringwood {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(Patience, NapsHalfTheTimeBetweenMessages) {
  Patience patience;
  EXPECT_EQ(patience.Nap(), Duration::zero());
  TimePoint now;
  patience.Arrived(now);
  EXPECT_EQ(patience.Nap(), Duration::zero()) << "one message is no rate";
  patience.Arrived(now += microseconds(1800));
  EXPECT_EQ(patience.Nap(), microseconds(900));
  for (int i = 0; i < 100; ++i) patience.Arrived(now += milliseconds(20));
  EXPECT_EQ(patience.Nap(), Patience::kLongestNap);
}

TEST(Patience, DoesNotNapWhereMessagesComeFast) {
  Patience patience;
  TimePoint now;
  for (int i = 0; i < 100; ++i) patience.Arrived(now += microseconds(400));
  EXPECT_EQ(patience.Nap(), Duration::zero());
  // A card that becomes slow is noticed, and one that becomes fast again.
  for (int i = 0; i < 20; ++i) patience.Arrived(now += milliseconds(3));
  EXPECT_GT(patience.Nap(), Duration::zero());
  for (int i = 0; i < 20; ++i) patience.Arrived(now += microseconds(400));
  EXPECT_EQ(patience.Nap(), Duration::zero());
}

TEST(Patience, APauseIsNoRate) {
  Patience patience;
  TimePoint now;
  for (int i = 0; i < 100; ++i) patience.Arrived(now += microseconds(400));
  patience.Interrupt();
  EXPECT_EQ(patience.Nap(), Duration::zero());
  patience.Arrived(now += Seconds(3600));
  EXPECT_EQ(patience.Nap(), Duration::zero());
}

TEST(Inbox, SaysWhetherLongMessagesAloneAreAwaited) {
  Inbox inbox({1, 1, 0}, {{0, "rank 0", ""}, {1, "rank 1", ""}}, {});
  std::vector<std::byte> memory(1000);
  const auto post = [&](uint32_t slot, uint64_t count, size_t bytes) {
    inbox.Post(1, {Lane::kDense, 1, 0, 0, slot}, {0, 0, count}, std::span(memory).first(bytes),
               [](auto, const Frame&) {});
  };
  EXPECT_FALSE(inbox.AwaitsOnlyLong(1, 500));
  post(0, 500, 500);
  post(1, 600, 600);
  EXPECT_TRUE(inbox.AwaitsOnlyLong(2, 500));
  EXPECT_FALSE(inbox.AwaitsOnlyLong(3, 500)) << "too few";
  EXPECT_FALSE(inbox.AwaitsOnlyLong(2, 501)) << "one is short";
  post(2, 0, 1000);
  EXPECT_FALSE(inbox.AwaitsOnlyLong(2, 500)) << "one may be short";
}

}  // namespace
}  // namespace ringwood

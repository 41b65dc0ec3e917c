#include "transport/poll_pacer.h"

#include <gtest/gtest.h>

#include <vector>

#include "transport/inbox.h"

namespace ringwood {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(PollPacer, NapsHalfTheTimeBetweenMessages) {
  PollPacer pacer;
  EXPECT_EQ(pacer.Nap(), Duration::zero());
  TimePoint now;
  pacer.Arrived(now);
  EXPECT_EQ(pacer.Nap(), Duration::zero()) << "one message is no rate";
  pacer.Arrived(now += microseconds(1800));
  EXPECT_EQ(pacer.Nap(), microseconds(900));
  for (int i = 0; i < 100; ++i) pacer.Arrived(now += milliseconds(20));
  EXPECT_EQ(pacer.Nap(), PollPacer::kLongestNap);
}

TEST(PollPacer, DoesNotNapWhereMessagesComeFast) {
  PollPacer pacer;
  TimePoint now;
  for (int i = 0; i < 100; ++i) pacer.Arrived(now += microseconds(400));
  EXPECT_EQ(pacer.Nap(), Duration::zero());
  // A NIC that becomes slow is noticed, and one that becomes fast again.
  for (int i = 0; i < 20; ++i) pacer.Arrived(now += milliseconds(3));
  EXPECT_GT(pacer.Nap(), Duration::zero());
  for (int i = 0; i < 20; ++i) pacer.Arrived(now += microseconds(400));
  EXPECT_EQ(pacer.Nap(), Duration::zero());
}

TEST(PollPacer, APauseIsNoRate) {
  PollPacer pacer;
  TimePoint now;
  for (int i = 0; i < 100; ++i) pacer.Arrived(now += microseconds(400));
  pacer.Interrupt();
  EXPECT_EQ(pacer.Nap(), Duration::zero());
  pacer.Arrived(now += Seconds(3600));
  EXPECT_EQ(pacer.Nap(), Duration::zero());
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

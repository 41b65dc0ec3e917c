#include "proto/addresses.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

TEST(Addresses, OneIsTakenAsItIs) {
  EXPECT_EQ(ChannelTarget("a.host:7070"), "a.host:7070");
  EXPECT_EQ(ChannelTarget("[::1]:7070"), "[::1]:7070");
}

TEST(Addresses, OfSeveralTheNamesAreLookedUp) {
  EXPECT_EQ(ChannelTarget("127.0.0.1:1,127.0.0.2:2"), "ipv4:127.0.0.1:1,127.0.0.2:2");
  EXPECT_EQ(ChannelTarget("localhost:1,127.0.0.2:2"), "ipv4:127.0.0.1:1,127.0.0.2:2");
}

TEST(Addresses, OfTheTwoFamiliesTheOneIsTakenThatMoreOfThemHave) {
  EXPECT_EQ(ChannelTarget("[::1]:1,[fd00::2]:2"), "ipv6:[::1]:1,[fd00::2]:2");
  EXPECT_EQ(ChannelTarget("[fd00::1]:1,[fd00::2]:2,127.0.0.3:3"), "ipv6:[fd00::1]:1,[fd00::2]:2");
  EXPECT_EQ(ChannelTarget("[fd00::1]:1,127.0.0.2:2,127.0.0.3:3"), "ipv4:127.0.0.2:2,127.0.0.3:3");
}

TEST(Addresses, WhatIsNoAddressIsLeftOut) {
  EXPECT_EQ(ChannelTarget(":1,127.0.0.2:2,"), "ipv4:127.0.0.2:2");
}

}  // namespace
}  // namespace ringwood

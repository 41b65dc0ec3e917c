#include "server/calls/listen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringwood {
namespace {

using ::testing::HasSubstr;

TEST(ChooseListen, PlaintextIsForLoopbackIfItIsSaidSo) {
  for (const char* address : {"127.0.0.1:4000", "[::1]:4000"}) {
    EXPECT_EQ(ChooseListen({.listen = address, .insecure = true}).value(), address);
    EXPECT_THAT(Message(ChooseListen({.listen = address}).status()), HasSubstr("--insecure"));
  }
  EXPECT_EQ(ChooseListen({.listen = "localhost:0", .insecure = true}).value(), "127.0.0.1:0");
  for (const char* address : {"10.0.0.1:4000", "[fd00::1]:4000"}) {
    const Status refused = ChooseListen({.listen = address, .insecure = true}).status();
    EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
    EXPECT_THAT(Message(refused), HasSubstr("without TLS"));
  }
}

TEST(ChooseListen, TlsIsForEveryAddressButNotForAllAtOnce) {
  for (const char* address : {"127.0.0.1:4000", "10.0.0.1:4000", "[fd00::1]:4000"}) {
    EXPECT_EQ(ChooseListen({.listen = address, .tls = true}).value(), address);
  }
  EXPECT_EQ(ChooseListen({.listen = "[FD00:0::1]:4000", .tls = true}).value(), "[fd00::1]:4000");
  for (const char* address : {"0.0.0.0:4000", "[::]:4000", "[0::0]:4000"}) {
    EXPECT_THAT(Message(ChooseListen({.listen = address, .tls = true}).status()),
                HasSubstr("listening on all interfaces"));
  }
}

TEST(ChooseListen, WhatIsNoAddressIsRefusedWithAnExample) {
  for (const char* address : {"", "4000", "h1:4000", "127.0.0.1", "fd00::1:4000", "[h1]:4000",
                              "[fe80::1%lo]:1", "127.0.0.1:65536"}) {
    const Status refused = ChooseListen({.listen = address, .insecure = true}).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(Message(refused), HasSubstr("127.0.0.1:4000")) << address;
  }
}

}  // namespace
}  // namespace ringwood

#include "launch/signals.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

TEST(SignalDescriptor, GivesTheSignalsThatCame) {
  SignalDescriptor signals{SIGHUP, SIGTERM};
  EXPECT_EQ(signals.Next(), 0);
  ::raise(SIGTERM);
  EXPECT_EQ(signals.Next(), SIGTERM);
  EXPECT_EQ(signals.Next(), 0);
}

TEST(SignalDescriptor, AHangupThatIsIgnoredStaysSo) {
  const auto before = ::signal(SIGHUP, SIG_IGN);
  {
    SignalDescriptor signals{SIGHUP, SIGTERM};
    ::raise(SIGHUP);
    EXPECT_EQ(signals.Next(), 0);
  }
  ::signal(SIGHUP, before);
}

TEST(SignalDescriptor, OneThatNobodyTookDoesNotStrikeAtItsEnd) {
  {
    SignalDescriptor signals{SIGPIPE};
    ::raise(SIGPIPE);
  }
  sigset_t pending;
  ASSERT_EQ(::sigpending(&pending), 0);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

}  // namespace
}  // namespace ringwood

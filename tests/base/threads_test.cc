#include "base/files/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace ringwood {
namespace {

using testing::HasSubstr;

TEST(Threads, TooFewAreAnErrorWithTheRemedy) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow needs the address space";
#endif
  EXPECT_TRUE(CheckThreads(20).ok());
  rlimit before;
  getrlimit(RLIMIT_AS, &before);
  rlimit none = before;
  none.rlim_cur = 0;
  setrlimit(RLIMIT_AS, &none);
  const Status status = CheckThreads(100);
  setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), HasSubstr("more threads and needs 100: raise"));
  EXPECT_THAT(Message(status), HasSubstr("ulimit -u"));
}

}  // namespace
}  // namespace ringwood

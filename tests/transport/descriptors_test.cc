#include "transport/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/transport/world.h"

namespace ringwood {
namespace {

TEST(Descriptors, TheSoftLimitGrowsAsFarAsItMust) {
  EXPECT_EQ(SoftLimitFor({100, 1024, 4096}, 10, 3).value(), 1024u);
  EXPECT_EQ(SoftLimitFor({100, 1024, 4096}, 1000, 3).value(), 100 + 3000 + 128u);
}

TEST(Descriptors, MoreThanTheHardLimitIsRefusedWithTheNumbers) {
  const Status refused = SoftLimitFor({100, 1024, 4096}, 4095, 3).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  for (const char* part : {"4095 peers", "3 descriptors each", "100 are open", "4096", "ulimit"}) {
    EXPECT_NE(Message(refused).find(part), std::string::npos) << Message(refused);
  }
}

// Lowers this process's soft limit below what a world needs and puts it back.
class LowLimit : public testing::TestWithParam<Kind> {
 protected:
  static constexpr rlim_t kLow = 120;

  void SetUp() override {
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit low = before_;
    low.rlim_cur = std::min<rlim_t>(before_.rlim_cur, kLow);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  void TearDown() override { setrlimit(RLIMIT_NOFILE, &before_); }

  rlimit before_{};
};

TEST_P(LowLimit, IsRaisedBeforeConnectionsAreMade) {
  World world(GetParam(), 3);
  rlimit now{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_GT(now.rlim_cur, kLow);
}

INSTANTIATE_TEST_SUITE_P(Transports, LowLimit, testing::Values(Kind::kUcx, Kind::kGrpc),
                         [](const auto& info) { return NameOfKind(info.param); });

}  // namespace
}  // namespace ringwood

#include "proto/held_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "proto/token_file.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

const Duration kLook = Seconds(HeldToken::kLookSeconds);

// A file of the test's own, which goes with it.
class HeldTokenFile : public ::testing::Test {
 protected:
  HeldTokenFile() : folder_(::testing::TempDir() + "/held-token-XXXXXX") {
    file_ = std::string(mkdtemp(folder_.data())) + "/token";
  }
  ~HeldTokenFile() override { std::filesystem::remove_all(folder_); }
  std::string folder_, file_;
};

TEST(HeldToken, OfNoFileStays) {
  HeldToken token("a", "");
  EXPECT_EQ(token.At(Now()), "a");
  EXPECT_EQ(token.At(Now() + 100 * kLook), "a");
}

TEST_F(HeldTokenFile, FollowsItsFileAndLooksOnceInATime) {
  ASSERT_TRUE(KeepToken(file_, "b\n").ok());
  const TimePoint start = Now();
  HeldToken token("a", file_);
  EXPECT_EQ(token.At(start), "b");
  ASSERT_TRUE(KeepToken(file_, "c").ok());
  EXPECT_EQ(token.At(start + kLook / 2), "b");
  EXPECT_EQ(token.At(start + kLook), "c");
}

TEST_F(HeldTokenFile, WithoutAReadableFileIsTheOneBefore) {
  const TimePoint start = Now();
  HeldToken token("a", file_);
  testing::internal::CaptureStderr();
  EXPECT_EQ(token.At(start), "a");
  ASSERT_TRUE(KeepToken(file_, "").ok());  // as while it is being written
  EXPECT_EQ(token.At(start + kLook), "a");
  ASSERT_TRUE(KeepToken(file_, "b").ok());
  std::filesystem::permissions(file_, std::filesystem::perms(0644));  // that others can read
  EXPECT_EQ(token.At(start + 2 * kLook), "a");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("cannot read " + file_));
  EXPECT_EQ(said.find('\n'), said.size() - 1) << "one warning: " << said;
  std::filesystem::permissions(file_, std::filesystem::perms(0600));
  EXPECT_EQ(token.At(start + 3 * kLook), "b");
}

TEST_F(HeldTokenFile, IsWholeForEveryThreadWhileItIsRenewed) {
  constexpr int kThreads = 4, kCalls = 200;
  const std::string first(500, 'a'), second(1000, 'b');
  ASSERT_TRUE(KeepToken(file_, first).ok());
  HeldToken token(first, file_);
  const TimePoint start = Now();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int call = 0; call < kCalls; ++call) {
        const std::string held = token.At(start + call * kLook);
        EXPECT_TRUE(held == first || held == second) << held;
        if (i > 0) continue;
        EXPECT_TRUE(KeepToken(file_, call % 2 == 0 ? second : first).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(KeepToken(file_, second).ok());
  EXPECT_EQ(token.At(start + (kCalls + 1) * kLook), second);
}

}  // namespace
}  // namespace ringwood

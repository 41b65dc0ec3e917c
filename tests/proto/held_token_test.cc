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

TEST(HeldToken, OfNoFileStays) {
  HeldToken token("a", "");
  EXPECT_EQ(token.At(Now()), "a");
  EXPECT_EQ(token.At(Now() + 100 * kLook), "a");
}

TEST(HeldToken, FollowsItsFileAndLooksOnceInATime) {
  const std::string file = ::testing::TempDir() + "/held-token";
  ASSERT_TRUE(KeepToken(file, "b\n").ok());
  const TimePoint start = Now();
  HeldToken token("a", file);
  EXPECT_EQ(token.At(start), "b");
  ASSERT_TRUE(KeepToken(file, "c").ok());
  EXPECT_EQ(token.At(start + kLook / 2), "b");
  EXPECT_EQ(token.At(start + kLook), "c");
}

TEST(HeldToken, WithoutAReadableFileIsTheOneBefore) {
  const std::string file = ::testing::TempDir() + "/held-token-lost";
  std::filesystem::remove(file);
  const TimePoint start = Now();
  HeldToken token("a", file);
  testing::internal::CaptureStderr();
  EXPECT_EQ(token.At(start), "a");
  ASSERT_TRUE(KeepToken(file, "").ok());  // as while it is being written
  EXPECT_EQ(token.At(start + kLook), "a");
  ASSERT_TRUE(KeepToken(file, "b").ok());
  std::filesystem::permissions(file, std::filesystem::perms(0644));  // that others can read
  EXPECT_EQ(token.At(start + 2 * kLook), "a");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("cannot read " + file));
  EXPECT_EQ(said.find('\n'), said.size() - 1) << "one warning: " << said;
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  EXPECT_EQ(token.At(start + 3 * kLook), "b");
}

TEST(HeldToken, IsWholeForEveryThreadWhileItIsRenewed) {
  constexpr int kThreads = 4, kCalls = 200;
  const std::string file = ::testing::TempDir() + "/held-token-shared";
  const std::string first(500, 'a'), second(1000, 'b');
  ASSERT_TRUE(KeepToken(file, first).ok());
  HeldToken token(first, file);
  const TimePoint start = Now();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int call = 0; call < kCalls; ++call) {
        const std::string held = token.At(start + call * kLook);
        EXPECT_TRUE(held == first || held == second) << held;
        if (i > 0) continue;
        EXPECT_TRUE(KeepToken(file, call % 2 == 0 ? second : first).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(KeepToken(file, second).ok());
  EXPECT_EQ(token.At(start + (kCalls + 1) * kLook), second);
}

}  // namespace
}  // namespace ringwood

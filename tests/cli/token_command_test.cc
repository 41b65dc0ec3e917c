// `ringwood token` as a person uses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(TokenCommand, ATokenFileWinsOverTheStores) {
  const TemporaryDirectory directory;
  const std::string secret = directory.path() + "/secret", kept = directory.path() + "/token";
  ASSERT_EQ(RunProgram({"token", "new", "--out", secret}).code, 0);
  ASSERT_EQ(RunProgram({"token", "new", "--out", kept}).code, 0);
  const Finished alone = RunProgram({"token", "job", "a", "--token-file", secret});
  const Finished both =
      RunProgram({"token", "job", "a", "--token-file", secret, "--store", directory.path()});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(both.out, alone.out);
}

}  // namespace
}  // namespace ringwood

#include "base/tensor_type.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

TEST(TensorType, HasTheBytesOfItsElements) {
  EXPECT_EQ(*BytesOf({"F32", {3, 5}}), 60u);
  EXPECT_EQ(*BytesOf({"BF16", {7}}), 14u);
  EXPECT_EQ(*BytesOf({"I64", {}}), 8u) << "a single number";
  EXPECT_EQ(*BytesOf({"BOOL", {4, 0}}), 0u);
  EXPECT_TRUE(CheckType("x", {"U8", {9}}, 9).ok());
  EXPECT_EQ(Message(CheckType("x", {"U8", {9}}, 8)), "x has 8 bytes, U8 [9] has 9");
}

TEST(TensorType, OfPlainBytesHasNoShape) {
  EXPECT_TRUE(CheckType("x", {}, 17).ok());
  EXPECT_FALSE(CheckType("x", {"", {17}}, 17).ok());
}

TEST(TensorType, ThatNoMemoryHoldsIsRefused) {
  EXPECT_FALSE(BytesOf({"F32", {1ull << 40, 1ull << 40}}).ok());
  EXPECT_FALSE(BytesOf({"U8", {~0ull}}).ok());
  EXPECT_FALSE(BytesOf({"U8", std::vector<uint64_t>(kMaxDimensions + 1, 1)}).ok());
  EXPECT_FALSE(BytesOf({"float32", {1}}).ok());
  EXPECT_EQ(ToString(TensorType{"\033[2J", {1}}), "\\x1b[2J [1]") << "safe for a terminal";
}

}  // namespace
}  // namespace ringwood

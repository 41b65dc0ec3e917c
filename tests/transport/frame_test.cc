#include "transport/frame.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

TEST(Frame, ComesBackFromItsBytes) {
  Frame frame;
  frame.round = 17;
  frame.group = 3;
  frame.lane = static_cast<uint8_t>(Lane::kSparse);
  const auto bytes = std::as_bytes(std::span(&frame, 1));
  const auto parsed = ParseFrame(bytes);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(NameOf(*parsed), (MessageName{Lane::kSparse, 17, 3, 0, 0}));
  EXPECT_EQ(ToString(NameOf(*parsed)), "sparse round 17 group 3 chunk 0 slot 0");
}

TEST(Frame, OfAnotherLengthOrMagicIsCorrupt) {
  Frame frame;
  const auto bytes = std::as_bytes(std::span(&frame, 1));
  EXPECT_EQ(ParseFrame(bytes.first(71)).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ParseFrame({}).status().code(), StatusCode::kDataLoss);
  frame.magic ^= 1;
  EXPECT_EQ(ParseFrame(bytes).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace ringwood

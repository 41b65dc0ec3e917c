#include "base/buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace ringwood {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TEST(Buffer, IsZeroedAndAligned) {
  for (size_t count : {1, 63, 64, 1000, 1 << 20}) {
    Buffer<float> buffer(count);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    ASSERT_EQ(buffer.size(), count);
    EXPECT_THAT(buffer.span(), Each(0.0f));
  }
}

TEST(Buffer, OneThatWasMovedFromIsEmpty) {
  Buffer<int> first(3);
  first[2] = 7;
  const Buffer<int> second(std::move(first));
  EXPECT_EQ(first.size(), 0u);
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_EQ(second[2], 7);
}

TEST(Buffer, MemoryThatCannotBeHadIsNamedWithItsSize) {
  std::vector<Buffer<float>> buffers;
  const Status none = CatchOutOfMemory([&] {
    buffers.emplace_back(size_t{1} << 50);
    return OkStatus();
  });
  EXPECT_EQ(none.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(none), HasSubstr("4503599627370496 bytes"));
  const Status wraps = CatchOutOfMemory([&] {
    buffers.emplace_back(SIZE_MAX / 2);
    return OkStatus();
  });
  EXPECT_EQ(wraps.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(wraps), HasSubstr("9223372036854775807 elements of 4 bytes"));
}

}  // namespace
}  // namespace ringwood

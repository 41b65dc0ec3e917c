#include "base/status.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

StatusOr<int> Half(int value) {
  if (value % 2 != 0) return Invalid("odd");
  return value / 2;
}

StatusOr<int> Quarter(int value) {
  RW_ASSIGN_OR_RETURN(const int half, Half(value));
  return Half(half);
}

TEST(Status, AssignOrReturnPassesTheErrorOn) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().code(), StatusCode::kInvalidArgument);
}

TEST(Status, AnnotateKeepsTheCodeAndSaysWhere) {
  EXPECT_TRUE(Annotate(OkStatus(), "x").ok());
  EXPECT_EQ(Message(Annotate(NotFound("no file"), "store")), "store: no file");
}

}  // namespace
}  // namespace ringwood

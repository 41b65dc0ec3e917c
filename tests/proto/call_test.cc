#include "proto/call.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

TEST(Call, AnErrorKeepsItsCodeAndItsMessage) {
  for (const StatusCode code : {StatusCode::kCancelled, StatusCode::kUnknown, StatusCode::kAborted,
                                StatusCode::kUnavailable, StatusCode::kUnauthenticated}) {
    const Status status =
        FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(code), "epoch 3 is over"));
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(Message(status), "epoch 3 is over");
  }
  EXPECT_EQ(FromGrpc(grpc::Status(grpc::StatusCode::ABORTED, "")).code(), StatusCode::kAborted);
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

}  // namespace
}  // namespace ringwood

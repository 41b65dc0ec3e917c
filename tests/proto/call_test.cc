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

TEST(Call, IsMadeAgainWhereItMaySucceedInAMoment) {
  const auto asks = [](grpc::StatusCode code, const char* text) {
    return AsksAgain(grpc::Status(code, text));
  };
  EXPECT_TRUE(asks(grpc::StatusCode::UNAVAILABLE, "the job is being opened: ask again"));
  EXPECT_TRUE(asks(grpc::StatusCode::UNAVAILABLE,
                   "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: No "
                   "such file or directory"));
  EXPECT_FALSE(asks(grpc::StatusCode::UNAVAILABLE,
                    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: "
                    "Failed to connect to remote host: Connection refused"));
  EXPECT_FALSE(asks(grpc::StatusCode::NOT_FOUND, "the job is being opened: ask again"));
  EXPECT_FALSE(AsksAgain(grpc::Status::OK));
}

}  // namespace
}  // namespace ringwood

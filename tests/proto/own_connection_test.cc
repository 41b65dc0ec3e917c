#include "proto/own_connection.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace ringwood {
namespace {

std::map<std::string, int> Numbers(const OwnConnection& connection) {
  std::map<std::string, int> numbers;
  const grpc::ChannelArguments arguments = connection.Arguments();
  const grpc_channel_args all = arguments.c_channel_args();
  for (size_t i = 0; i < all.num_args; ++i) {
    if (all.args[i].type == GRPC_ARG_INTEGER) numbers[all.args[i].key] = all.args[i].value.integer;
  }
  return numbers;
}

TEST(OwnConnection, IsSharedWithNobodyAndGoesThroughNoProxy) {
  const std::map<std::string, int> expected = {{GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1},
                                               {GRPC_ARG_ENABLE_HTTP_PROXY, 0}};
  EXPECT_EQ(Numbers({}), expected);
}

// A server that is silent for T is pinged after T/5 and given 4/5 T for the answer: together T.
TEST(OwnConnection, IsPingedSoThatSilenceIsNoticedInTime) {
  auto numbers = Numbers({.silence = Seconds(10)});
  EXPECT_EQ(numbers[GRPC_ARG_KEEPALIVE_TIME_MS], 2'000);
  EXPECT_EQ(numbers[GRPC_ARG_KEEPALIVE_TIMEOUT_MS], 8'000);
  EXPECT_EQ(numbers[GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA], 0);
  numbers = Numbers({.silence = Seconds(0.1)});
  EXPECT_GT(numbers[GRPC_ARG_KEEPALIVE_TIME_MS], 1'000) << "more often is taken for an attack";
  EXPECT_EQ(numbers.count(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS), 0u);
}

TEST(OwnConnection, TriesAgainAsOftenAsItIsTold) {
  auto numbers = Numbers({.reconnection = Reconnection{100, 300, 4'000}});
  EXPECT_EQ(numbers[GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS], 100);
  EXPECT_EQ(numbers[GRPC_ARG_MAX_RECONNECT_BACKOFF_MS], 300);
  EXPECT_EQ(numbers[GRPC_ARG_MIN_RECONNECT_BACKOFF_MS], 4'000);
  EXPECT_EQ(numbers.count(GRPC_ARG_KEEPALIVE_TIME_MS), 0u);
}

// Of several addresses each has its turn, whatever is said here: proto/token.cc.
TEST(OwnConnection, OneThatIsPatientWaitsAsLongForAConnectionAsForAnAnswer) {
  auto numbers = Numbers(OwnConnection::Patient(Seconds(30)));
  EXPECT_EQ(numbers[GRPC_ARG_MIN_RECONNECT_BACKOFF_MS], 30'000);
  EXPECT_EQ(numbers[GRPC_ARG_KEEPALIVE_TIME_MS] + numbers[GRPC_ARG_KEEPALIVE_TIMEOUT_MS], 30'000);
  EXPECT_EQ(numbers[GRPC_ARG_MAX_RECONNECT_BACKOFF_MS],
            kEagerReconnection.longest_pause_milliseconds);
}

}  // namespace
}  // namespace ringwood

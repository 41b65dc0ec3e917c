#include "proto/own_connection.h"

#include "base/silence.h"
#include "proto/call.h"

namespace ringwood {
namespace {

int Milliseconds(double seconds) { return static_cast<int>(1000 * seconds); }

}  // namespace

OwnConnection OwnConnection::Patient(Duration silence) {
  Reconnection reconnection = kEagerReconnection;
  reconnection.attempt_milliseconds = Milliseconds(ToSeconds(silence));
  return {.silence = silence, .reconnection = reconnection};
}

grpc::ChannelArguments OwnConnection::Arguments() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (silence) {
    const double seconds = ToSeconds(*silence);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(PingAfterSeconds(seconds)));
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(PongWithinSeconds(seconds)));
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // as many as there are
  }
  if (reconnection) {
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, reconnection->first_pause_milliseconds);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, reconnection->longest_pause_milliseconds);
    // gRPC calls it a pause, and uses it as the time that an attempt may take.
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, reconnection->attempt_milliseconds);
  }
  return arguments;
}

bool ConnectionBroke(grpc::Channel* channel) {
  return channel->GetState(false) != GRPC_CHANNEL_READY ||
         channel->WaitForStateChange(GRPC_CHANNEL_READY, DeadlineIn(Seconds(kBreakSeconds)));
}

}  // namespace ringwood

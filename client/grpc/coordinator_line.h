// One connection to the coordinator. Who has lost it opens another one.
#pragma once

#include <memory>
#include <string>

#include "client/grpc/channel.h"
#include "proto/call.h"
#include "ringwood/v1/control.grpc.pb.h"

namespace ringwood {

// Until a channel knows that the connection of a call broke.
inline constexpr double kBreakSeconds = 0.2;

struct CoordinatorLine {
  CoordinatorLine(const std::string& address, const Access& access, const OwnConnection& connection)
      : channel(MakeChannel(address, access, connection)),
        stub(v1::Coordinator::NewStub(channel)) {}

  bool connected() const { return channel->GetState(false) == GRPC_CHANNEL_READY; }
  // Whether a call that has just ended did so because its connection broke, of which the call hears
  // before the channel does. Waits for that moment, at most kBreakSeconds.
  bool Broke() const {
    return !connected() ||
           channel->WaitForStateChange(GRPC_CHANNEL_READY, DeadlineIn(Seconds(kBreakSeconds)));
  }

  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<v1::Coordinator::Stub> stub;
};

}  // namespace ringwood

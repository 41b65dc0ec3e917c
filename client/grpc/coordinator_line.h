// One connection to the coordinator. Who has lost it opens another one.
#pragma once

#include <memory>
#include <string>

#include "client/grpc/channel.h"
#include "proto/own_connection.h"
#include "ringwood/v1/control.grpc.pb.h"

namespace ringwood {

struct CoordinatorLine {
  CoordinatorLine(const std::string& address, const Access& access, const OwnConnection& connection)
      : channel(MakeChannel(address, access, connection)),
        stub(v1::Coordinator::NewStub(channel)) {}

  bool connected() const { return channel->GetState(false) == GRPC_CHANNEL_READY; }
  bool Broke() const { return ConnectionBroke(channel.get()); }

  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<v1::Coordinator::Stub> stub;
};

}  // namespace ringwood

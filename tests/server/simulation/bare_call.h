// A call by the name of its method, of any service and with nothing in it: whether a server lets it
// in is decided before the request is looked at.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <future>
#include <memory>
#include <string>

#include "proto/call.h"
#include "proto/own_connection.h"
#include "proto/token.h"

namespace ringwood {

// "/ringwood.v1.Coordinator/Status" over a channel that stands.
inline grpc::Status CallOn(const std::shared_ptr<grpc::Channel>& channel,
                           const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(Seconds(60)));
  const grpc::Slice nothing("");
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> ended;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &response,
                 [&](grpc::Status status) { ended.set_value(status); });
  return ended.get_future().get();
}

// The same at HOST:PORT, over a connection of its own.
inline grpc::Status CallAt(const std::string& address, const Access& access,
                           const std::string& method) {
  for (int tries = 1;; ++tries) {
    const grpc::Status status =
        CallOn(OpenChannel(address, OwnConnection().Arguments(), access), method);
    if (!AsksAgain(status) || tries == 50) return status;
  }
}

inline grpc::Status CallAt(int port, const Access& access, const std::string& method) {
  return CallAt("127.0.0.1:" + std::to_string(port), access, method);
}

}  // namespace ringwood

// The gRPC server of a process behind its front door, and what it lets one connection, one message
// and one call take. Its methods are called in the order in which they stand here, by one thread at
// a time; the services are called on gRPC's threads.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "identity/credentials.h"
#include "server/calls/call_guard.h"
#include "server/calls/front_door.h"
#include "server/calls/turns.h"

namespace ringwood {

struct GrpcServerOptions {
  std::string token;                               // as for GuardedCredentials
  std::shared_ptr<const Credentials> credentials;  // null: plaintext
  TurnOfCall turn;                                 // the same; asked once it serves
  std::string start;  // named in answers to readers and observers (proto/server_start.h)
  double failure_timeout_seconds = 5;  // a connection that is silent for so long is dead
};

class GrpcServer {
 public:
  // Takes the address as FrontDoor::Open does, with its errors. Connections are refused until
  // Listen, and wait from then on until Serve.
  static StatusOr<std::unique_ptr<GrpcServer>> Open(const std::string& address,
                                                    GrpcServerOptions options);
  ~GrpcServer();  // after Shutdown, if it has served

  int port() const { return door_->port(); }  // until CloseDoor

  Status Listen();  // once

  // Answers calls with these services, which outlive this object. `contexts`: of their calls;
  // null: gRPC's own. Once.
  Status Serve(const std::vector<grpc::Service*>& services,
               std::unique_ptr<grpc::ContextAllocator> contexts = nullptr);

  // Accepts no further connections; those that there are live on.
  void CloseDoor();

  // Ends all calls, within kStopSeconds those that end by themselves. When it returns none is left.
  void Shutdown();

 private:
  GrpcServer(std::unique_ptr<FrontDoor> door, GrpcServerOptions options);
  void Limit(grpc::ServerBuilder* builder) const;

  const GrpcServerOptions options_;
  std::unique_ptr<Turns> turns_;  // null: no call waits for one
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<FrontDoor> door_;  // last: it hands connections to the acceptor
};

}  // namespace ringwood

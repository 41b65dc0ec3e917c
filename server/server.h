// A Ringwood server: coordinator, store and reducer in one process, or a reducer alone that joins
// another process's coordinator. Started by the launcher, or by hand as `ringwood server`. Of
// several servers with one etcd (coord_store) one leads, and the others stand by: they refuse
// connections until they lead.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "server/server_options.h"

namespace ringwood {

class Server {
 public:
  // Denied: plaintext on a network that is not declared private. Refused: port in use, store locked
  // or of another version. Invalid: a malformed address. All are configuration errors (78).
  static StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  ~Server();  // stops

  int port() const;  // that it listens on; 0 for a reducer alone

  // Notifies everyone and closes reducer, calls, streams and disks, in this order. Takes seconds.
  // Idempotent.
  void Stop();

  // A reducer alone joins no further epoch. Drained() is true once no epoch runs. Only of one job,
  // without coord_store.
  void Drain();
  bool Drained() const;

  // OK after Stop, TimedOut if neither Stop nor a failure came within `timeout`, else the failure
  // (a reducer that its coordinator refuses, a leader that cannot serve or leads no longer).
  Status Wait(Duration timeout);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ringwood

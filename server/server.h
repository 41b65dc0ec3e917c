// A Ringwood server: coordinator, store and reducer in one process, or a reducer alone that joins
// another process's coordinator. Embedded by the launcher, standing alone as `ringwood server`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "ringwood/v1/control.pb.h"
#include "transport/fabric.h"
#include "transport/port_range.h"

namespace ringwood {

struct ServerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; port 0: the kernel chooses, see port()
  bool insecure = false;               // plaintext is wanted; enough for a loopback address
  std::string transport = "auto";      // data plane: "ucx", "grpc" or "auto"
  bool trusted_fabric = false;         // the operator declares network_interface's network private
  std::string network_interface;  // data plane, and control plane off loopback; empty: loopback
  PortRange ports;                // of the data plane, and of a `listen` with port 0
  std::string store;              // directory; empty: nothing is kept
  // How long to wait for a store that another process holds: one that was killed lets go of it when
  // its last write ends. 0: that is an error at once.
  double store_patience_seconds = 0;
  std::string coordinator;  // empty: this process coordinates; else HOST:PORT it joins as reducer
  int reducer_index = 0;
  int servers = 1;  // reducers of a job, this one included; counted by the coordinator
  uint64_t max_memory_bytes =
      0;  // of the reducer; a job that may need more is refused; 0: no limit
  double failure_timeout_seconds = 5;
  double join_timeout_seconds = 120;  // for all to join, and again for the first step
  double stall_timeout_seconds = 0;   // a job that stands still ends after it; 0: only a warning
  std::string host = "localhost";     // as the launcher calls it
  std::string token;                  // of every call; empty: none is asked for
  // The coordinator's verdict on an epoch that failed: who, when and why. A thread of the server's;
  // may be left out.
  std::function<void(const v1::Failure&)> failed;
  // For who watches the reducer: told of each epoch that it joins, and may put itself around the
  // data plane of one. Threads of the server's; both may be left out.
  std::function<void(const v1::JoinResponse&)> joined;
  std::function<std::unique_ptr<Fabric>(std::unique_ptr<Fabric>)> watched;
  std::function<void(uint64_t done, uint64_t all)> checked;  // StoreService::Options
};

class Server {
 public:
  // Denied: plaintext on a network that nobody declared private. Refused: port in use, store locked
  // or of another version. Invalid: an address that cannot be read. All are configuration (78).
  static StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  ~Server();  // stops

  int port() const;  // that it listens on; 0 for a reducer alone

  // Tells everyone, closes in order: reducer, calls, streams, disks. Within seconds. Idempotent.
  void Stop();

  // OK when Stop was called, TimedOut when neither that nor a failure came within `timeout`; else
  // why it cannot go on (a reducer that its coordinator refuses).
  Status Wait(Duration timeout);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ringwood

// What a server is told: by the flags of `ringwood server`, by a deployment for each of its jobs,
// by tests. A value: options_check.h says whether it can be served. Durations are seconds, sizes
// bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "identity/credentials.h"
#include "jobs/job_limits.h"
#include "ringwood/v1/control.pb.h"
#include "ringwood/v1/state.pb.h"
#include "server/store/record/retention.h"
#include "transport/fabric.h"
#include "transport/port_range.h"

namespace ringwood {

struct ServerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; port 0: the kernel chooses, see port()
  bool insecure = false;               // plaintext is allowed; sufficient on a loopback address
  std::string transport = "auto";      // data plane: "ucx", "grpc" or "auto"
  bool trusted_fabric = false;         // the operator declares network_interface's network private
  std::string network_interface;  // data plane, and control plane off loopback; empty: loopback
  PortRange ports;                // of the data plane, and of a `listen` with port 0
  // Directory; empty: nothing is kept. With `coordinator` parts of that one's checkpoints are kept.
  std::string store;
  std::string store_address;   // set by Start: where this process serves such a store
  std::string start;           // set by Start: names this start (proto/server_start.h)
  bool of_deployment = false;  // set by the deployment whose job this is
  std::string update_log;      // with a store: "on" or "fsync" keep one; empty: none is kept
  Retention retention;         // of checkpoints
  std::string coord_store;     // "etcd://H:P,H:P/PREFIX": keeps the coordinator's record there
  std::string etcd_tls;        // of "etcds://…": folder with etcd's ca.pem, see HostTrust
  // How long to wait for a store that another process holds: a killed process holds it until its
  // last write ends. 0: an error at once. Negative: with coord_store for as long as this server
  // leads, as the leader before it may still have the store open; else 0.
  double store_patience_seconds = -1;
  std::string coordinator;  // empty: this process coordinates; else HOST:PORT it joins as reducer
  double coordinator_grace_seconds = -1;  // how long to look for one that is lost, reducer_node.h
  int reducer_index = 0;
  int servers = 1;  // reducers of a job, this one included; counted by the coordinator
  uint64_t max_memory_bytes =
      0;                         // of the reducer; a job that may need more is refused; 0: no limit
  uint64_t max_store_bytes = 0;  // of the store; a checkpoint beyond it fails; 0: no limit
  // Above 0: a deployment. So many jobs at once, each by the name that its token has, each with a
  // folder of its own in the store; `token` is the secret from which theirs are made, and limits
  // are for each of them.
  int jobs = 0;
  double job_idle_seconds = 600;  // without a call of its ranks or observers; then it is closed
  std::map<std::string, JobLimits> job_limits;  // of jobs with limits of their own
  double failure_timeout_seconds = 5;
  double join_timeout_seconds = 120;  // for all to join, and again for the first step
  double stall_timeout_seconds = 0;   // a job without progress ends after it; 0: only a warning
  bool elastic = false;  // a failure ends the epoch, not the job (membership_options.h)
  int min_world = 1;     // workers of an elastic epoch, at least
  int max_world = 0;     // and at most; 0: as many as the job was started with
  double straggler_grace_seconds = 0;  // of an elastic epoch; 0: the others wait for who is late
  // How long members of the epoch on disk may take to come back to a coordinator that was started
  // again; negative: half a minute with a store, which has that epoch, else 0.
  double reattach_grace_seconds = -1;
  std::string host = "localhost";  // the launcher's name for it
  std::string token;               // required of every call; empty: none
  // Of a process that is a reducer alone: where its token was read, and is again; or empty.
  std::string token_file;
  // Mutual TLS on the control plane and on gRPC's data plane; null: plaintext.
  std::shared_ptr<const Credentials> credentials;
  // "HOST:PORT": metrics and the status page, while it coordinates; empty: none.
  std::string http;
  std::string http_tls;  // folder with the page's cert.pem and key.pem; empty: plaintext
  // Asked now and then while it waits for such a store: true ends the wait, as Stop does, and
  // nothing is served. Any thread; optional.
  std::function<bool()> gives_up;
  // Called with the page's URL when it serves them; as `serves`.
  std::function<void(const std::string& url)> shows;
  // Called when it serves: before Start returns, or with coord_store when it leads, on a thread of
  // the server's. With the port that it listens on, 0 for a reducer alone; optional.
  std::function<void(int port)> serves;
  // Called when it led and does not any more, before another server can lead: the process must end
  // at once, as if killed, so that its members turn to the next leader. A thread of the server's;
  // optional: Wait returns the argument.
  std::function<void(const Status& why)> deposed;
  // Called with the coordinator's verdict on a failed epoch: who, when and why. A thread of the
  // server's; optional.
  std::function<void(const v1::Failure&)> failed;
  // Called with each epoch that begins; as above.
  std::function<void(const v1::EpochRecord&)> began;
  // Called with the ranks for which others have waited for a while, to join; as above.
  std::function<void(const std::vector<uint32_t>&)> awaits;
  // For observers of the reducer: called for each epoch that it joins, and may wrap the data plane
  // of one. Threads of the server's; both optional.
  std::function<void(const v1::JoinResponse&)> joined;
  std::function<std::unique_ptr<Fabric>(std::unique_ptr<Fabric>)> watched;
  std::function<void(uint64_t done, uint64_t all)> checked;  // StoreService::Options
};

}  // namespace ringwood

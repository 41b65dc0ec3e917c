// A server's part in the sparse tree, epoch after epoch: joins, sends heartbeats, serves the plan
// that it is given, and when the epoch ends, joins the next one with a new data plane.
//
//   fabric ─▶ Join … Attend ─▶ (plan) Reducer ─▶ failure or end of the job ─▶ all closed ─▶ again
//
// It keeps no state across epochs. A dead peer reported by its transport is a hint only: the
// coordinator decides, unless it stays silent for the failure timeout.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/status.h"
#include "proto/access.h"
#include "ringwood/v1/control.pb.h"
#include "transport/fabric.h"

namespace ringwood {

struct ReducerNodeOptions {
  std::string coordinator;   // host:port
  int index = 0;             // of this job's servers
  uint64_t incarnation = 0;  // of this process, not 0; a secret that identifies this node
  std::string host;
  Access access;
  double failure_timeout_seconds = 5;  // silence of the coordinator after which it is lost
  // How long it is looked for then, while the reducer serves on; negative: CoordinatorGrace's.
  double coordinator_grace_seconds = -1;
  std::string store_address;      // HOST:PORT of the store in this process; empty: it keeps none
  uint64_t max_memory_bytes = 0;  // the coordinator refuses plans with a higher bound; 0: no limit
  // Makes the data plane of one epoch on the given loop; called on another thread than the loop's.
  std::function<StatusOr<std::unique_ptr<Fabric>>(Loop*)> make_fabric;
  // Called for each epoch that it joins, before the data plane connects; optional.
  std::function<void(const v1::JoinResponse&)> joined;
  // Called once if the coordinator will never accept this node (bad token, wrong index, other
  // version).
  std::function<void(Status)> refused;
};

class ReducerNode {
 public:
  explicit ReducerNode(ReducerNodeOptions options);
  ~ReducerNode();  // leaves; the data plane is closed

  // Joins no further epoch. drained() is true once it is in none. Any thread.
  void Drain();
  bool drained() const;

 private:
  class Life;
  std::unique_ptr<Life> life_;
};

}  // namespace ringwood

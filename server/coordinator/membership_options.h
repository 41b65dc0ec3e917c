// The operator's options of the membership.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ringwood {

// The reducer of the coordinator's own process.
struct OwnReducer {
  uint32_t index = 0;
  uint64_t incarnation = 0;  // 0: there is none
};

struct MembershipOptions {
  int servers = 1;                     // reducers of a job
  double failure_timeout_seconds = 5;  // silence that counts as death, after the first step
  double join_timeout_seconds = 120;   // for the world to be complete, and again for its first step
  double stall_timeout_seconds = 0;    // no progress of any rank: ends the epoch; 0: only a warning
  double heartbeat_seconds = 1;        // between heartbeats of a member
  OwnReducer own_reducer = {};
  // An elastic job: a failure ends the epoch, not the job. Who is left joins again.
  bool elastic = false;
  int min_world = 1;  // workers of an epoch, at least
  int max_world = 0;  // and at most; 0: as many as the job was started with
  // How much later than half of the others a rank may be ready; then they go on without it. 0: they
  // wait.
  double straggler_grace_seconds = 0;
  // How long the members of the epoch on disk may take to come back to a coordinator that was
  // started again; 0: they have to join again.
  double reattach_grace_seconds = 0;
  // Whoever stops this server expects another one to go on with the job: members are not told that
  // the epoch is over, but look for that one.
  bool has_successor = false;
  bool update_log = false;           // workers log rounds before they vote on them
  bool keeps_checkpoints = false;    // the server has a store, from which readers may pull
  bool divides_checkpoints = false;  // among its store and those of servers that have one, or not:
  std::string why_undivided = "this server does not divide its checkpoints";
  std::string host;  // of the coordinator and the store; a worker there writes the log
  // The hash of an incarnation in a record that was read from disk (CoordStore::Hash). Without it
  // no process is recognised there.
  std::function<std::string(uint64_t incarnation)> hash;
  // By which the data connections of an epoch prove that they are its members'. Without it they
  // have nothing to prove.
  std::function<std::string(uint64_t job, uint64_t epoch)> fabric_key;
};

}  // namespace ringwood

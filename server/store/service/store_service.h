// The store as a gRPC service. Decisions are made on a Loop of its own; chunks are hashed, written
// and read on a few threads beside it, so that streams do not wait for each other. A stream has one
// chunk in flight at a time, so memory is bounded by streams × 1 MiB.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "proto/access.h"
#include "proto/store_places.h"
#include "ringwood/v1/state.pb.h"
#include "server/calls/limits.h"
#include "server/store/lock_patience.h"
#include "server/store/record/checkpoint_key.h"
#include "server/store/record/retention.h"

namespace grpc {
class Service;
}

namespace ringwood {

// A checkpoint as its manifest dates it.
struct DatedCheckpoint {
  CheckpointId id;
  uint64_t job = 0;
  double unix_seconds = 0;
};

class StoreService {
 public:
  static constexpr size_t kMostFound = 64;  // checkpoints that `found` lists

  struct Options {
    std::string directory;   // DIR/checkpoints; empty: nothing is kept, and callers are told
    std::string store = {};  // DIR
    // A further store of a job, which keeps parts of the checkpoints of another: DIR/parts/INDEX.
    bool further = false;
    Access access = {};          // by which the main store calls the further ones
    LockPatience patience = {};  // with another process's lock, see OpenDatabase
    Retention retention;
    uint64_t max_bytes = 0;  // of the directory; a checkpoint beyond it fails; 0: no limit
    // Called with the progress of reading a checkpoint before a job resumes from it; optional. On a
    // thread of the store's own.
    std::function<void(uint64_t done, uint64_t all)> checked;
    // The state to which the update log leads from a checkpoint: a job resumes from the one that
    // leads furthest. Called on a thread of the store's own; optional.
    std::function<CheckpointId(uint64_t job, const CheckpointId&)> reach;
    // Called when a checkpoint was read back, with the newest good ones of the job, which are never
    // removed, newest first, and the bytes of the first. On a thread of the store's own; optional.
    std::function<void(uint64_t job, std::vector<CheckpointId>, uint64_t bytes)> kept;
    // Most callers that wait for a checkpoint: one per rank, and some that were forgotten.
    size_t max_waiters = 2 * kMaxWorld;
    // Most chunks of 1 MiB sent at once, each in two copies; ranks that resume wait in line.
    size_t max_loads = 32;
    size_t max_waiting_loads = 2 * kMaxWorld;
  };
  static StatusOr<std::unique_ptr<StoreService>> Create(const Options& options);
  ~StoreService();  // after the gRPC server that serves it has shut down

  grpc::Service* service();
  grpc::Service* parts();  // of a further store; else null

  // For the coordinator (Coordinator::Options). Any thread. FindBase reads a checkpoint to its end,
  // on a thread of its own, and logs its progress; each is read once.
  // `stores`: further ones, in which parts of it may be.
  void FindBase(uint64_t job, const std::vector<StorePlace>& stores,
                std::function<void(StatusOr<std::optional<CheckpointBase>>)> answer);
  void SetEpoch(const v1::EpochRecord& record);

  uint64_t newest_epoch() const;  // that any checkpoint names; 0: none. Fixed at Create.
  uint64_t newest_bytes() const;  // of the newest checkpoint; 0: none. Fixed at Create.
  // The newest that were complete and read back at Create, of any job, newest first.
  const std::vector<DatedCheckpoint>& found() const;

  void Stop();  // answers everyone who waits

 private:
  class Service;
  explicit StoreService(std::unique_ptr<Service> service);
  std::unique_ptr<Service> service_;
};

}  // namespace ringwood

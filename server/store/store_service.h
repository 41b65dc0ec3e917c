// The store as a gRPC service. Disk work runs on a Loop of its own; a stream has one chunk on its
// way at a time, so memory is bounded by streams × 1 MiB.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "ringwood/v1/state.pb.h"
#include "server/calls/limits.h"
#include "server/store/checkpoint_key.h"

namespace grpc {
class Service;
}

namespace ringwood {

class StoreService {
 public:
  struct Options {
    std::string directory;                 // DIR/checkpoints; empty: it keeps nothing and says so
    Duration patience = Duration::zero();  // with another process's lock, see OpenDatabase
    // For who watches a checkpoint that is read before a job resumes from it; may be left out. On a
    // thread of the store's own.
    std::function<void(uint64_t done, uint64_t all)> checked;
    // Callers that wait for a checkpoint: every rank has one, some a forgotten one.
    size_t max_waiters = 2 * kMaxWorld;
    // Chunks of 1 MiB on their way out at once, each in two copies; a world that resumes waits in
    // line.
    size_t max_loads = 32;
    size_t max_waiting_loads = 2 * kMaxWorld;
  };
  static StatusOr<std::unique_ptr<StoreService>> Create(const Options& options);
  ~StoreService();  // after the gRPC server that serves it has shut down

  grpc::Service* service();

  // For the coordinator (Coordinator::Options). Any thread. FindBase reads a checkpoint to its end,
  // on a thread of its own, and says in the log how far it is; each is read once.
  void FindBase(uint64_t job, std::function<void(StatusOr<std::optional<CheckpointBase>>)> answer);
  void SetEpoch(const v1::EpochRecord& record);

  uint64_t newest_epoch() const;  // that any checkpoint names; 0: none. Fixed at Create.

  void Stop();  // answers everyone who waits

 private:
  class Service;
  explicit StoreService(std::unique_ptr<Service> service);
  std::unique_ptr<Service> service_;
};

}  // namespace ringwood

// The coordinator as a gRPC service: passes calls, heartbeats and ticks to the Membership, and its
// actions to callers, streams and the disk. One Loop owns the Membership; no thread waits.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/coordinator/coord_store.h"
#include "server/coordinator/membership.h"

namespace grpc {
class Service;
}

namespace ringwood {

class Coordinator {
 public:
  using BaseAnswer = std::function<void(StatusOr<std::optional<CheckpointBase>>)>;

  struct Options {
    MembershipOptions membership;
    std::shared_ptr<CoordStore> store;
    // Looks for the newest good checkpoint of a job (0: any); may answer later, on any thread.
    // `stores`: further ones that its parts may be in.
    std::function<void(uint64_t job, const std::vector<StorePlace>& stores, BaseAnswer answer)>
        find_base;
    // Called when an epoch begins, on the loop's thread, before any member is told.
    std::function<void(const v1::EpochRecord&)> on_epoch;
    // Called when an epoch has failed: who, when and why; on the loop's thread. Optional.
    std::function<void(const v1::Failure&)> on_failure;
    // Called when ranks have waited for these for a while; on the loop's thread. Optional.
    std::function<void(const std::vector<uint32_t>&)> on_await;
    // Both optional, on the loop's thread: what happened and what followed from it, and what is to
    // be added to a status.
    std::function<void(const Event&, const Actions&, TimePoint now)> seen;
    std::function<void(v1::StatusResponse*, TimePoint now)> complete;
    uint64_t epoch_floor = 0;  // newest epoch that the checkpoints know
  };

  static StatusOr<std::unique_ptr<Coordinator>> Create(Options options);
  ~Coordinator();  // after the gRPC server that serves it has shut down

  grpc::Service* service();

  // What the Status call answers. Any other thread; at most a second, or an error.
  StatusOr<v1::StatusResponse> Describe();

  // Answers all callers with `reason` and accepts nothing afterwards; the gRPC server can then be
  // shut down at once.
  void Stop(const std::string& reason);

 private:
  class Service;
  explicit Coordinator(std::unique_ptr<Service> service);
  std::unique_ptr<Service> service_;
};

}  // namespace ringwood

// The store as a gRPC service. Disk work runs on a Loop of its own; a stream has one chunk on its
// way at a time, so memory is bounded by streams × 1 MiB.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "server/event.h"

namespace grpc {
class Service;
}

namespace ringwood {

class StoreService {
 public:
  // `directory` (DIR/checkpoints); empty: a store that keeps nothing and says so.
  static StatusOr<std::unique_ptr<StoreService>> Create(const std::string& directory);
  ~StoreService();  // after the gRPC server that serves it has shut down

  grpc::Service* service();

  // For the coordinator (Coordinator::Options). Any thread.
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

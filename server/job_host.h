// What a server has of one job: coordinator, store and update log, and its own reducer. Without
// gRPC's server, which belongs to the process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "server/coordinator/coord_store.h"
#include "server/coordinator/coordinator.h"
#include "server/reducer/reducer_node.h"
#include "server/server_options.h"
#include "server/status/board.h"
#include "server/store/lock_patience.h"
#include "server/store/service/store_service.h"
#include "server/updates/update_service.h"

namespace ringwood {

// A reducer of a job whose coordinator is at this HOST:PORT, as `options` say. `refused`: the
// coordinator will never take it; a thread of the reducer's.
std::unique_ptr<ReducerNode> MakeReducer(const ServerOptions& options,
                                         const std::string& coordinator, uint64_t incarnation,
                                         std::function<void(const Status&)> refused);

// As the options say, for a store that another process has open.
LockPatience StorePatience(const ServerOptions& options);

// How long members of the epoch on record may take to come back.
double ReattachGraceSeconds(const ServerOptions& options);

class JobHost {
 public:
  // Opens the stores and coordinates. `record`: null: it is in the store, or in memory without one.
  static StatusOr<std::unique_ptr<JobHost>> Open(const ServerOptions& options,
                                                 std::unique_ptr<CoordStore> record);
  ~JobHost();  // after Stop, when no call of gRPC's is left

  // Before its calls are served at `address`: this user's commands find that in the store, also
  // where the store begins anew under way.
  void LeaveAddress(const std::string& address);

  // The reducer of this process, where it is one of the job's; it finds the coordinator there.
  // `token`: what its calls carry.
  void StartReducer(const std::string& coordinator, const std::string& token,
                    std::function<void(const Status&)> refused);

  // In this order, before gRPC's server shuts down.
  void StopCoordinator(const std::string& reason);
  void Stop();  // what is left

  Coordinator& coordinator() { return *coordinator_; }
  StoreService& store() { return *store_; }
  UpdateService& updates() { return *updates_; }

 private:
  explicit JobHost(const ServerOptions& options);
  void TellStore() const;
  Status OpenStore();
  Status Coordinate(std::unique_ptr<CoordStore> record);
  MembershipOptions Membership() const;

  const ServerOptions options_;
  const uint64_t reducer_incarnation_;
  std::string address_;
  std::unique_ptr<Board> board_;        // outlives the coordinator and the store, which it watches
  std::shared_ptr<CoordStore> record_;  // the coordinator's
  std::unique_ptr<UpdateService> updates_;
  std::unique_ptr<StoreService> store_;  // uses the updates
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<ReducerNode> reducer_;
};

}  // namespace ringwood

// The update log as a gRPC service. Its disk work runs on a Loop of its own, so that a round, which
// a vote waits for, never waits behind a checkpoint.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "ringwood/v1/state.pb.h"
#include "server/store/lock_patience.h"
#include "server/store/record/checkpoint_key.h"
#include "server/updates/update_log.h"

namespace grpc {
class Service;
}

namespace ringwood {

class UpdateService {
 public:
  struct Options {
    std::string directory;  // STORE/updates; empty: nothing is kept, and callers are told
    UpdateLogOptions log;
    LockPatience patience = {};  // as OpenDatabase
  };
  // A log that is off is opened where there is one, so that what a job gives up is not replayed
  // later.
  static StatusOr<std::unique_ptr<UpdateService>> Create(const Options& options);
  ~UpdateService();  // after the gRPC server that serves it has shut down

  grpc::Service* service();
  bool on() const;

  // Any thread, all five.
  void SetEpoch(const v1::EpochRecord& record);
  void LeaveRoomFor(uint64_t checkpoint_bytes);  // as UpdateLog
  // These are the checkpoints of the job that its log is kept for.
  void Keep(uint64_t job, std::vector<CheckpointId> kept);
  // The state that checkpoint and log make, by its name; the checkpoint's where nothing leads on.
  CheckpointId Reach(uint64_t job, const CheckpointId& id);
  // Reads the rounds that lead on from a checkpoint back, and counts them. What is damaged is said,
  // and ends them. An error where they cannot be read now: who began without them would give them
  // up.
  StatusOr<CheckpointBase> Extend(CheckpointBase base);

  void Stop();

 private:
  class Service;
  explicit UpdateService(std::unique_ptr<Service> service);
  std::unique_ptr<Service> service_;
};

}  // namespace ringwood

// Brings every round to the update log before this worker votes on it, where it is the one that
// does. A log that fails costs its guarantee and not the job: rounds are missing then, and it
// begins again with the next checkpoint. Trainer's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "client/updates/update_client.h"

namespace ringwood {

class UpdateWriter {
 public:
  // A server that is started again may take so long; without it nobody can vote either.
  static constexpr double kRetrySeconds = 30;

  // A new epoch; `client` outlives it. Null: this worker does not write.
  void Enter(UpdateClient* client) { client_ = client; }
  bool writes() const { return client_ != nullptr; }  // any thread

  // The trainer's, for the next round: what its optimizer needs to do the step again.
  void Note(std::string note) { note_ = std::move(note); }
  const std::string& note() const { return note_; }

  // `lives` says whether the epoch goes on: it is not worth waiting otherwise.
  void Log(const RoundName& name, const StatusOr<RoundBody>& body,
           const std::function<bool()>& lives);

  // A checkpoint of the last committed step has begun.
  void CheckpointBegun() { restarts_ = suspended_; }

 private:
  Status Try(const RoundName& name, const RoundBody& body, const std::function<bool()>& lives);

  std::atomic<UpdateClient*> client_{nullptr};
  std::string note_;
  bool suspended_ = false;
  bool restarts_ = false;
};

}  // namespace ringwood

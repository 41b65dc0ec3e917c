// Brings every round to the update log before this worker votes on it, where it is the one that
// does: sums on a thread of their own as they are reached, while the rest is exchanged, so that the
// vote waits for the last ones.
//
// A log that fails costs its guarantee and not the job: rounds are missing then, and it begins
// again with the next checkpoint, for as long as that is not given up.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/buffer.h"
#include "base/loop.h"
#include "base/status.h"
#include "client/updates/round_body.h"
#include "client/updates/update_client.h"

namespace ringwood {

class UpdateWriter {
 public:
  // A server that is started again may take so long; without it nobody can vote either.
  static constexpr double kRetrySeconds = 30;

  // The sum of a tensor, by id, as far as it is reached; valid until the round ends. Nothing: the
  // tensor is on a device.
  using SumOf = std::function<std::optional<TensorSum>(size_t id)>;

  ~UpdateWriter() { Drain(); }

  // A new epoch, in which rounds have this name but for their step. `client` outlives it. Null:
  // this worker does not write. Trainer's thread, like all but what says otherwise.
  void Enter(UpdateClient* client, const RoundName& name);
  // A plan begins, between two rounds.
  void Take(SumOf sum_of, TensorsById tensors);
  bool writes() const { return client_ != nullptr; }  // any thread

  // The trainer's, for the next round: what its optimizer needs to do the step again.
  void Note(std::string note) { note_ = std::move(note); }
  const std::string& note() const { return note_; }

  // The sums of these tensors are there; or the first `elements` of one dense sum. Any thread;
  // returns at once.
  void Exchanged(uint64_t step, const std::vector<size_t>& ids);
  void Reached(uint64_t step, size_t id, uint64_t elements);
  // All sums are there: returns when the round is logged, or cannot be. `lives` says whether the
  // epoch goes on: it is not worth trying again otherwise.
  void Log(const RoundFacts& facts, const std::function<bool()>& lives);

  // The epoch has failed: nothing waits for the store any more. Any thread.
  void Cancel();
  // Returns when nothing looks at sums any more.
  void Drain();

  // A checkpoint of the last committed step has begun; it has ended meanwhile, or does later.
  void CheckpointBegun(uint64_t step);
  void CheckpointEnded(uint64_t step, bool complete);  // any thread

 private:
  // The round in hand. Touched on loop_.
  struct Open {
    uint64_t step = 0;
    RoundBody body;
    std::unique_ptr<UpdateClient::Round> way;
    Status wrong;  // it cannot be logged
  };
  bool rests() const { return !writes() || (suspended_ && !restarts_); }
  void Begin(uint64_t step);
  void Send(uint64_t step, size_t id, uint64_t elements);
  Status Finish(const RoundFacts& facts, const std::function<bool()>& lives);
  void Tell(uint64_t step, const Status& logged);
  // Ends the log where the checkpoint that it goes on after was not completed.
  void CheckBase();
  void GiveUpBase();

  struct Ended {
    uint64_t step;
    bool complete;
  };
  std::optional<uint64_t> base_;  // the log goes on after this checkpoint, which is under way
  absl::Mutex mutex_;
  std::optional<Ended> ended_ ABSL_GUARDED_BY(mutex_);  // the last checkpoint that did

  std::atomic<UpdateClient*> client_{nullptr};
  RoundName name_;
  SumOf sum_of_;
  TensorsById tensors_;
  std::string note_;
  std::atomic<bool> cancelled_{false};  // until the next epoch
  std::atomic<bool> suspended_{false};
  std::atomic<bool> restarts_{false};
  std::optional<Open> open_;    // touched on loop_
  Buffer<std::byte> memory_;    // of encoded entries. Touched on loop_
  std::unique_ptr<Loop> loop_;  // from the first epoch in which this worker writes
};

}  // namespace ringwood

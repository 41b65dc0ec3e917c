// The checkpoints of a session: those that it saves (the trainer's items and its own state), and
// the one that it started from.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "client/checkpoint/checkpointer.h"
#include "client/checkpoint/restore.h"
#include "client/checkpoint/store_client.h"
#include "client/tensor_states.h"

namespace ringwood {

class Checkpoints {
 public:
  // `store` outlives this, whose end cancels what is under way. `ended` as Checkpointer's.
  Checkpoints(StoreClient* store, int rank, const CheckpointLimits& limits,
              Checkpointer::Told ended)
      : store_(store), rank_(rank), checkpointer_(store, limits, std::move(ended)) {}

  // The session starts from this checkpoint, and so many rounds after it.
  void StartFrom(const CheckpointName& name, uint64_t replayed) {
    restore_ = std::make_unique<Restore>(store_, name, rank_, replayed);
  }
  Restore* restore() { return restore_.get(); }  // null: a new job
  const Restore* restore() const { return restore_.get(); }

  // Copies and returns while the copy is sent (Checkpointer::Begin). `items` are the trainer's,
  // `plan` is the serialised v1::SavedPlan, or empty.
  Status Save(const StripeName& stripe, std::vector<Item> items, const TensorStates& states,
              const std::string& plan);
  // Before anything of `states` changes.
  void Release() { checkpointer_.Release(); }
  std::optional<Status> Wait() { return checkpointer_.Wait(); }
  CheckpointProgress progress() { return checkpointer_.progress(); }  // any thread
  Duration took() { return checkpointer_.took(); }  // the last one that was completed
  void Interrupt(const Status& why) { checkpointer_.Interrupt(why); }  // any thread
  void Resume() { checkpointer_.Resume(); }

  // Of the checkpoint that the session started from; NotFound where there is none.
  StatusOr<uint64_t> Bytes(const std::string& name, bool shared);
  Status Read(const std::string& name, bool shared, std::span<std::byte> out);

 private:
  Status NoCheckpoint() const;

  StoreClient* const store_;
  const int rank_;
  std::unique_ptr<Restore> restore_;
  Checkpointer checkpointer_;
};

}  // namespace ringwood

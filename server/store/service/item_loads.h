// The streams that load items of checkpoints. Each is one of a few at once, which others wait for;
// it is led on the store's loop, and a thread of the disk reads its chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/loop.h"
#include "base/status.h"
#include "ringwood/v1/store.pb.h"
#include "server/calls/streams.h"
#include "server/calls/turnstile.h"
#include "server/store/checkpoint_store.h"
#include "server/store/record/manifest.h"
#include "server/store/service/reading_room.h"
#include "server/store/service/stripe_intake.h"

namespace ringwood {

// To whoever still calls.
inline Status StoreStopping() { return Unavailable("the store is stopping"); }

class ItemLoads {
 public:
  using Stream = OutStream<v1::LoadChunk>;
  using Opened = std::shared_ptr<const OpenedCheckpoint>;

  // Both are called on the loop.
  struct Lookups {
    std::function<StatusOr<Opened>(const CheckpointId&)> find;
    // Where the further store of this identity is called; none: it is not there.
    std::function<std::optional<std::string>(uint64_t store)> address_of;
  };
  struct Limits {
    size_t at_once;
    size_t waiting;
  };

  // All are borrowed. The threads end before this does, those of the disk first: their tasks end on
  // the loop.
  ItemLoads(CheckpointStore* store, ReadingRoom* room, Loop* loop, DiskThreads* disks,
            Lookups lookups, Limits limits)
      : store_(store),
        room_(room),
        loop_(loop),
        disks_(disks),
        lookups_(std::move(lookups)),
        limits_(limits),
        turnstile_(limits.at_once, limits.waiting) {}

  // A caller comes, by a number of its own. Any thread.
  Stream* Open(uint64_t caller, const v1::LoadRequest& request);

 private:
  struct Reading {
    v1::LoadRequest request;
    Opened opened;  // also if it is pruned meanwhile
    const v1::StoredItem* item = nullptr;
    int next = 0;
    Loop* disk = nullptr;                // which reads it
    std::vector<std::string> elsewhere;  // addresses of the stores that have chunks of it, too
  };
  Status Find(Reading* reading) const;
  Status FindElsewhere(Reading* reading) const;
  void Continue(Stream* stream, const std::shared_ptr<Reading>& reading);
  void SendChunk(Stream* stream, const Reading& reading, const v1::StoredChunk& stored);
  void AddFollowing(const Reading& reading, v1::LoadChunk* chunk) const;
  void Fail(Stream* stream, const CheckpointId& id, const Status& failed);

  CheckpointStore* const store_;
  ReadingRoom* const room_;
  Loop* const loop_;
  DiskThreads* const disks_;
  const Lookups lookups_;
  const Limits limits_;
  Turnstile turnstile_;
};

}  // namespace ringwood

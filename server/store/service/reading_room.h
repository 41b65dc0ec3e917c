// The streams of readers (Readers decides): each is told what is in its checkpoint, which stays as
// long as the stream does. Everything but Open happens on the store's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "base/status.h"
#include "server/calls/streams.h"
#include "server/store/checkpoint_store.h"
#include "server/store/service/readers.h"
#include "server/store/service/stripe_collector.h"

namespace ringwood {

class ReadingRoom {
 public:
  using Stream = OutStream<v1::HeldPart>;
  using Manifest = std::shared_ptr<const v1::CheckpointManifest>;
  using OpenManifest = std::function<StatusOr<Manifest>(const CheckpointId&)>;

  // All outlive this; the loop's thread ends before it.
  ReadingRoom(CheckpointStore* store, const StripeCollector* collector, OpenManifest open,
              Loop* loop);

  // A reader comes. Any thread.
  Stream* Open(uint64_t reader, const v1::HoldRequest& wish);

  // After anything that may complete or end a checkpoint, or shows that one is damaged.
  void Changed() {
    changed_ = true;
    Look();
  }
  // A piece of this checkpoint is being read.
  void Read(const CheckpointId& id) { readers_.Read(id, Now()); }
  // Aborted: this checkpoint, which somebody read and did not hold, was removed meanwhile.
  Status CheckThere(const CheckpointId& id) const;
  void Close(const Status& why);

 private:
  // A stream takes one message or end at a time: while a part is on its way it is not touched.
  struct Visit {
    Stream* stream = nullptr;
    Manifest manifest;  // null: the reader waits
    int next = 0;       // item
    bool sending = false;
    bool told = false;  // all parts
    Status ends;        // when the part was sent; OK: it does not
  };
  void Enter(uint64_t reader, const v1::HoldRequest& wish, Stream* stream);
  void Sent(uint64_t reader);
  void Leave(uint64_t reader);            // its caller went away
  void Over(uint64_t reader);             // gRPC is done with its stream
  void End(uint64_t reader, Status why);  // by value: it may be the visit's own, which goes
  void Look();
  void LookOn();
  void Hand(uint64_t reader, const CheckpointId& id);
  void SendPart(Visit* visit);
  Readers::Making MakingOf(const CheckpointId& id) const;

  CheckpointStore* const store_;
  const StripeCollector* const collector_;
  const OpenManifest open_;
  Loop* const loop_;
  Readers readers_;  // touched only on loop_, as what follows
  std::map<uint64_t, Visit> visits_;
  std::vector<Kept> complete_;  // as the store has it, unless
  bool changed_ = true;
  bool looking_ = false;  // LookOn comes again
};

}  // namespace ringwood

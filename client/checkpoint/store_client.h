// The store as a worker sees it: over gRPC in grpc/store_client.h; tests have their own.
// Calls block; one save may run beside the other calls.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/checkpoint/arena.h"

namespace ringwood {

// A checkpoint: a step may have one in several epochs.
struct CheckpointName {
  uint64_t epoch = 0;
  uint64_t step = 0;
};

// One rank's part of one checkpoint.
struct StripeName {
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint32_t rank = 0;
  uint32_t world = 1;
  uint64_t incarnation = 0;
  std::string store = {};  // HOST:PORT of the further store that it goes to; empty: to the main one
  Duration grace = {};     // so long a main store that is lost is looked for
};

// An item that a checkpoint has.
struct CheckpointItem {
  std::string name;
  bool shared = false;
  uint64_t bytes = 0;
};

class StoreClient {
 public:
  virtual ~StoreClient() = default;

  // Told after each piece how many bytes were sent so far; the next one goes when it returns.
  using Sent = std::function<void(uint64_t bytes)>;

  // Sends the arena's pieces; OK when they are durable.
  virtual Status Save(const StripeName& stripe, const Arena& arena, Duration timeout,
                      const Sent& sent) = 0;

  // OK when all ranks' stripes and the manifest are durable.
  virtual Status Await(const CheckpointName& name, Duration timeout) = 0;

  // Both, with their timeouts. A main store that is lost meanwhile, and is there again within the
  // grace, gets the stripe once more.
  virtual Status Keep(const StripeName& stripe, const Arena& arena, Duration save, Duration await,
                      const Sent& sent) {
    RW_RETURN_IF_ERROR(Save(stripe, arena, save, sent));
    return Await({stripe.epoch, stripe.step}, await);
  }

  // The items of a complete checkpoint that `rank` can load: the shared ones and its own.
  virtual StatusOr<std::vector<CheckpointItem>> Items(const CheckpointName& from,
                                                      uint32_t rank) = 0;

  // One item of a complete checkpoint; `out` has exactly its size.
  virtual Status Load(const CheckpointName& from, uint32_t rank, const std::string& name,
                      bool shared, std::span<std::byte> out) = 0;

  // Ends running and later calls with an error. Any thread.
  virtual void Cancel() = 0;
};

}  // namespace ringwood

// The streams that bring stripes. Each begins and ends on the store's loop; between, one thread of
// the disk compares and writes what it brings, and syncs it.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "server/calls/streams.h"
#include "server/store/service/stripe_collector.h"
#include "server/store/service/worker_memory.h"

namespace ringwood {

// The threads on which a store hashes, writes and reads chunks: some compute while others wait for
// the disk.
class DiskThreads {
 public:
  DiskThreads() : threads_(kThreads) {}

  // For one stream, which keeps it, so that its tasks run in order. Any thread.
  Loop* Next() { return &threads_[next_++ % kThreads]; }

 private:
  static constexpr size_t kThreads = 4;
  struct Thread : Loop {
    Thread() : Loop("store-disk", Loop::Pace::kBackground) {}
  };
  std::atomic<size_t> next_{0};
  std::vector<Thread> threads_;
};

class StripeIntake {
 public:
  using Stream = InStream<v1::SaveChunk>;

  // All are borrowed. The threads end before this does, those of the disk first: their tasks end on
  // the loop. `changed` is called there after what may complete or end a checkpoint.
  StripeIntake(StripeCollector* collector, Loop* loop, DiskThreads* disks, const MetProcesses* met,
               std::function<void()> changed)
      : collector_(collector),
        loop_(loop),
        disks_(disks),
        met_(met),
        changed_(std::move(changed)) {}

  // A stream comes. Any thread.
  Stream* Open(v1::SaveReceipt* receipt);
  static Stream* Refuse(const Status& why);

 private:
  // A stream brings one chunk at a time, so one thread at a time has it.
  struct Saving {
    explicit Saving(const MetProcesses* met) : memory(met) {}
    Stream* stream = nullptr;
    v1::SaveReceipt* receipt = nullptr;
    std::unique_ptr<StripeCollector::Incoming> incoming;  // null before it begins and when it ended
    Loop* disk = nullptr;
    WorkerMemory memory;
  };
  using Stripe = std::shared_ptr<Saving>;
  using Chunk = std::shared_ptr<v1::SaveChunk>;

  void Begin(const Stripe& stripe, const Chunk& first);
  void Write(const Stripe& stripe, const Chunk& chunk);
  void End(const Stripe& stripe, const Status& so_far);

  StripeCollector* const collector_;  // touched only on loop_, as it says
  Loop* const loop_;
  DiskThreads* const disks_;
  const MetProcesses* const met_;
  const std::function<void()> changed_;
};

}  // namespace ringwood

// Collectives of some or all ranks of an epoch, in the background: started from any thread, run on
// the net loop in the order of their start, waited for from any thread. All members start the same
// calls in the same order; calls of different communicators do not wait for each other.
//
// A few calls run at once: a call begins while less than kBytesAtOnce are under way. Some members
// wait for nobody (a broadcast's root sends and is done), so after every kFenceBytes of such calls
// a fence waits for all members. What arrives at a member that is late then stays far below the
// bytes that a transport keeps of a peer.
//
// Every message carries a digest of all calls up to its own. If members made different calls, even
// calls in which no message passes between them, the next message between them is an error.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "client/connection/awaiting_transport.h"
#include "client/connection/run_ahead.h"
#include "dense/arithmetic/reduce.h"
#include "dense/place.h"

namespace ringwood {

class EpochLink;

constexpr size_t kCallsAtOnce = 8;           // parts under way at once
constexpr uint64_t kBytesAtOnce = 32 << 20;  // of more than one part
constexpr uint64_t kFenceBytes = 8 << 20;
constexpr uint64_t kPartBytes = 4 << 20;  // of a broadcast or reduce
constexpr uint64_t kMostCalls = 1 << 14;  // started and not ended

enum class CollectiveVerb : uint8_t {
  kAllReduce = 1,
  kReduce,
  kBroadcast,
  kReduceScatter,
  kAllGather,
  kAllToAll
};
const char* NameOf(CollectiveVerb verb);

// Input and output are read and written until the call has ended; after an error that Wait
// returned, they are not touched any more. Lengths in elements.
struct CollectiveCall {
  CollectiveVerb verb = CollectiveVerb::kAllReduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;        // rank of the communicator
  uint64_t about = 0;  // a digest of what else tells it from others, alike on all members
  // all-reduce      as long as the output, or the output
  // reduce          on the root the output too
  // broadcast       none
  // reduce-scatter  all shares         (the output: this rank's, which may lie at its place there)
  // all-gather      this rank's share  (the output: all; the share may lie at its place there)
  // all-to-all      what is for each rank, in their order
  // Otherwise they do not overlap.
  std::span<const std::byte> input;
  std::span<std::byte> output;
  std::vector<uint64_t> shares;    // reduce-scatter, all-gather; all-to-all: for each rank
  std::vector<uint64_t> receives;  // all-to-all: from each rank
};

// The call as this member makes it, in words: "all-reduce of 100 float32", "all-reduce (max) of …".
std::string ToString(const CollectiveCall& call);

// OK, or what is wrong with the call among `world` members, of which this is `rank`.
Status Check(const CollectiveCall& call, int rank, int world);

// The place of a member of `ranks` within the whole of an epoch. Hop costs are the defaults:
// measured ones change between two rounds, and members may make the communicator at different
// times.
StatusOr<Place> PlaceIn(const Place& whole, const std::vector<int>& ranks);

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  class Work;

  // `place` has the members; `number` tells its messages from others', 1 or more.
  Communicator(EpochLink* link, const Place& place, uint32_t number)
      : link_(link), place_(place), number_(number) {}

  int rank() const { return place_.rank; }
  int world() const { return place_.world; }

  // Any thread, while the epoch's link lives.
  StatusOr<std::shared_ptr<Work>> Start(const CollectiveCall& call);

  // OK when it has ended within `timeout`. Else the epoch is over with the error, which says who
  // failed, or who is still awaited. Any thread, while the epoch's link lives.
  Status Wait(Work* work, Duration timeout);
  // Any thread, at any time: never waits. Nothing: it has not ended.
  std::optional<Status> Outcome(Work* work) const;

 private:
  struct Part {  // what runs at once: a range of a call's bytes
    std::shared_ptr<Work> work;
    size_t begin = 0;
    size_t bytes = 0;
  };
  using Done = std::function<void(Status)>;

  std::vector<Part> PartsOf(const std::shared_ptr<Work>& work) const;
  void Advance();
  void Begin(Part part);
  void Fence();
  void End(const std::shared_ptr<Work>& work, uint64_t bytes, const Status& status);
  void FailAll(const Status& status);
  Status Broken(Work* work, const Status& status);
  std::optional<Status> EndedWithin(Work* work, Duration timeout) const;
  std::set<int> AwaitedPeers(Work* work);
  std::string AwaitedText(const std::set<int>& nodes) const;

  EpochLink* const link_;
  const Place place_;
  const uint32_t number_;
  std::atomic<uint64_t> open_{0};  // works that have not ended

  // On the net loop:
  std::deque<Part> queue_;
  uint64_t calls_ = 0;  // parts and fences so far: the rounds of their messages
  uint64_t about_ = 0;  // what tells all calls so far from others
  size_t running_ = 0;
  uint64_t running_bytes_ = 0;
  RunAhead ahead_{kFenceBytes};
  bool fencing_ = false;
  bool advancing_ = false;
  Status failed_;
  char fence_ = 0;
};

// A call that was started.
class Communicator::Work : public std::enable_shared_from_this<Work> {
 public:
  explicit Work(const CollectiveCall& call) : call_(call) {}

 private:
  friend class Communicator;
  void Prepare(const Communicator& of);  // before the first part
  void Finish(const Communicator& of);   // after the last one

  CollectiveCall call_;
  Buffer<std::byte> scratch_;       // a reduce-scatter's input; a reduce's output where not needed
  std::span<std::byte> exchanged_;  // what the parts work on
  uint64_t about_ = 0;              // a digest of this call and those before it; on the net loop
  int parts_ = 1;                   // to come; on the net loop
  // Of the parts under way; on the net loop.
  std::vector<std::shared_ptr<AwaitingTransport>> awaited_;
  absl::Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  Status status_ ABSL_GUARDED_BY(mutex_);  // of the exchange
  Status told_ ABSL_GUARDED_BY(mutex_);    // what Wait returned, if it is an error
};

}  // namespace ringwood

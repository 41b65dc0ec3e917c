// A worker's side of one sparse exchange, which runs its schedule (tree_schedule.h): entries go up
// to the first reducer; the result and the accepted bits come down.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "sparse/codec.h"
#include "sparse/entries.h"
#include "sparse/group.h"
#include "sparse/shard.h"
#include "sparse/tree.h"
#include "transport/schedule.h"
#include "transport/transport.h"

namespace ringwood {

struct Descent {
  Entries result;  // Σ over workers of the accepted entries; the same bits on all workers
  std::vector<uint8_t> accepted;  // one byte (0 or 1) for each entry that went up
  uint64_t sent_bytes = 0;        // payload
};

// One worker's way through one group, the same in every round: made once from the plan. A value;
// copies share memory for messages.
class Climb {
 public:
  // An error names what the plan has wrong.
  static StatusOr<Climb> Of(const TreeShape& job, int worker, const SparseGroup& group);

  uint64_t most_entries() const;  // of a result

  // Rounds the values to what the codec can express, message by message. What is lost must stay in
  // the residual (SparseTensor::SetSent). Nothing changes where the codec has fp32 values. `up` has
  // indices below the group's elements.
  void Round(Entries* up) const;

  // Loop thread; returns at once. `up` has at most k entries, already rounded; it is not needed
  // afterwards. With one worker the result is `up`, all of it accepted; without reducers the
  // workers send to each other and all merge alike (right, but P − 1 messages each). There is no
  // timer here: when a peer fails, the epoch closes the transport and `done` hears the reason.
  // The memory of `old`, the answer of an earlier round, is used again.
  void Start(Transport* transport, uint64_t round, const Entries& up,
             std::function<void(StatusOr<Descent>)> done, Descent old = {}) const;

 private:
  struct Memory;   // what a range needs in a round
  class InFlight;  // one round

  // One index range as this worker sees it.
  struct Part {
    IndexRange range;
    uint64_t k = 0;     // entries that a worker sends at most
    uint64_t most = 0;  // entries of the result at most
  };

  bool has_tree() const { return shape_.workers > 1 && shape_.reducers > 0; }

  TreeShape shape_;
  int worker_ = 0;
  SparseGroup group_;
  Codec codec_;
  Merge merge_ = Merge::kGtopk;
  int chunks_ = 1;           // of every message of entries
  std::vector<Part> parts_;  // one where there is no tree to shard
  std::shared_ptr<const Schedule> schedule_;
  // One a part, kept from round to round; empty while a round has it. Loop thread.
  std::shared_ptr<std::vector<Memory>> memory_;
};

}  // namespace ringwood

// A worker's side of one sparse exchange: entries go up to the first reducer; the result and the
// counted bits come down.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "sparse/entries.h"
#include "sparse/tree.h"
#include "transport/transport.h"

namespace ringwood {

struct ClimbRequest {
  TreeShape shape;
  int node = 0;  // this worker's rank
  uint64_t round = 0;
  uint32_t group = 0;
  uint64_t elements = 0;  // of the group
  uint64_t k = 0;         // entries that a worker sends at most
  std::string codec = "block16/fp32";
  std::string merge = "gtopk";  // read only without reducers, where every worker merges for itself
};

struct Descent {
  Entries result;  // Σ over workers of the counted entries; the same bits on all workers
  std::vector<uint8_t> counted;  // one byte (0 or 1) for each entry that went up
  uint64_t sent_bytes = 0;       // payload
};

// Loop thread; returns at once. `up` has at most k entries, already rounded to what the codec can
// say (RoundValues) if it is a coarse one. With one worker the result is `up` and everything
// counts; without reducers the workers send to each other and all merge alike (right, but P − 1
// messages each). There is no timer here: when a peer fails, the epoch closes the transport and
// `done` hears the reason.
void StartClimb(Transport* transport, const ClimbRequest& request, Entries up,
                std::function<void(StatusOr<Descent>)> done);

// Message slots of the sparse lane.
constexpr uint32_t kEntriesSlot = 0;  // up: entries; down: the result
constexpr uint32_t kCountedSlot = 1;  // down: counted bits

// Most entries of a result: gtopk has at most k, union k from every worker.
uint64_t MaxResultEntries(const TreeShape& shape, uint64_t elements, uint64_t k);

}  // namespace ringwood

// The interpreter of dense schedules: plays one node's part of one chunk over a transport.
//
// Steps are issued in order. A send does not hold up what follows; a receive is posted at once and
// the next step is issued when it has been taken in. What a slot is, dense/slots.h says.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "dense/collective.h"
#include "dense/slots.h"
#include "transport/transport.h"

namespace ringwood {

struct RunRequest {
  Transport* transport = nullptr;
  std::shared_ptr<const Collective> collective;
  int self = 0;      // this node; the lower of two nodes is the left operand of a combination
  MessageName name;  // its slot counts the messages between a pair of nodes from 0
  Values values;
  // The call that this is a part of, as on every node; its op is that of the values. Without a
  // length it is this collective.
  Asked asked;
};

// Digests of the slots in order, of their bytes as they travel; 0 for those never received.
using SlotDigests = std::vector<uint64_t>;

// One chunk: name.chunk, with values.slots its slots. On the transport's thread. `done` runs once.
// After an error, input and output stay in use until the transport is closed, because other
// messages of the schedule may still be under way.
void RunChunk(RunRequest request, std::function<void(StatusOr<SlotDigests>)> done);

}  // namespace ringwood

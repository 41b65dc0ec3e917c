// The interpreter of dense schedules: plays one node's part of one chunk over a transport.
//
// Steps are issued in order. A send does not hold up what follows; a receive is posted at once and
// the next step is issued when it has been taken in. The input is never written: a slot is sent
// from the input until something was received into it, from the output afterwards. Where the
// schedule allows (ring), payloads land directly in the output and are combined there.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "dense/reduce.h"
#include "transport/schedule.h"
#include "transport/transport.h"

namespace ringwood {

struct RunRequest {
  Transport* transport = nullptr;
  Schedule schedule;
  int self = 0;      // this node; the lower of two nodes is the left operand of a combination
  MessageName name;  // its slot counts the messages between a pair of nodes from 0
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::span<const std::byte> input;
  std::span<std::byte> output;  // as long as the input; the same memory or no overlap
  std::vector<size_t> bounds;   // slot s is the elements [bounds[s], bounds[s+1])
};

// Digests of the output's slots in order, for slots that were received or reduced into; others 0.
using SlotDigests = std::vector<uint64_t>;

// On the transport's thread. `done` runs once. After an error, input and output stay in use until
// the transport is closed, because other messages of the schedule may still be under way.
void RunSchedule(RunRequest request, std::function<void(StatusOr<SlotDigests>)> done);

// Cuts `count` elements into `slots` ranges that differ by one element at most: slots+1 bounds.
std::vector<size_t> EvenBounds(size_t count, int slots);

}  // namespace ringwood

// Runs one schedule for every chunk of a tensor, a bounded number at once.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "dense/run.h"

namespace ringwood {

struct ChunksRequest {
  RunRequest run;             // values are of the whole tensor, their slots are ignored
  size_t chunk_elements = 1;  // of every chunk but the last
  int slots = 1;              // of every chunk
  // false: a chunk is a range of the tensor and its slots are ranges of it. true: slot s of all
  // chunks together is the s-th range of CutEvenly(elements, slots), and a chunk takes the next
  // chunk_elements / slots elements of each.
  bool by_share = false;
};

// Digest over all slots of all chunks in order; same rules as RunSchedule.
void RunChunks(ChunksRequest request, std::function<void(StatusOr<uint64_t>)> done);

}  // namespace ringwood

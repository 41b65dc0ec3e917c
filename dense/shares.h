// The two halves of an all-reduce, each for itself: reduce-scatter leaves every rank with its share
// of the combination, all-gather spreads the shares. Share r of n elements is the r-th range of
// CutEvenly(n, world) (dense/cut.h), or of given lengths, so that one undoes the other's
// distribution.
//
// Up to kMaxDirectBytes by direct exchange, beyond by a hierarchy where hosts have several ranks,
// else by rings (dense/direct.h, hierarchy.h, ring.h); half of an all-reduce's bytes. Order of
// additions in share s: direct and hierarchy as those files say, on a ring
//     ((x[s+1] + x[s+2]) + …) + x[s], ranks modulo P.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "dense/arithmetic/reduce.h"
#include "dense/collective.h"
#include "dense/place.h"
#include "transport/transport.h"

namespace ringwood {

struct SharesRequest {
  Place place;
  MessageName name = {Lane::kImmediate};
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;       // of a reduce-scatter
  std::span<std::byte> data;          // all elements, as long on every rank; valid until `done`
  size_t message_bytes = 0;           // of a ring; 0 = schedule and messages chosen by size
  std::vector<uint64_t> shares = {};  // elements of each; empty: even
  Asked asked = {};                   // the call of which this is a part; its op is that above
};

// `verb`, one of the halves, is run as CollectiveFor(SpecOf(request, verb), request.place).
CollectiveSpec SpecOf(const SharesRequest& request, Verb verb);

// On the transport's thread, as StartAllReduce. Afterwards the rank's share of `data` is combined
// over all ranks; the rest holds partial results.
void StartReduceScatter(Transport* transport, const SharesRequest& request,
                        std::function<void(Status)> done);

// Reads the rank's share of `data` and writes those of the others.
void StartAllGather(Transport* transport, const SharesRequest& request,
                    std::function<void(Status)> done);

}  // namespace ringwood

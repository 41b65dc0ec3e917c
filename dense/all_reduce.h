// All-reduce, broadcast and reduce of host memory, as dense/collective.h says: tensors are cut into
// chunks, every chunk runs the schedule for itself, and a bounded number of them runs at once, so
// that sending, receiving and adding overlap.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "dense/arithmetic/reduce.h"
#include "dense/coded_ends.h"
#include "dense/collective.h"
#include "dense/lattice/codes.h"
#include "dense/place.h"
#include "transport/transport.h"

namespace ringwood {

struct AllReduceRequest {
  Place place;       // all but the rank is the same on all ranks
  MessageName name;  // lane, round and group
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  // "fp32": elements travel as they are. "bf16": sums of float32 travel rounded where that is
  // shorter, and who rounds keeps the error: with x = input, summed over all ranks,
  //     Σ x + Σ error = output + Σ next_error    (as exactly as fp32 adds)
  // "int8", "int4": they travel as sums of codes of dense/lattice/codes.h. The same holds to the
  // bit of fl(x + error), and no bit depends on hosts, strategy or chunks.
  std::string wire = "fp32";
  std::span<const std::byte> input;
  std::span<std::byte> output;  // as long; the input's memory only for Lane::kImmediate
  // For all but "fp32", as many elements as the input; `error` is read, `next_error` written whole.
  // The caller keeps the new error if it applies the result, and the old one otherwise.
  std::span<const float> error;
  std::span<float> next_error;
  // For codes only, likewise: one for each block, the same on all ranks; 0 where nothing is known.
  std::span<const BlockReach> reach;
  std::span<BlockReach> next_reach;
  BlockReach less = 0;     // of this rank's words for what blocks reach: LessFor
  CodedEnds coded = {};    // of codes of several ranks; without any of it, input and output
  size_t chunk_bytes = 0;  // of a ring's chunks; 0: schedule and chunks are chosen
  std::optional<Strategy> strategy = std::nullopt;  // nothing: chosen; ignored with chunk_bytes
  // Optional: called with rising numbers of `elements`, the first of the output, that are final;
  // before `done`, on its thread. For callers that can use a part of the result early.
  std::function<void(size_t elements)> reached = nullptr;
  Asked asked = {};  // the call of which this is a part; its op is that above
};

// StartAllReduce runs CollectiveFor(SpecOf(request), request.place). The type is a known one.
CollectiveSpec SpecOf(const AllReduceRequest& request);

struct AllReduceResult {
  uint64_t digest = 0;      // of the output; equal on all ranks iff the outputs are
  uint64_t sent_bytes = 0;  // payload this rank sent
  // With codes: some rank had a NaN, an Inf or a value that could overflow a sum. The same on all
  // ranks; such values are not in the output.
  bool non_finite = false;
};

// On the transport's thread. The output has the same bits on all ranks; dense/ring.h (ranks counted
// in HostOrder), direct.h, doubling.h and hierarchy.h document the order of additions. Input and
// output stay valid until `done`; after an error, until the transport is closed. `done` may run
// inside the call when there is nothing to send (world 1, no elements, invalid request).
void StartAllReduce(Transport* transport, const AllReduceRequest& request,
                    std::function<void(StatusOr<AllReduceResult>)> done);

struct BroadcastRequest {
  Place place;
  int root = 0;
  MessageName name = {Lane::kImmediate};
  DataType type = DataType::kUInt8;
  std::span<std::byte> data;  // read on the root, written elsewhere
  Asked asked = {};           // as in AllReduceRequest
};

// As above; the data of `root` ends up on all ranks.
void StartBroadcast(Transport* transport, const BroadcastRequest& request,
                    std::function<void(Status)> done);

struct ReduceRequest {
  Place place;
  int root = 0;
  MessageName name = {Lane::kImmediate};
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::span<const std::byte> input;
  std::span<std::byte> output;  // as long, or the input; on other ranks than the root: partial
  Asked asked = {};             // as in AllReduceRequest
};

// As above; the combination over all ranks ends up on `root`, added up in the order of the tree or
// chain that a broadcast from there would take (dense/broadcast.h), from its leaves.
void StartReduce(Transport* transport, const ReduceRequest& request,
                 std::function<void(Status)> done);

}  // namespace ringwood

// The header of every message of the data plane. It identifies the message, so that no payload can
// end up in the wrong place: job, epoch, round, group, chunk, slot, sender, type, count, checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "transport/reduce_op.h"

namespace ringwood {

constexpr uint32_t kFrameMagic = 0x31645752;  // "RWd1" little endian: data plane, version 1

enum class Lane : uint8_t {
  kDense = 1,      // rings
  kSparse = 2,     // trees
  kImmediate = 3,  // Session.allreduce / broadcast outside the plan
  kTotals = 4,     // weights and flags of a round, in elastic jobs
  kState = 5,      // the state of an elastic job, to a worker that comes
};

// Names one message between two nodes of one epoch. Round counts training rounds, calls for
// kImmediate, and is the kind of message for kState.
struct MessageName {
  Lane lane = Lane::kDense;
  uint64_t round = 0;
  uint32_t group = 0;
  uint32_t chunk = 0;
  uint32_t slot = 0;  // position in the schedule where a pair of nodes exchanges several messages
  bool operator==(const MessageName&) const = default;
  auto operator<=>(const MessageName&) const = default;
};

// The call that a message is a part of; the same on all nodes that take part in the call.
struct Asked {
  uint64_t whole = 0;  // elements of the whole call; 0: the message belongs to no call
  ReduceOp op = ReduceOp::kSum;
  uint64_t about = 0;  // a digest of whatever else distinguishes the call from others
  bool operator==(const Asked&) const = default;
};

// What the payload is; both sides know it from the plan or from their calls, and a difference is an
// error that names both.
struct Content {
  uint8_t type = 0;    // DataType (dense) or value code (sparse)
  uint8_t codec = 0;   // 0 = plain; otherwise the id of an entries codec
  uint64_t count = 0;  // elements or entries; a receiver of entries leaves 0 = any
  Asked asked = {};
};

// Little endian, fixed size, sent as the active message's header.
struct Frame {
  uint32_t magic = kFrameMagic;
  uint32_t sender = 0;
  uint64_t job = 0;
  uint64_t epoch = 0;
  uint64_t round = 0;
  uint32_t group = 0;
  uint32_t chunk = 0;
  uint32_t slot = 0;
  uint8_t lane = 0;
  uint8_t type = 0;
  uint8_t codec = 0;
  uint8_t op = 0;
  uint64_t count = 0;
  uint64_t whole = 0;
  uint64_t about = 0;
  uint64_t bytes = 0;     // payload length
  uint64_t checksum = 0;  // Digest(payload)
};
static_assert(sizeof(Frame) == 88);

// Copies a frame out of `header` and checks magic and length. Not the identity: the transport does.
StatusOr<Frame> ParseFrame(std::span<const std::byte> header);

MessageName NameOf(const Frame& frame);
Content ContentOf(const Frame& frame);
std::string ToString(const MessageName& name);  // "dense round 17 group 3 chunk 0 slot 2"

}  // namespace ringwood

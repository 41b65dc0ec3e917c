// The wire form of entries: an index code and a value code, named "block16/fp32".
//
// Little endian. Nothing in a message sizes an allocation: the reader knows the group's elements
// and the most entries that the sender may have, from the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "sparse/entries.h"

namespace ringwood {

enum class IndexCode : uint8_t { kBlock16 = 1, kRice = 2 };  // index_code.h
enum class ValueCode : uint8_t {
  kFloat32 = 1,
  kBFloat16 = 2,
  kInt8 = 3,
  kInt4 = 4,
  kInt2 = 5,
  kSums = 6
};  // value_code.h

struct Codec {
  IndexCode index = IndexCode::kBlock16;
  ValueCode value = ValueCode::kFloat32;
  // Sent in the frame, so that different plans of two sides are detected.
  uint8_t id() const {
    return static_cast<uint8_t>(static_cast<unsigned>(index) << 4 | static_cast<unsigned>(value));
  }
  // What reducers send, up and down, where workers send this: the same index code, and values that
  // are never rounded.
  Codec Exact() const {
    const bool floats = value == ValueCode::kFloat32 || value == ValueCode::kBFloat16;
    return {index, floats ? ValueCode::kFloat32 : ValueCode::kSums};
  }
  // Approximate bytes of an entry, the mean of the way up and the way down: for planners.
  double EntryBytes() const;
  bool operator==(const Codec&) const = default;
};

// "INDEX/VALUE" with INDEX in {block16, rice} and VALUE in {fp32, bf16, int8, int4, int2}; an error
// names them.
StatusOr<Codec> ParseCodec(const std::string& name);

// No encoding of at most k entries out of `elements` is longer. Rises with k.
uint64_t MaxWireBytes(const Codec& codec, uint64_t elements, uint64_t k);

// Rounds values to what the codec can represent, in place; idempotent. Values are
// those of a whole message (integer codes share a scale among neighbours). value − rounded is exact
// in float.
void RoundValues(const Codec& codec, std::span<float> values);

// Writes to the front of `wire`, which has MaxWireBytes(codec, range.elements(), entries.size()).
// Indices are strictly increasing and inside the range. Returns the bytes written.
uint64_t Encode(const Codec& codec, const IndexRange& range, const EntriesView& entries,
                std::span<std::byte> wire);

// Appends to `entries`. Any bytes are allowed: the answer is an error, and nothing is appended, or
// valid entries (at most `max_entries`, inside the range, strictly increasing and above those that
// are there); values may be any float.
Status Decode(const Codec& codec, const IndexRange& range, uint64_t max_entries,
              std::span<const std::byte> wire, Entries* entries);

}  // namespace ringwood

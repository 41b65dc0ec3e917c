// All-to-all: each rank has something for every other one, of any length, none included. Gathering
// to a root, scattering from one and a message between two ranks are all-to-alls in which most have
// nothing to send.
//
// Each pair of ranks exchanges chunks both ways, as many as the longer way needs and one at least;
// what a way does not need is empty. The next chunk of a pair begins when one of those under way
// has come and gone. So nobody runs ahead of a peer by more than kPairChunks, and who is done knows
// that all others have begun.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dense/place.h"
#include "transport/data_type.h"
#include "transport/transport.h"

namespace ringwood {

constexpr uint64_t kPairChunkBytes = 256 << 10;
constexpr uint64_t kPairChunks = 2;  // one is on the wire while the next is packed and checked

struct AllToAllRequest {
  Place place;
  MessageName name = {Lane::kImmediate};
  DataType type = DataType::kFloat32;
  std::vector<uint64_t> sends;     // elements for each rank, one after the other in the input
  std::vector<uint64_t> receives;  // elements from each rank, one after the other in the output
  std::span<const std::byte> input;
  std::span<std::byte> output;  // does not overlap the input
  uint64_t about = 0;           // as in Asked
};

// On the transport's thread. Input and output stay valid until `done`; after an error, until the
// transport is closed. `done` runs once.
void StartAllToAll(Transport* transport, const AllToAllRequest& request,
                   std::function<void(Status)> done);

}  // namespace ringwood

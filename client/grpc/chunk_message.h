// A chunk of a checkpoint as it travels to the store, without a copy of its bytes on the way to
// gRPC.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <memory>
#include <span>

#include "ringwood/v1/store.pb.h"

namespace ringwood {

// What v1::SaveChunk with that data serialises to, but for the order of its fields: data comes
// last. `chunk` has none. gRPC has `owner` of the data for as long as it needs it, which may be
// longer than the call if that is cancelled; what the data is then does not matter.
grpc::ByteBuffer ChunkMessage(const v1::SaveChunk& chunk, std::span<const std::byte> data,
                              std::shared_ptr<const void> owner);

}  // namespace ringwood

// The calls of NCCL that move the bytes of a coded reduction. They return NCCL's result, which may
// be that it has not taken them yet: then nothing may be put on the stream behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dense/cuda/coded_plan.h"
#include "dense/cuda/nccl_library.h"

namespace ringwood::nccl {

constexpr int kBytes = 1;  // ncclUint8

// One group of sends and receives, which NCCL runs at once: in any order they fit together. It is
// ended whatever was refused in it, since a group is the calling thread's.
inline int AllToAll(const Library& library, Communicator* communicator,
                    std::span<const cuda::CodedMessage> messages, const std::byte* sent,
                    std::byte* came, Stream stream) {
  int called = library.group_start();
  if (!IsFine(called)) return called;
  for (const cuda::CodedMessage& message : messages) {
    called = library.send(sent + message.offset, message.bytes, kBytes, message.peer, communicator,
                          stream);
    if (!IsFine(called)) break;
    called = library.recv(came + message.offset, message.bytes, kBytes, message.peer, communicator,
                          stream);
    if (!IsFine(called)) break;
  }
  const int ended = library.group_end();
  return IsFine(called) ? ended : called;
}

inline int AllGatherInPlace(const Library& library, Communicator* communicator, uint64_t own,
                            uint64_t bytes, std::byte* all, Stream stream) {
  return library.all_gather(all + own * bytes, all, bytes, kBytes, communicator, stream);
}

}  // namespace ringwood::nccl

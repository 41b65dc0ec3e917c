// What NCCL does for a coded reduction: it moves bytes. Calls return NCCL's result, which may
// be that it has not taken them yet: then nothing may be put on the stream behind them.
#pragma once

#include <cstddef>

#include "dense/cuda/coded_plan.h"
#include "dense/cuda/nccl_library.h"

namespace ringwood::nccl {

constexpr int kBytes = 1;  // ncclUint8

// One group of sends and receives, which NCCL runs at once: in any order they fit together. It is
// ended whatever was refused in it, since a group is the calling thread's.
inline int Exchange(const Library& library, Communicator* communicator, const cuda::CodedStep& step,
                    std::byte* staging, Stream stream) {
  int called = library.group_start();
  if (!IsFine(called)) return called;
  for (const cuda::CodedMessage& message : step.sends) {
    called = library.send(staging + message.at, message.bytes, kBytes, message.peer, communicator,
                          stream);
    if (!IsFine(called)) break;
  }
  for (const cuda::CodedMessage& message : step.receives) {
    if (!IsFine(called)) break;
    called = library.recv(staging + message.at, message.bytes, kBytes, message.peer, communicator,
                          stream);
  }
  const int ended = library.group_end();
  return IsFine(called) ? ended : called;
}

}  // namespace ringwood::nccl

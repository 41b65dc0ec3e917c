// What NCCL does for a plan of ours: it moves bytes. Calls return NCCL's result, which may
// be that it has not taken them yet: then nothing may be put on the stream behind them.
#pragma once

#include <span>

#include "dense/cuda/nccl_library.h"
#include "dense/cuda/plan_device.h"

namespace ringwood::nccl {

constexpr int kBytes = 1;  // ncclUint8

// One group of sends and receives, which NCCL runs at once: in any order they fit together. It is
// ended whatever was refused in it, since a group is the calling thread's.
inline int Exchange(const Library& library, Communicator* communicator,
                    std::span<const cuda::SendView> sends,
                    std::span<const cuda::ReceiveView> receives, Stream stream) {
  int called = library.group_start();
  if (!IsFine(called)) return called;
  for (const cuda::SendView& send : sends) {
    called = library.send(send.from, send.bytes, kBytes, send.peer, communicator, stream);
    if (!IsFine(called)) break;
  }
  for (const cuda::ReceiveView& receive : receives) {
    if (!IsFine(called)) break;
    called = library.recv(receive.to, receive.bytes, kBytes, receive.peer, communicator, stream);
  }
  const int ended = library.group_end();
  return IsFine(called) ? ended : called;
}

}  // namespace ringwood::nccl

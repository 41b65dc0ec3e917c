// Chunks that name their bytes in the memory of their worker's process, on the store's host: the
// store reads them there (process_vm_readv), one copy where gRPC over loopback takes five. Digests
// are compared as with bytes that have travelled.
#pragma once

#include <string>

#include "base/status.h"
#include "ringwood/v1/store.pb.h"

namespace ringwood {

// Whether the caller is on this host and may be read. Who has a network of its own is a host of its
// own.
bool ReadsMemoryOf(const v1::MeetRequest& request);

// Of one stripe; keeps a buffer from one chunk to the next.
class WorkerMemory {
 public:
  // A chunk that names its bytes has them afterwards.
  Status Fetch(v1::SaveChunk* chunk);
  // It is not needed any more.
  void Release(v1::SaveChunk* chunk);

 private:
  std::string buffer_;
};

}  // namespace ringwood

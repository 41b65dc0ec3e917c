// Chunks that name their bytes in the memory of their worker's process, on the store's host: the
// store reads them there (process_vm_readv), one copy where gRPC over loopback takes five. Digests
// are compared as with bytes that have travelled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "ringwood/v1/store.pb.h"

namespace ringwood {

// The processes whose memory is read: those that asked for it. Any thread.
class MetProcesses {
 public:
  static constexpr size_t kMost = 1
                                  << 14;  // far more than ranks on a host; then some are forgotten

  // Whether the caller is on this host and may be read, and is met from now on. Who has a network
  // of its own is a host of its own. `peer`: where the call came from, as gRPC names it.
  bool Meet(const v1::MeetRequest& request, const std::string& peer);
  bool Knows(uint32_t process) const;

 private:
  mutable absl::Mutex mutex_;
  std::set<uint32_t> met_ ABSL_GUARDED_BY(mutex_);
};

// Of one stripe; keeps a buffer from one chunk to the next.
class WorkerMemory {
 public:
  explicit WorkerMemory(const MetProcesses* met) : met_(met) {}

  // A chunk that names its bytes has them afterwards.
  Status Fetch(v1::SaveChunk* chunk);
  // It is not needed any more.
  void Release(v1::SaveChunk* chunk);

 private:
  const MetProcesses* const met_;
  std::string buffer_;
};

}  // namespace ringwood

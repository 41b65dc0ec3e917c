// A transport that records what each chunk of a plan's groups sent and received, and when.
#pragma once

#include <functional>
#include <memory>

#include "timeline/chunk.h"
#include "transport/fabric.h"

namespace ringwood {

// Called on the transport's thread for every message that was sent or received, with the chunk's
// notes so far. Only messages of groups are recorded.
class ChunkSink {
 public:
  virtual ~ChunkSink() = default;
  virtual void Sent(int peer, const MessageName& name, uint64_t bytes, int64_t begin_nanoseconds,
                    int64_t end_nanoseconds) = 0;
  virtual void Received(int peer, const MessageName& name, int64_t at_nanoseconds) = 0;
};

// `fabric` with its transport observed by `sink`, which outlives both.
std::unique_ptr<Fabric> ObserveFabric(std::unique_ptr<Fabric> fabric, ChunkSink* sink);

}  // namespace ringwood

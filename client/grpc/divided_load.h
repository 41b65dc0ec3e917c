// Loads one item whose chunks come from several stores at once; each stream is read ahead on a
// thread of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "ringwood/v1/store.pb.h"

namespace ringwood {

// A stream of chunks in the order of their offsets. `read` and `finish` are called on another
// thread, and are through when LoadDivided returns.
struct ChunkStream {
  std::function<bool(v1::LoadChunk*)> read;  // false: it is over
  std::function<Status()> finish;            // after that: how
  std::function<void()> cancel;              // any thread, any time
};

// `take` gets the item's bytes in order, each chunk checked, exactly `item_bytes` of them; `ahead`
// (or null) what came beside them.
Status LoadDivided(std::vector<ChunkStream> streams, const std::string& item, uint64_t item_bytes,
                   const std::function<Status(std::span<const std::byte>)>& take,
                   const std::function<void(v1::LoadChunk*)>& ahead);

}  // namespace ringwood

// Collects what the chunks of groups did, from a transport's notes. Not thread-safe.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "timeline/chunk.h"
#include "timeline/transport.h"

namespace ringwood {

class ChunkNotes : public ChunkSink {
 public:
  static constexpr size_t kMaxChunks = 1 << 18;  // beyond them chunks are left out

  void Sent(int peer, const MessageName& name, uint64_t bytes, int64_t begin_nanoseconds,
            int64_t end_nanoseconds) override;
  void Received(int peer, const MessageName& name, int64_t at_nanoseconds) override;

  // In the order in which they began.
  const std::vector<TimelineChunk>& chunks() const { return chunks_; }

 private:
  TimelineChunk* Find(const MessageName& name, int64_t at);  // or makes it; null: it is left out

  using Key = std::tuple<Lane, uint32_t, uint32_t>;  // lane, group, chunk

  std::vector<TimelineChunk> chunks_;
  std::map<Key, size_t> places_;  // in chunks_: a round may have many
};

}  // namespace ringwood

#include "sparse/reducer/outgoing.h"

#include "base/digest.h"
#include "sparse/chunks.h"
#include "sparse/codec.h"

namespace ringwood {

void Outgoing::Renew(std::shared_ptr<Outgoing>* message, uint64_t chunk_bytes, int chunks) {
  if (*message != nullptr && message->use_count() == 1) return;
  *message = std::make_shared<Outgoing>(chunk_bytes, chunks);
}

Outgoing::Outgoing(uint64_t chunk_bytes, int chunks)
    : wire_(chunk_bytes * static_cast<uint64_t>(chunks)), chunks_(static_cast<size_t>(chunks)) {}

std::span<std::byte> Outgoing::Room(int chunk) {
  const size_t each = wire_.size() / chunks_.size();
  return wire_.span().subspan(static_cast<size_t>(chunk) * each, each);
}

void Outgoing::Encode(const ReducerPart& part, const Entries& entries, int chunk) {
  const Cut cut{entries.size(), part.chunks};
  const uint64_t begin = cut.begin(chunk), count = cut.begin(chunk + 1) - begin;
  const std::span<std::byte> room = Room(chunk);
  const uint64_t bytes = ringwood::Encode(part.codec.Exact(), {0, part.elements},
                                          EntriesView(entries).Part(begin, count), room);
  chunks_[static_cast<size_t>(chunk)] = {bytes, count, Digest(room.first(bytes))};
}

void Outgoing::Came(int chunk, size_t bytes, const Frame& frame) {
  chunks_[static_cast<size_t>(chunk)] = {bytes, frame.count, frame.checksum};
}

Payload Outgoing::Of(int chunk) {
  const Chunk& of = chunks_[static_cast<size_t>(chunk)];
  return {Room(chunk).first(of.bytes), of.digest};
}

}  // namespace ringwood

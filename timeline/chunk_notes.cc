#include "timeline/chunk_notes.h"

#include <algorithm>

#include "plan/wire.h"

namespace ringwood {
namespace {

TimelineChunk::Touch* TouchOf(TimelineChunk* chunk, int peer) {
  for (TimelineChunk::Touch& touch : chunk->touches) {
    if (touch.peer == peer) return &touch;
  }
  chunk->touches.push_back({.peer = peer});
  return &chunk->touches.back();
}

}  // namespace

TimelineChunk* ChunkNotes::Find(const MessageName& name, int64_t at) {
  const Key key{name.lane, name.group, name.chunk};
  if (const auto known = places_.find(key); known != places_.end()) return &chunks_[known->second];
  if (chunks_.size() == kMaxChunks) return nullptr;
  places_.emplace(key, chunks_.size());
  chunks_.push_back({.lane = name.lane,
                     .round = RoundOf(name.round),
                     .group = name.group,
                     .chunk = name.chunk,
                     .begin_nanoseconds = at,
                     .touches = {}});
  return &chunks_.back();
}

void ChunkNotes::Sent(int peer, const MessageName& name, uint64_t bytes, int64_t begin_nanoseconds,
                      int64_t end_nanoseconds) {
  TimelineChunk* chunk = Find(name, begin_nanoseconds);
  if (chunk == nullptr) return;
  chunk->begin_nanoseconds = std::min(chunk->begin_nanoseconds, begin_nanoseconds);
  chunk->end_nanoseconds = std::max(chunk->end_nanoseconds, end_nanoseconds);
  chunk->sent_bytes += bytes;
  TimelineChunk::Touch* touch = TouchOf(chunk, peer);
  if (touch->first_sent_nanoseconds == 0 || begin_nanoseconds < touch->first_sent_nanoseconds) {
    touch->first_sent_nanoseconds = begin_nanoseconds;
  }
}

void ChunkNotes::Received(int peer, const MessageName& name, int64_t at_nanoseconds) {
  TimelineChunk* chunk = Find(name, at_nanoseconds);
  if (chunk == nullptr) return;
  chunk->end_nanoseconds = std::max(chunk->end_nanoseconds, at_nanoseconds);
  TimelineChunk::Touch* touch = TouchOf(chunk, peer);
  if (touch->first_received_nanoseconds == 0) touch->first_received_nanoseconds = at_nanoseconds;
}

}  // namespace ringwood

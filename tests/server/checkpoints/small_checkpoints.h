// Checkpoints of a few kilobytes, saved by two ranks, for tests of what a store keeps. The first
// two chunks, one of each rank, never change; all others differ in every byte.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "base/random.h"
#include "server/store/service/stripe_collector.h"
#include "tests/server/checkpoints/stripe.h"

namespace ringwood {

inline constexpr uint32_t kWorld = 2;
inline constexpr uint64_t kJob = 7;
// One item of six chunks; from this step on of the largest ones, which a table writes one by one.
inline constexpr uint64_t kLargeFrom = 1000;
// From this step on so many items of one chunk, with long names, that the manifest is cut.
inline constexpr uint64_t kManyFrom = 2000;
inline constexpr size_t kManyItems = 1100;
inline size_t PieceOf(const CheckpointId& id) {
  if (id.step >= kManyFrom) return 4;
  return id.step < kLargeFrom ? 500 : kMaxChunkBytes;
}
inline size_t BytesOf(const CheckpointId& id) {
  return (id.step < kManyFrom ? 6 : kManyItems) * PieceOf(id);
}

inline v1::EpochRecord RecordOf(uint64_t epoch) {
  v1::EpochRecord record;
  record.set_epoch(epoch);
  record.set_job(kJob);
  record.set_world(kWorld);
  for (uint32_t rank = 0; rank < kWorld; ++rank) record.add_members()->set_incarnation(1 + rank);
  return record;
}

inline std::string StateOf(const CheckpointId& id) {
  Random random(1000 * id.epoch + id.step);
  std::string state(BytesOf(id), '\0');
  for (char& byte : state) byte = static_cast<char>(random.Next());
  Random unchanged(PieceOf(id));
  for (size_t i = 0; i < 2 * PieceOf(id); ++i) state[i] = static_cast<char>(unchanged.Next());
  return state;
}

inline Status SaveRank(StripeCollector* collector, const CheckpointId& id, uint32_t rank,
                       size_t bytes) {
  const std::string state = StateOf(id);
  const size_t piece = PieceOf(id);
  std::unique_ptr<StripeCollector::Incoming> incoming;
  for (size_t at = rank * piece; at < bytes; at += kWorld * piece) {
    v1::SaveChunk chunk;
    chunk.set_epoch(id.epoch);
    chunk.set_step(id.step);
    chunk.set_rank(rank);
    chunk.set_world(kWorld);
    chunk.set_incarnation(1 + rank);
    const bool many = id.step >= kManyFrom;
    chunk.set_item(many ? absl::StrFormat("%01000d", at) : "weights");
    chunk.set_scope(v1::SCOPE_SHARED);
    chunk.set_item_bytes(many ? piece : state.size());
    chunk.set_offset(many ? 0 : at);
    chunk.set_data(state.substr(at, piece));
    chunk.set_checksum(Digest(std::as_bytes(std::span(chunk.data()))));
    if (incoming == nullptr) {
      RW_ASSIGN_OR_RETURN(incoming, collector->Begin(chunk));
    }
    RW_RETURN_IF_ERROR(WriteChunk(incoming.get(), chunk));
  }
  if (bytes < state.size()) return Aborted("this rank stops in the middle");
  return KeepStripe(incoming.get()).status();
}

// `then`: when all stripes are there.
inline Status SaveAll(
    StripeCollector* collector, const CheckpointId& id, const std::function<void()>& then = [] {}) {
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    RW_RETURN_IF_ERROR(SaveRank(collector, id, rank, BytesOf(id)));
  }
  then();
  return collector->Outcome(id.epoch, id.step).value_or(Internal("not complete"));
}

inline StatusOr<std::string> LoadAll(const CheckpointReader& reader, const CheckpointId& id) {
  RW_ASSIGN_OR_RETURN(const auto manifest, reader.Manifest(id));
  std::string state;
  for (const v1::StoredItem& item : manifest.items()) {
    for (const v1::StoredChunk& chunk : item.chunks()) {
      RW_ASSIGN_OR_RETURN(const std::string bytes, reader.Chunk(id, item, chunk));
      state += bytes;
    }
  }
  return state;
}

// A folder for tests in which nothing has to reach a disk.
inline std::string MakeMemoryFolder() {
  const bool memory = access("/dev/shm", W_OK) == 0;
  std::string pattern = std::string(memory ? "/dev/shm" : testing::TempDir()) + "/ringwood-XXXXXX";
  return mkdtemp(pattern.data());
}

}  // namespace ringwood

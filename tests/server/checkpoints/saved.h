// Checkpoints for tests: a list of items, saved as the ranks of a world save them.
#pragma once

#include <string>
#include <vector>

#include "base/digest.h"
#include "base/tensor_type.h"
#include "server/store/service/stripe_collector.h"
#include "tests/server/checkpoints/stripe.h"

namespace ringwood {

struct SavedItem {
  std::string name;
  TensorType type;
  std::string bytes;
  int owner = -1;  // the rank whose own it is; -1: shared
};

struct SavedWorld {
  uint64_t job = 7;
  uint64_t epoch = 1;
  uint64_t step = 10;
  uint32_t world = 2;
  size_t piece_bytes = 64 << 10;
};

inline v1::EpochRecord RecordOf(const SavedWorld& saved) {
  v1::EpochRecord record;
  record.set_epoch(saved.epoch);
  record.set_job(saved.job);
  record.set_world(saved.world);
  for (uint32_t rank = 0; rank < saved.world; ++rank) record.add_members()->set_incarnation(rank);
  return record;
}

// The chunks of `rank`: every world'th piece of what is shared, and all that is its own.
inline std::vector<v1::SaveChunk> ChunksOf(const SavedWorld& saved, uint32_t rank,
                                           const std::vector<SavedItem>& items) {
  std::vector<v1::SaveChunk> chunks;
  uint64_t piece = 0;
  for (const SavedItem& item : items) {
    size_t at = 0;
    do {
      const std::string data = item.bytes.substr(at, saved.piece_bytes);
      const uint64_t by =
          item.owner < 0 ? piece++ % saved.world : static_cast<uint64_t>(item.owner);
      if (by == rank) {
        v1::SaveChunk chunk;
        chunk.set_epoch(saved.epoch);
        chunk.set_step(saved.step);
        chunk.set_rank(rank);
        chunk.set_world(saved.world);
        chunk.set_incarnation(rank);
        chunk.set_item(item.name);
        chunk.set_scope(item.owner < 0 ? v1::SCOPE_SHARED : v1::SCOPE_OWN);
        chunk.set_item_bytes(item.bytes.size());
        chunk.set_offset(at);
        chunk.set_data(data);
        chunk.set_checksum(Digest(std::as_bytes(std::span(data))));
        chunk.set_dtype(item.type.dtype);
        chunk.mutable_shape()->Assign(item.type.shape.begin(), item.type.shape.end());
        chunks.push_back(std::move(chunk));
      }
      at += data.size();
    } while (at < item.bytes.size());
  }
  v1::SaveChunk end;
  end.set_epoch(saved.epoch);
  end.set_step(saved.step);
  end.set_rank(rank);
  end.set_world(saved.world);
  end.set_incarnation(rank);
  end.set_checksum(Digest({}));
  end.set_last(true);
  chunks.push_back(std::move(end));
  return chunks;
}

// A complete checkpoint, through a collector.
inline Status SaveItems(CheckpointStore* store, const SavedWorld& saved,
                        const std::vector<SavedItem>& items) {
  StripeCollector collector(store, [] { return int64_t{1}; });
  collector.SetEpoch(RecordOf(saved));
  for (uint32_t rank = 0; rank < saved.world; ++rank) {
    std::unique_ptr<StripeCollector::Incoming> incoming;
    for (const v1::SaveChunk& chunk : ChunksOf(saved, rank, items)) {
      if (incoming == nullptr) {
        RW_ASSIGN_OR_RETURN(incoming, collector.Begin(chunk));
      }
      RW_RETURN_IF_ERROR(WriteChunk(incoming.get(), chunk));
    }
    RW_RETURN_IF_ERROR(KeepStripe(incoming.get()).status());
  }
  return collector.Outcome(saved.epoch, saved.step).value_or(Internal("not complete"));
}

}  // namespace ringwood

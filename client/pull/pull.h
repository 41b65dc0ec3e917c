// The newest committed weights of a job, for a reader that is no member of it: an evaluator, an
// inference server, a curious person. All that it gets is of one committed step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "client/pull/reader_client.h"

namespace ringwood {

struct PullOptions {
  std::string server;  // HOST:PORT, for errors
  uint64_t job = 0;    // 0: the one that runs, or of which the store's newest checkpoint is
  double timeout_seconds = 60;  // for the checkpoint to be there; reading it takes what it takes
  // Nothing is asked of the ranks, and none need run: the newest checkpoint that is there.
  bool newest_stored = false;
};

inline constexpr double kMaxPullSeconds = 3600;

Status Check(const PullOptions& options);

// Asks for a checkpoint of what commits next, waits until it is complete and holds it. One that
// fails, because a rank died under it, is asked for again as long as there is time.
StatusOr<v1::CheckpointManifest> PullCheckpoint(const PullOptions& options, ReaderClient* client,
                                                const std::function<TimePoint()>& now);

// A checkpoint that is held as long as this lives. One thread at a time.
class Pulled {
 public:
  static StatusOr<std::unique_ptr<Pulled>> Open(const PullOptions& options,
                                                std::unique_ptr<ReaderClient> client);
  ~Pulled() { client_->Release(); }

  const v1::CheckpointManifest& manifest() const { return manifest_; }

  // All bytes of an item of the manifest, in order.
  Status Read(const v1::StoredItem& item, const ReaderClient::Take& take);
  // `out` has exactly its size.
  Status Read(const v1::StoredItem& item, std::span<std::byte> out);

 private:
  Pulled(std::unique_ptr<ReaderClient> client, v1::CheckpointManifest manifest)
      : client_(std::move(client)), manifest_(std::move(manifest)) {}

  const std::unique_ptr<ReaderClient> client_;
  const v1::CheckpointManifest manifest_;
};

}  // namespace ringwood

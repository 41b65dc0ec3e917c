// The server of a job, as a reader sees it that is no member: over gRPC in grpc/reader_client.h;
// tests have their own. Calls block; one at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/status.h"
#include "ringwood/v1/control.pb.h"
#include "ringwood/v1/store.pb.h"

namespace ringwood {

class ReaderClient {
 public:
  // Bytes of an item as they come, in order; an error ends the load.
  using Take = std::function<Status(std::span<const std::byte>)>;

  virtual ~ReaderClient() = default;

  virtual StatusOr<v1::PullResponse> Pull(const v1::PullRequest& request) = 0;

  // The checkpoint stays in the store until the next call, or Release.
  virtual StatusOr<v1::CheckpointManifest> Hold(const v1::HoldRequest& request) = 0;
  virtual void Release() = 0;

  // All of one item, of so many bytes.
  virtual Status Load(const v1::LoadRequest& request, uint64_t item_bytes, const Take& take) = 0;
};

}  // namespace ringwood

// A message whose pieces are arriving. The node feeds it; the inbox holds it as an IncomingPayload
// until it is asked for, and from then on pieces are written to the receiver's buffer.
#pragma once

#include "base/buffer.h"
#include "transport/inbox.h"

namespace ringwood {

class Assembly {
 public:
  explicit Assembly(uint64_t bytes) : bytes_(bytes) {}

  // False: more than the frame announced.
  bool Add(std::span<const std::byte> piece);
  bool complete() const { return arrived_ == bytes_; }
  // The rest will not come: the receive is answered with that, now or later.
  void Fail(const Status& reason);

  // For the inbox; one of the two, once.
  void Fetch(std::span<std::byte> into, std::function<void(Status)> done);
  void Drop();

 private:
  enum class Place { kOwn, kAsked, kDropped };

  const uint64_t bytes_;
  uint64_t arrived_ = 0;
  Place place_ = Place::kOwn;
  Buffer<std::byte> own_;  // until it is asked for; made when the first piece comes
  std::span<std::byte> into_;
  std::function<void(Status)> done_;
  Status failed_;
};

// The inbox's handle. HeldBytes is the whole message: the inbox refuses it before memory is taken.
std::unique_ptr<IncomingPayload> MakeAssemblyPayload(std::shared_ptr<Assembly> assembly,
                                                     uint64_t bytes);

}  // namespace ringwood

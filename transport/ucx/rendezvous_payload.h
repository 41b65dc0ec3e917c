// A rendezvous announcement kept by descriptor: the payload waits on the sender's side and is
// received straight into the posted buffer.
#pragma once

#include <ucp/api/ucp.h>

#include "transport/inbox.h"

namespace ringwood {

class RendezvousPayload : public IncomingPayload {
 public:
  // `worker` is read at Fetch and at destruction: null once the node is disposed of.
  RendezvousPayload(const std::unique_ptr<class UcxWorker>* worker, void* descriptor);
  ~RendezvousPayload() override;
  uint64_t HeldBytes() const override { return 0; }
  void Fetch(std::span<std::byte> into, std::function<void(Status)> done) override;

 private:
  static void OnReceived(void* request, ucs_status_t status, size_t length, void* payload);

  const std::unique_ptr<class UcxWorker>* const worker_;
  void* descriptor_;
  size_t expected_ = 0;
  std::function<void(Status)> done_;
};

}  // namespace ringwood

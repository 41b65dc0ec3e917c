// Messages between the nodes of one epoch. Instances: in_process (tests), ucx (data plane of
// trusted fabrics), grpc (networks that are not trusted); one contract suite holds for all of them.
//
// Every method and every callback is on the transport's Loop thread. A Transport lives for one
// epoch: its nodes, job and epoch number never change, a new epoch gets a new one.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/status.h"
#include "transport/frame.h"

namespace ringwood {

// Who belongs to the epoch. node 0..world-1 are workers (node = rank), then the reducers.
struct Peer {
  int node = 0;
  std::string label;    // for errors: "rank 2 (host h1)" or "server 0 (host h0)"
  std::string address;  // opaque bytes from that node's Fabric::Address()
};

struct TransportCounters {
  uint64_t sent_bytes = 0;  // payload and frame
  uint64_t received_bytes = 0;
  uint64_t stale_frames = 0;    // of another job, epoch or incarnation: dropped and counted
  uint64_t corrupt_frames = 0;  // checksum or format: the epoch fails
};

class Transport {
 public:
  using SendDone = std::function<void(Status)>;
  // The payload as it arrived, and its frame. The span is `into` (dense) cut to the bytes received.
  using ReceiveDone = std::function<void(StatusOr<std::span<std::byte>>, const Frame&)>;

  virtual ~Transport() = default;

  // `payload` stays valid and unchanged until `done`. Zero copy where the transport can.
  virtual void Send(int peer, const MessageName& name, const Content& content,
                    std::span<const std::byte> payload, SendDone done) = 0;

  // Receives the message `name` of `peer` into `into`, which stays valid until `done`. It may be
  // posted before or after the message arrives. A payload longer than `into`, or with another type,
  // codec or (if count != 0) count, gives an error that names both sides.
  virtual void Receive(int peer, const MessageName& name, const Content& content,
                       std::span<std::byte> into, ReceiveDone done) = 0;

  // Ends the epoch: every pending and later Send and Receive is answered with `reason`, and no
  // buffer is touched afterwards. Callbacks may run inside Close. Idempotent.
  virtual void Close(const Status& reason) = 0;

  virtual TransportCounters Counters() const = 0;
};

}  // namespace ringwood

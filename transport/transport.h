// Messages between the nodes of one epoch. Instances: in_process (tests), ucx (data plane of
// trusted fabrics), grpc (networks that are not trusted); one contract suite holds for all of them.
//
// Every method and every callback is on the transport's Loop thread. A Transport lives for one
// epoch: its nodes, job and epoch number never change, a new epoch gets a new one.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "transport/frame.h"

namespace ringwood {

// Who belongs to the epoch. node 0..world-1 are workers (node = rank), then the reducers.
struct Peer {
  int node = 0;
  std::string label;      // for errors: "rank 2 (host h1)" or "server 0 (host h0)"
  std::string address;    // opaque bytes from that node's Fabric::Address()
  std::string host = "";  // as the launcher calls it; empty: not known
};

struct TransportCounters {
  uint64_t sent_bytes = 0;  // payload and frame
  uint64_t received_bytes = 0;
  uint64_t stale_frames = 0;    // of another job, epoch or incarnation: dropped and counted
  uint64_t corrupt_frames = 0;  // checksum or format: the epoch fails
};

// What is sent. A range of bytes converts to it.
struct Payload {
  Payload() = default;
  template <typename Range>
  requires std::constructible_from<std::span<const std::byte>, Range &&> Payload(
      Range&& range, std::optional<uint64_t> known = std::nullopt)  // NOLINT: a range is one
      : bytes(std::forward<Range>(range)), digest(known) {}

  std::span<const std::byte> bytes;
  std::optional<uint64_t> digest;  // Digest(bytes), where the caller knows it: saves a pass
};

// Where a payload goes. A range of writable bytes converts to it.
struct ReceiveBuffer {
  using Take = std::function<void(std::span<const std::byte>)>;

  template <typename Range>
  requires std::constructible_from<std::span<std::byte>, Range &&> ReceiveBuffer(
      Range&& range, Take with = nullptr)  // NOLINT: a range is one
      : into(std::forward<Range>(range)), take(std::move(with)) {}

  std::span<std::byte> into;
  // Null: the payload ends up in `into`. Otherwise it is handed to `take`, once and just before
  // `done` is due, after its checksum was found right: from the network library's memory where it
  // arrived there (saves a copy), else from `into`, where it landed. `take` may run inside the
  // network library: it moves bytes and calls nothing of the transport.
  Take take;
};

class Transport {
 public:
  using SendDone = std::function<void(Status)>;
  // The payload as it arrived, and its frame. The span is `into` cut to the bytes received; where
  // the buffer has a `take` its bytes are that one's.
  using ReceiveDone = std::function<void(StatusOr<std::span<std::byte>>, const Frame&)>;

  virtual ~Transport() = default;

  // The payload's bytes stay valid and unchanged until `done`. Zero copy where the transport can.
  virtual void Send(int peer, const MessageName& name, const Content& content,
                    const Payload& payload, SendDone done) = 0;

  // Receives the message `name` of `peer`; the buffer's memory stays valid until `done`. It may be
  // posted before or after the message arrives. A payload longer than `into`, or with another type,
  // codec or (if count != 0) count, gives an error that names both sides.
  virtual void Receive(int peer, const MessageName& name, const Content& content,
                       const ReceiveBuffer& buffer, ReceiveDone done) = 0;

  // Nobody will send what was asked for of this lane in rounds before `round`: those receives are
  // answered with kCancelled, and their memory is not touched any more.
  virtual void Withdraw(Lane lane, uint64_t round) = 0;

  // Ends the epoch: every pending and later Send and Receive is answered with `reason`, and no
  // buffer is touched afterwards. Callbacks may run inside Close. Idempotent. A reason that a peer
  // could not know (TellsPeers) is told to all of them: what they await of this node is answered
  // with the same code and words.
  virtual void Close(const Status& reason) = 0;

  virtual TransportCounters Counters() const = 0;
};

}  // namespace ringwood

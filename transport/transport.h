// Messages between the nodes of one epoch. Implementations: in_process (tests), ucx (trusted
// networks), grpc (other networks); tests/transport/contract_test.cc holds all of them to this.
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
#include "identity/name.h"
#include "transport/frame.h"

namespace ringwood {

// Who belongs to the epoch. node 0..world-1 are workers (node = rank), then the reducers.
struct Peer {
  int node = 0;
  std::string label;      // for errors: "rank 2 (host h1)" or "server 0 (host h0)"
  std::string address;    // opaque bytes from that node's Fabric::Address()
  std::string host = "";  // the launcher's name for it; empty: not known
  // Whom its certificate names, where connections have any; kAnySlot: anyone of that role.
  IdentityRole role = IdentityRole::kRank;
  int slot = kAnySlot;
  // It was not heard in an earlier epoch: to be heard first it has as long as to be heard again.
  bool on_trial = false;
};

struct TransportCounters {
  uint64_t sent_bytes = 0;  // payload and frame
  uint64_t received_bytes = 0;
  uint64_t stale_frames = 0;    // of another job, epoch or incarnation: dropped and counted
  uint64_t corrupt_frames = 0;  // checksum or format: the epoch fails
  uint64_t connections = 0;     // to peers, established or being made; 0: not counted
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
  // Null: the payload is written to `into`. Otherwise `take` is called with it once, just before
  // `done`, after its checksum was verified: in the network library's memory if it arrived there
  // (saves a copy), else in `into`. `take` may run inside the network library: it only moves bytes
  // and does not call the transport.
  Take take;
};

class Transport {
 public:
  using SendDone = std::function<void(Status)>;
  // The received payload and its frame. The span is `into` cut to the bytes received; with a `take`
  // its bytes are whatever `take` left there.
  using ReceiveDone = std::function<void(StatusOr<std::span<std::byte>>, const Frame&)>;

  virtual ~Transport() = default;

  // The caller keeps the payload's bytes valid and unchanged until `done`. Zero copy if possible.
  virtual void Send(int peer, const MessageName& name, const Content& content,
                    const Payload& payload, SendDone done) = 0;

  // Receives the message `name` of `peer`; the caller keeps the buffer valid until `done`. May be
  // posted before or after the message arrives. A payload longer than `into`, or with another type,
  // codec or (if count != 0) count, gives an error that names both sides.
  virtual void Receive(int peer, const MessageName& name, const Content& content,
                       const ReceiveBuffer& buffer, ReceiveDone done) = 0;

  // Cancels the receives of this lane for rounds before `round`, whose messages will not come: they
  // are answered with kCancelled, and their memory is not touched any more.
  virtual void Withdraw(Lane lane, uint64_t round) = 0;

  // Ends the epoch: every pending and later Send and Receive is answered with `reason`, and no
  // buffer is touched afterwards. Callbacks may run inside Close. Idempotent. A reason that peers
  // cannot know (TellsPeers) is sent to all of them: their receives from this node are answered
  // with the same code and message.
  virtual void Close(const Status& reason) = 0;

  virtual TransportCounters Counters() const = 0;
};

}  // namespace ringwood

// A stream of byte pieces between two nodes, and the listener that accepts streams of peers. Only
// stream.cc knows gRPC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/grpc/fabric.h"

namespace ringwood {

// Most bytes of a piece, its head included: a few milliseconds on a slow network, and enough to
// make gRPC's cost per message small.
constexpr size_t kPieceBytes = (256 << 10) + 128;

// Events of a stream. They run on gRPC's threads and only post to a loop.
struct StreamEvents {
  std::function<void(std::vector<std::byte> piece)> arrived;  // once after each Read
  std::function<void(bool ok)> written;                       // once after each Write
  std::function<void(std::string why)> gone;  // the stream is over; no piece arrives any more
};

// Used on one thread. The object lives until Release, whatever the peer does.
class GrpcStream {
 public:
  virtual ~GrpcStream() = default;
  // Who calls, from the certificate of a stream that came in under TLS.
  virtual std::optional<IdentityName> Caller() const { return std::nullopt; }
  virtual void Start(StreamEvents events) = 0;  // first, once
  virtual void Read() = 0;                      // one at a time: the next after `arrived`
  // Copies both. One at a time: the next after `written`.
  virtual void Write(std::span<const std::byte> head, std::span<const std::byte> data) = 0;
  // The last call: no event comes afterwards. What was written still arrives, and the pieces of
  // `last` after it; the stream ends then, or after kLingerSeconds.
  virtual void Release(std::deque<std::vector<std::byte>> last = {}) = 0;

  static constexpr double kLingerSeconds = 1.0;
};

// A listening server. `incoming` runs on a thread of gRPC's with a stream that is not started yet;
// the listener releases those that nobody has claimed when it closes.
class GrpcListener {
 public:
  static constexpr size_t kMaxUnclaimed = 8192;  // twice the largest world

  virtual ~GrpcListener() = default;  // closes
  virtual int port() const = 0;
  // Takes a stream over that `incoming` named; null if the listener has closed or the number is
  // unknown.
  virtual GrpcStream* Claim(uint64_t number) = 0;
  // Calls the listener of `peer` at `endpoint` ("10.0.0.1:4000"); under TLS nobody else is spoken
  // to. Never null; failures come as `gone`.
  virtual GrpcStream* Call(const std::string& endpoint, const Peer& peer) = 0;
  // No further streams; waits at most `seconds`, and GrpcStream::kLingerSeconds for calls, until
  // those that were released have ended.
  virtual void Close(double seconds) = 0;
};
StatusOr<std::unique_ptr<GrpcListener>> OpenGrpcListener(
    const std::string& ip, const GrpcOptions& options,
    std::function<void(uint64_t number)> incoming);

}  // namespace ringwood

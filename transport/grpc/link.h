// One connection of a gRPC node to a peer: what is written to its stream and what is read from it,
// piece by piece (piece.h). On the loop's thread.
//
// A send is answered when its last piece has been written to the stream, or when the peer reports
// that it has taken it, whichever comes first: the peer may close right after its report. Streams
// end in order, so a close loses nothing that was answered. Frames count into `taken` like
// payloads.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/grpc/assembly.h"
#include "transport/grpc/stream.h"
#include "transport/inbox.h"

namespace ringwood {

class GrpcLink {
 public:
  // Most bytes written and not yet taken, per direction between two nodes: two round trips of 10 ms
  // at 1.6 Gbit/s.
  static constexpr uint64_t kWindowBytes = 4 << 20;
  // The receiver reports at the end of a message and after so many bytes of a long one.
  static constexpr uint64_t kTakenBytes = kWindowBytes / 4;
  static constexpr size_t kMaxQueued = 1 << 14;  // sends

  // `inbox` outlives its use. The stream is the link's until Fail or Close.
  GrpcLink(int peer, Inbox* inbox, GrpcStream* stream)
      : peer_(peer), inbox_(inbox), stream_(stream) {}

  void SayHello(std::vector<std::byte> hello);  // the caller: before anything else
  void Welcome();                               // who is called, and knows the caller

  int peer() const { return peer_; }
  bool heard() const { return heard_; }
  bool waiting() const { return !queue_.empty(); }

  // The error says that too many wait already.
  Status CanSend() const;
  void Send(const Frame& frame, std::span<const std::byte> payload, Transport::SendDone done);
  void Ask();  // for a sign of life

  // What was written has left, or is lost with the stream.
  void Written(bool left);
  // A piece came. The error ends the link; a farewell's is the peer's reason.
  Status Arrived(std::span<const std::byte> piece);

  // The stream is over: nothing is read or written any more. gRPC reports that and the outcome of a
  // write on two threads. A link with a write whose outcome is not known has not ended, because the
  // write may have left before.
  void Over(std::string why) { over_ = std::move(why); }
  const std::optional<std::string>& over() const { return over_; }
  bool ended() const { return over_ && !writing_; }

  // Ends it: what is not written is answered with `reason`.
  void Fail(const Status& reason);
  // Like Fail, but in order: what was written counts as sent, the peer hears what this side has
  // taken, then `farewell` (may be empty).
  void Close(const Status& reason, std::vector<std::byte> farewell);

 private:
  struct Outgoing {
    Frame frame;
    std::span<const std::byte> payload;
    Transport::SendDone done;
  };

  void Pump();
  void Write(const std::vector<std::byte>& piece);
  void WriteMessage();
  void AnswerLeaving();
  Status Take(std::span<const std::byte> piece);
  Status TakeStart(std::span<const std::byte> body);
  Status TakeMore(std::span<const std::byte> body);
  Status TakeTaken(std::span<const std::byte> body);

  const int peer_;
  Inbox* const inbox_;
  GrpcStream* stream_;  // null once it has ended
  bool writing_ = false;
  std::optional<std::string> over_;
  std::vector<std::byte> hello_;  // due; empty: none
  bool ask_due_ = false, life_due_ = false;
  bool heard_ = false;
  std::deque<Outgoing> queue_;    // the first may be half sent
  uint64_t offset_ = 0;           // payload of the first that is sent
  bool begun_ = false;            // its frame is sent
  std::deque<Outgoing> leaving_;  // none or one, whose last piece is being written
  uint64_t sent_ = 0, taken_by_peer_ = 0;
  uint64_t taken_ = 0, taken_said_ = 0;
  std::shared_ptr<Assembly> assembly_;  // of the message that is arriving
};

}  // namespace ringwood

// What Fabric and Transport of one node share: listener, links to the peers, inbox. On the loop's
// thread; events of gRPC's threads are posted to it.
//
// A piece begins with its kind:
//   hello  node, MAC                    the caller says who it is (hello.h): first, once
//   start  frame, payload               a message, or its first piece
//   more   payload                      the pieces that follow, before any other message
//   taken  bytes                        of messages that the receiver has moved out, so far
//   ask    0                            for a sign of life (watch.h)
//   life   0                            one, also the answer to a hello
//   farewell  code, text                why the sender closes, where the peer could not know
//
// A send is answered when its last piece has been written to the stream, and streams end in order,
// so a close loses nothing that was answered. Frames count into `taken` like payloads.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "transport/grpc/assembly.h"
#include "transport/grpc/hello.h"
#include "transport/grpc/stream.h"
#include "transport/inbox.h"
#include "transport/refusals.h"
#include "transport/watch.h"

namespace ringwood {

class GrpcNode : public std::enable_shared_from_this<GrpcNode> {
 public:
  // Most bytes written and not yet taken, per direction between two nodes: two round trips of 10 ms
  // at 1.6 Gbit/s.
  static constexpr uint64_t kWindowBytes = 4 << 20;
  // The receiver reports at the end of a message and after so many bytes of a long one.
  static constexpr uint64_t kTakenBytes = kWindowBytes / 4;
  static constexpr size_t kMaxQueued = 1 << 14;  // sends to one peer
  // Close waits at most this long for gRPC to end the streams.
  static constexpr double kCloseSeconds = 1.0;
  // A connection without a hello is closed after this time.
  static constexpr double kHelloSeconds = 5.0;

  static constexpr size_t kDescriptorsOfAPeer = 2;  // a connection, and one that is tried again

  GrpcNode(Loop* loop, GrpcOptions options) : loop_(loop), options_(std::move(options)) {}

  Status Start(const std::string& ip);
  Status Connect(const EpochName& name, const std::vector<Peer>& peers, const FabricLimits& limits);
  void Send(int peer, const MessageName& name, const Content& content, const Payload& payload,
            Transport::SendDone done);
  void Receive(int peer, const MessageName& name, const Content& content,
               const ReceiveBuffer& buffer, Transport::ReceiveDone done);
  void Withdraw(Lane lane, uint64_t round);
  void Close(const Status& reason);
  TransportCounters Counters() const;

  const std::string& address() const { return address_; }
  Loop* loop() const { return loop_; }

 private:
  struct Outgoing {
    Frame frame;
    std::span<const std::byte> payload;
    Transport::SendDone done;
  };
  struct Stranger {
    GrpcStream* stream = nullptr;
    std::vector<std::byte> hello;  // empty: nothing said yet
  };
  struct Link {  // one peer
    std::string endpoint;
    uint64_t client = 0;  // its number
    GrpcStream* stream = nullptr;
    uint64_t stream_id = 0;
    bool writing = false;
    bool hello_due = false;
    bool ask_due = false, life_due = false;
    bool heard = false;
    std::deque<Outgoing> queue;    // the first may be half sent
    uint64_t offset = 0;           // payload of the first that is sent
    bool begun = false;            // its frame is sent
    std::deque<Outgoing> leaving;  // none or one, whose last piece is being written
    uint64_t sent = 0, taken_by_peer = 0;
    uint64_t taken = 0, taken_said = 0;
    std::shared_ptr<Assembly> assembly;  // of the message that is arriving
  };

  void Incoming(uint64_t number);
  // Events name the stream by `id`, which is never used again.
  void Begin(GrpcStream* stream, uint64_t id);
  void Arrived(uint64_t id, const std::vector<std::byte>& piece);
  void Written(uint64_t id, bool ok);
  void Greeted(uint64_t id, std::vector<std::byte> hello);
  Hello HelloOf(int caller, int called) const;
  Status Take(int peer, Link& link, std::span<const std::byte> piece);
  Status TakeStart(int peer, Link& link, std::span<const std::byte> body);
  void AnswerLeaving(Link& link);
  void Pump(Link& link);
  void WriteMessage(Link& link);
  void Gone(uint64_t id, const std::string& why);
  void FailLink(int peer, Link& link, const Status& reason);
  int PeerOf(uint64_t id) const;  // -1: none
  void StartWatch(const FabricLimits& limits);
  void LookOn();
  void Look();
  void Schedule();  // answers run from the loop, never inside a call

  Loop* const loop_;
  const GrpcOptions options_;
  uint64_t client_ = 0;  // our number
  EpochName name_;
  std::string address_;
  std::unique_ptr<GrpcListener> listener_;
  std::map<int, Link> links_;
  std::map<uint64_t, Stranger> strangers_;  // by id of the stream
  uint64_t next_id_ = 1;
  std::unique_ptr<Inbox> inbox_;  // from Connect on
  std::optional<Watch> watch_;    // the same, where silence is limited
  Refusals refusals_;
  bool scheduled_ = false;
  bool closed_ = false;
};

}  // namespace ringwood

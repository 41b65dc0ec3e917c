// What Fabric and Transport of one node share: listener, links to the peers, inbox. On the loop's
// thread; events of gRPC's threads are posted to it.
//
// The node knows who its peers are and whose stream is whose; a GrpcLink speaks with one of them.
// A peer is called when something is first sent to it, or when it is first asked for a sign of life
// (docs/transport.md, Connections).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "transport/grpc/hello.h"
#include "transport/grpc/link.h"
#include "transport/grpc/stream.h"
#include "transport/inbox.h"
#include "transport/refusals.h"
#include "transport/watch.h"

namespace ringwood {

class GrpcNode : public std::enable_shared_from_this<GrpcNode> {
 public:
  // Close waits at most this long for gRPC to end the streams.
  static constexpr double kCloseSeconds = 1.0;
  // A connection without a hello is closed after this time.
  static constexpr double kHelloSeconds = 5.0;
  // When one link of a peer has ended, the other has so long to end too.
  static constexpr double kOtherLinkSeconds = 2 * GrpcStream::kLingerSeconds;

  static constexpr size_t kDescriptorsEach = 2;  // a connection, and one that is tried again

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
  struct Way {  // to a peer
    Peer peer;
    std::string endpoint;      // where it listens
    uint64_t number = 0;       // it drew for this fabric
    GrpcLink* link = nullptr;  // what is sent to it goes there; null: no connection yet, or gone
    bool came = false;         // it has called us
  };
  struct Stranger {
    GrpcStream* stream = nullptr;
    std::vector<std::byte> hello;  // empty: nothing said yet
  };

  void Incoming(uint64_t number);
  // Events name the stream by `id`, which is never used again.
  void Begin(GrpcStream* stream, uint64_t id);
  void Arrived(uint64_t id, const std::vector<std::byte>& piece);
  void Written(uint64_t id, bool ok);
  void Greeted(uint64_t id, std::vector<std::byte> hello);
  Status Call(int peer, Way* way);
  Status CanConnect(int peer) const;
  GrpcLink* NewLink(int peer, Way* way, uint64_t id, GrpcStream* stream);
  void Gone(uint64_t id, const std::string& why);
  void Lose(uint64_t id, const std::string& why);  // its peer, unless that has failed before
  bool HasHeard(int peer) const;
  void FailPeer(int peer, const Status& reason);
  void StartWatch(const std::vector<Peer>& peers, const FabricLimits& limits);
  void LookOn();
  void Look();
  void Heard(int peer);
  void Ask(int peer);
  void Schedule();  // answers run from the loop, never inside a call
  const std::string& Key() const { return name_.key.empty() ? options_.token : name_.key; }

  Loop* const loop_;
  const GrpcOptions options_;
  uint64_t number_ = 0;  // ours; a hello proves that its sender knows both
  EpochName name_;
  std::string address_;
  std::unique_ptr<GrpcListener> listener_;
  std::map<int, Way> ways_;                 // by peer, from Connect on
  std::map<uint64_t, GrpcLink> links_;      // by id of the stream; at most two of a peer
  std::map<uint64_t, Stranger> strangers_;  // by id of the stream
  uint64_t next_id_ = 1;
  size_t most_ = 0;               // links, from Connect on
  std::unique_ptr<Inbox> inbox_;  // the same
  std::optional<Watch> watch_;    // the same, where silence is limited
  Refusals refusals_;
  bool scheduled_ = false;
  bool closed_ = false;
};

}  // namespace ringwood

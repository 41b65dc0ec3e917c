// What Fabric and Transport of one UCX node share: worker, inbox, and the three that work between
// them. On the loop's thread.
//
//   UcxWiring    who is connected: listener, requests, endpoints, the closing order
//   UcxSender    messages, notes and announcements on their way out
//   UcxReceiver  UCX's message handlers, and the queue between them and the inbox
//
// The node itself deals with notes (link.h), asks silent peers for a sign of life (watch.h), and
// closes everything in order.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "transport/inbox.h"
#include "transport/refusals.h"
#include "transport/ucx/receiver.h"
#include "transport/ucx/sender.h"
#include "transport/ucx/wiring.h"
#include "transport/ucx/worker.h"
#include "transport/watch.h"

namespace ringwood {

class UcxNode : public Loop::Source, public std::enable_shared_from_this<UcxNode> {
 public:
  static constexpr size_t kDescriptorsEach = 3;  // to agree on a connection, and the connection

  UcxNode(Loop* loop, std::unique_ptr<UcxWorker> worker);
  ~UcxNode() override;

  // Listens on `ip`; takes connections, messages and progress from here on.
  Status Start(const std::string& ip, const PortRange& ports);
  Status Connect(const EpochName& name, const std::vector<Peer>& peers, const FabricLimits& limits);
  void Send(int peer, const MessageName& name, const Content& content, const Payload& payload,
            Transport::SendDone done);
  void Receive(int peer, const MessageName& name, const Content& content,
               const ReceiveBuffer& buffer, Transport::ReceiveDone done);
  void Withdraw(Lane lane, uint64_t round);
  void Close(const Status& reason);
  TransportCounters Counters() const;

  const std::string& address() const { return wiring_.address(); }
  Loop* loop() const { return loop_; }

  int Descriptor() const override { return worker_->descriptor(); }
  bool Progress() override;
  bool Arm() override;
  Duration Nap() override { return receiver_.Nap(); }

 private:
  UcxWiring::Callbacks WiringCallbacks();
  UcxReceiver::Callbacks ReceiverCallbacks();
  void Lost(UcxLink& link, const Status& reason);

  bool TakeNote(const Frame& frame, std::span<const std::byte> payload);
  void OnFarewell(const Frame& frame, std::span<const std::byte> text);
  void OnNote(Note note, const Frame& frame, UcxLink& link);

  void StartWatch(const std::vector<Peer>& peers, const FabricLimits& limits);
  void LookOn();
  void Look();

  void SayFarewell(const Status& reason);
  void Dispose();         // of listener and worker; nothing is waiting for UCX any more
  void RunAnswersSoon();  // once closed, no progress runs them any more

  // Destroyed from the end: payloads in the inbox still look at receiver, links and worker.
  Loop* const loop_;
  std::unique_ptr<UcxWorker> worker_;  // null once disposed of
  Refusals refusals_;
  UcxWiring wiring_;
  UcxSender sender_;
  UcxReceiver receiver_;
  std::unique_ptr<Inbox> inbox_;  // from Connect on
  std::optional<Watch> watch_;    // the same, where silence is limited
  int self_ = 0;
  bool attached_ = false;
  bool closed_ = false;
  bool scheduled_ = false;  // RunAnswersSoon has a place in the mailbox
};

}  // namespace ringwood

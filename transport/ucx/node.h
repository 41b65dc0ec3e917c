// What Fabric and Transport of one UCX node share: worker, endpoints, inbox. On the loop's thread.
//
// UCX calls back from inside ucp_worker_progress; those handlers only move data and queue answers,
// so Close may run from any answer and may take the whole worker down.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "transport/inbox.h"
#include "transport/poll_pacer.h"
#include "transport/refusals.h"
#include "transport/ucx/listener.h"
#include "transport/ucx/neighbour.h"
#include "transport/ucx/worker.h"
#include "transport/watch.h"

namespace ringwood {

class UcxNode : public Loop::Source, public std::enable_shared_from_this<UcxNode> {
 public:
  // Close waits at most this long for what was sent to leave, and for UCX to let go of buffers.
  static constexpr double kCloseSeconds = 1.0;
  // UCX may stop the process when a connection is closed that is half made, so Close gives those so
  // long. A peer that is gone or silent does not answer.
  static constexpr double kSettleSeconds = 0.25;
  // UCX 1.13.1 crashes when a listener goes while a peer's connection is half made. So a node that
  // still expects connections keeps its listener this long after Close, and at least kGraceSeconds
  // when its loop ends earlier; a half-made connection takes about a millisecond.
  static constexpr double kLingerSeconds = 2.0;
  static constexpr double kGraceSeconds = 0.05;
  // Messages and connections accepted before Connect; peers that were told of the epoch first may
  // be that early.
  static constexpr size_t kMaxBeforeConnect = 8192;  // twice the largest world

  static constexpr size_t kDescriptorsOfAPeer = 3;  // to agree on a connection, and the connection

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

  const std::string& address() const { return address_; }
  Loop* loop() const { return loop_; }

  int Descriptor() const override;
  bool Progress() override;
  bool Arm() override;
  Duration Nap() override;

 private:
  static constexpr unsigned kMessageId = 1;  // active messages that every node handles
  static constexpr unsigned kAnnouncementId = 2;
  // Lanes of our own. Messages between two nodes arrive in order, so the answer to a goodbye says
  // that everything sent before has arrived; without it the end of a connection overtakes the data.
  static constexpr uint8_t kGoodbyeLane = 255;
  static constexpr uint8_t kHelloLane = 254;     // see node_neighbours.cc
  static constexpr uint8_t kReceiptLane = 253;   // its count is the ticket
  static constexpr uint8_t kAskLane = 252;       // slot 0 asks for a sign of life, 1 is one
  static constexpr uint8_t kFarewellLane = 251;  // why the sender closes; its type is the code
  static constexpr int kEverybody = -1;

  struct Outgoing {  // one message being sent; UCX reads frame and payload until it completes
    UcxNode* node;
    int peer;
    Frame frame;
    std::span<const std::byte> payload;
    Transport::SendDone done;
    unsigned id = kMessageId;
    Announcement announcement = {};  // the payload, where it is one
    std::string text = {};           // the payload, where it is one
  };
  // One peer; at a stable place, because UCX holds it. Of two nodes the lower one connects.
  struct Link {
    UcxNode* node = nullptr;
    int peer = 0;
    UcxAddress address;
    ucp_ep_h endpoint = nullptr;
    bool connected = false;                         // the peer's connection was accepted
    bool heard = false;                             // of it: the connection stands at both ends
    bool parted = false;                            // it has answered our goodbye, or is gone
    bool readable = false;                          // its memory, by this process
    bool reads_us = false;                          // it said so
    std::deque<std::unique_ptr<Outgoing>> waiting;  // until the peer has connected
  };

  static ucs_status_t OnMessage(void* node, const void* header, size_t header_length, void* data,
                                size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t OnAnnouncement(void* node, const void* header, size_t header_length,
                                     void* data, size_t length, const ucp_am_recv_param_t* param);
  static void OnSent(void* request, ucs_status_t status, void* outgoing);
  static void OnError(void* link, ucp_ep_h endpoint, ucs_status_t status);

  ucs_status_t Accept(const Frame& frame, void* data, size_t length, bool announced);
  void Open(Link& link);
  void AcceptQueued();
  Status Make(Link& link, ucp_ep_params_t& params);
  void Transmit(Link& link, std::unique_ptr<Outgoing> outgoing);
  void FailLink(Link& link, const Status& reason);
  void DeliverQueued();
  void RunAnswersSoon();  // once closed, no progress runs them any more
  void Sent(std::unique_ptr<Outgoing> outgoing, ucs_status_t status);
  void AnswerSend(Outgoing& outgoing, ucs_status_t status);
  void AnswerAll();
  void CloseBroken();
  void Quiesce(bool graceful);
  void Part(TimePoint deadline);      // goodbye to all, until all have answered
  bool TakeNote(const Frame& frame);  // false: the frame is a message's
  void OnGoodbye(const Frame& frame);
  void SendNote(Link& link, uint8_t lane, uint32_t slot, uint64_t count);
  // node_watch.cc
  void StartWatch(const FabricLimits& limits);
  void LookOn();
  void Look();
  void SayFarewell(const Status& reason);
  void OnFarewell(const Frame& frame, std::span<const std::byte> text);
  // node_neighbours.cc
  void FindNeighbours(const std::vector<Peer>& peers);
  void Greet(Link& link);
  void Announce(Link& link, std::unique_ptr<Outgoing> outgoing);
  void OnReceipt(const Frame& frame);
  void DropAnnounced(int peer);  // or those of kEverybody: answered, they will not be read
  bool IsStreaming() const;      // long messages come, and nothing else is awaited
  bool Expects() const;          // some peer has not connected yet
  void Dispose();                // of listener and worker; nothing is waiting for UCX any more
  bool Wait(ucs_status_ptr_t request, TimePoint deadline);  // false: UCX did not finish in time
  void ProgressUntil(const std::function<bool()>& reached, TimePoint deadline);
  void Settle();  // connections that are being made are made, or given up

  Loop* const loop_;
  std::unique_ptr<UcxWorker> worker_;  // null once disposed of
  std::unique_ptr<UcxListener> listener_;
  std::string address_;
  int self_ = 0;
  std::unique_ptr<Inbox> inbox_;  // from Connect on
  std::map<int, Link> links_;
  std::vector<Link*> broken_;     // reported by OnError, closed after progress
  std::set<Outgoing*> outgoing_;  // not yet completed by UCX
  // Announcements wait here for the end of progress; everything waits here before Connect.
  std::deque<std::pair<Frame, std::unique_ptr<IncomingPayload>>> queued_;
  std::map<uint64_t, std::unique_ptr<Outgoing>> announced_;  // by ticket, until the receipt
  uint64_t next_ticket_ = 0;
  PollPacer pacer_;
  std::optional<Watch> watch_;  // from Connect on, where silence is limited
  Refusals refusals_;
  uint64_t cookie_ = 0;                       // the client id, for processes of this host to find
  std::vector<ucp_conn_request_h> requests_;  // connections not yet accepted
  bool attached_ = false;
  TimePoint closed_at_;
  bool closed_ = false;
};

}  // namespace ringwood

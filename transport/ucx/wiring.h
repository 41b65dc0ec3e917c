// Who is connected with whom: the listener, connection requests, one endpoint a peer, and the order
// in which all of them are closed. On the loop's thread.
//
// Of two nodes the lower one connects. A connection carries its sender's random client id, so the
// acceptor knows whose it is before any message; requests that come before Join are kept.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/inbox.h"
#include "transport/refusals.h"
#include "transport/ucx/link.h"
#include "transport/ucx/worker.h"

namespace ringwood {

class UcxWiring {
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
  // Most requests kept until Join: peers that learned of the epoch first may already connect.
  static constexpr size_t kMaxRequests = 8192;  // twice the largest world

  struct Callbacks {
    std::function<void(UcxLink&)> connected;            // its endpoint stands on this side
    std::function<void(UcxLink&, const Status&)> lost;  // may come from inside UCX's progress
  };
  // `worker` must live until StopListening, `refusals` as long as this object.
  UcxWiring(UcxWorker* worker, Refusals* refusals, Callbacks callbacks);

  Status Listen(const std::string& ip, const PortRange& ports);
  const std::string& address() const { return address_; }  // what peers connect to

  // Takes the epoch's peers and their addresses. `inbox` must outlive this object's use.
  Status Join(int self, const std::vector<Peer>& peers, Inbox* inbox);
  void ConnectToHigher();
  // Turns the peers' requests into endpoints. Endpoints are made and closed outside of progress.
  void AcceptRequests();

  // The peer is gone: reports it as lost. CloseBroken closes its endpoint.
  void Break(UcxLink& link, const Status& reason);
  void CloseBroken();

  UcxLink* Find(int node);  // null: no peer
  std::map<int, UcxLink>& links() { return links_; }

  // Rejects requests from here on, and reports no more lost peers.
  void StopAccepting();
  // Closes all connections, in the order given at the definition. `goodbye` sends one peer the note
  // that it answers once it has received everything; null: do not wait for that.
  void Close(const std::function<void(UcxLink&)>& goodbye);
  // A lower node has not connected yet and may be doing so now.
  bool ExpectsConnections() const;
  void StopListening();  // before the worker is destroyed

 private:
  static void OnError(void* link, ucp_ep_h endpoint, ucs_status_t status);

  void FindNeighbours(const std::vector<Peer>& peers);
  Status MakeEndpoint(UcxLink& link, ucp_ep_params_t& params);
  void Open(UcxLink& link);
  void Accept(ucp_conn_request_h request);
  void Settle();  // connections that are being made are made, or given up
  void Part(const std::function<void(UcxLink&)>& goodbye, TimePoint deadline);

  UcxWorker* const worker_;
  Refusals* const refusals_;
  const Callbacks callbacks_;
  std::unique_ptr<UcxListener> listener_;
  std::string address_;
  uint64_t cookie_ = 0;                       // the client id, for processes of this host to find
  std::vector<ucp_conn_request_h> requests_;  // not accepted yet
  int self_ = 0;
  Inbox* inbox_ = nullptr;  // from Join on
  std::map<int, UcxLink> links_;
  std::vector<UcxLink*> broken_;  // endpoints to be closed after progress
  bool closed_ = false;
  TimePoint closed_at_;
};

}  // namespace ringwood

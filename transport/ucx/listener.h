// Where peers connect: a TCP port of the kernel's choice on one address. Every node has a random
// client id that a connection carries, so the acceptor knows who it is before any message.
//
// Connections by socket address, not by worker address: with the latter, UCX 1.13.1 stops the
// process ("got REP message") when a peer dies between the first and the second wire-up message.
#pragma once

#include <ucp/api/ucp.h>

#include <functional>
#include <memory>
#include <string>

#include "base/net/socket_address.h"
#include "base/status.h"
#include "transport/port_range.h"

namespace ringwood {

// What Fabric::Address() says: "10.78.0.1 40123 9f86d081884c7d65 4711 55d0c0ffee00"; the first may
// be an IPv6 address.
struct UcxAddress {
  SocketAddress socket;
  uint64_t client = 0;
  int pid = 0;          // for processes of the same host, neighbour.h; 0: not said
  uint64_t cookie = 0;  // where `client` stands in the memory of that process
};
std::string Format(const UcxAddress& address);
StatusOr<UcxAddress> ParseUcxAddress(
    const std::string& text);  // hostile input: refused, never read past

class UcxListener {
 public:
  using OnRequest = std::function<void(ucp_conn_request_h)>;

  // `on_request` runs inside UCX's progress and takes over the request. ShortOfPorts: no port of
  // the range, tried from one that `seed` picks, is free.
  static StatusOr<std::unique_ptr<UcxListener>> Make(ucp_worker_h worker, const std::string& ip,
                                                     const PortRange& ports, uint64_t seed,
                                                     OnRequest on_request);
  ~UcxListener();

  const SocketAddress& socket() const { return socket_; }
  void Reject(ucp_conn_request_h request) { ucp_listener_reject(listener_, request); }

 private:
  UcxListener() = default;
  static void OnConnection(ucp_conn_request_h request, void* listener);

  ucp_listener_h listener_ = nullptr;
  SocketAddress socket_;
  OnRequest on_request_;
};

}  // namespace ringwood

#include "transport/ucx/listener.h"

#include <arpa/inet.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "transport/ucx/worker.h"

namespace ringwood {

std::string Format(const UcxAddress& address) {
  char ip[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, &address.socket.sin_addr, ip, sizeof ip);
  return absl::StrFormat("%s %d %016x %d %x", ip, ntohs(address.socket.sin_port), address.client,
                         address.pid, address.cookie);
}

StatusOr<UcxAddress> ParseUcxAddress(const std::string& text) {
  UcxAddress address;
  char ip[INET_ADDRSTRLEN] = {};
  unsigned port = 0;
  const bool read = std::sscanf(text.c_str(), "%15s %5u %16" SCNx64 " %9d %16" SCNx64, ip, &port,
                                &address.client, &address.pid, &address.cookie) >= 3;
  if (!read || port == 0 || port > 65535 || inet_pton(AF_INET, ip, &address.socket.sin_addr) != 1) {
    return Invalid("this is no data-plane address: \"" + text.substr(0, 60) +
                   "\"; do all processes use the same transport?");
  }
  address.socket.sin_family = AF_INET;
  address.socket.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

StatusOr<std::unique_ptr<UcxListener>> UcxListener::Make(ucp_worker_h worker, const std::string& ip,
                                                         const PortRange& ports, uint64_t seed,
                                                         OnRequest on_request) {
  std::unique_ptr<UcxListener> made(new UcxListener);
  made->on_request_ = std::move(on_request);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  if (inet_pton(AF_INET, ip.c_str(), &name.sin_addr) != 1) {
    return Invalid("\"" + ip + "\" is no IPv4 address");
  }
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr = {reinterpret_cast<const sockaddr*>(&name), sizeof name};
  params.conn_handler = {&UcxListener::OnConnection, made.get()};
  ucs_status_t status = UCS_ERR_BUSY;
  for (const uint16_t port : PortsToTry(ports, seed)) {
    name.sin_port = htons(port);
    status = ucp_listener_create(worker, &params, &made->listener_);
    if (status != UCS_ERR_BUSY) break;
  }
  if (status == UCS_ERR_BUSY) return ShortOfPorts(ports, ip, 1);
  if (status != UCS_OK) return FromUcx(status, "listen on " + ip);
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  status = ucp_listener_query(made->listener_, &attributes);
  if (status != UCS_OK) return FromUcx(status, "find the port on " + ip);
  std::memcpy(&made->socket_, &attributes.sockaddr, sizeof made->socket_);
  return made;
}

UcxListener::~UcxListener() {
  if (listener_ != nullptr) ucp_listener_destroy(listener_);
}

void UcxListener::OnConnection(ucp_conn_request_h request, void* listener) {
  static_cast<UcxListener*>(listener)->on_request_(request);
}

}  // namespace ringwood

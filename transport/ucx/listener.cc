#include "transport/ucx/listener.h"

#include <cinttypes>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "transport/ucx/worker.h"

namespace ringwood {

std::string Format(const UcxAddress& address) {
  return absl::StrFormat("%s %d %016x %d %x", address.socket.ip(), address.socket.port(),
                         address.client, address.pid, address.cookie);
}

StatusOr<UcxAddress> ParseUcxAddress(const std::string& text) {
  UcxAddress address;
  char ip[64] = {};
  unsigned port = 0;
  const bool read = std::sscanf(text.c_str(), "%63s %5u %16" SCNx64 " %9d %16" SCNx64, ip, &port,
                                &address.client, &address.pid, &address.cookie) >= 3;
  auto socket = SocketAddress::Parse(ip, static_cast<uint16_t>(port));
  if (!read || port == 0 || port > 65535 || !socket.ok()) {
    return Invalid("this is no data-plane address: \"" + text.substr(0, 60) +
                   "\"; do all processes use the same transport?");
  }
  address.socket = *socket;
  return address;
}

StatusOr<std::unique_ptr<UcxListener>> UcxListener::Make(ucp_worker_h worker, const std::string& ip,
                                                         const PortRange& ports, uint64_t seed,
                                                         OnRequest on_request) {
  std::unique_ptr<UcxListener> made(new UcxListener);
  made->on_request_ = std::move(on_request);
  RW_ASSIGN_OR_RETURN(SocketAddress address, SocketAddress::Parse(ip, 0));
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr = {address.name(), address.size()};
  params.conn_handler = {&UcxListener::OnConnection, made.get()};
  ucs_status_t status = UCS_ERR_BUSY;
  for (const uint16_t port : PortsToTry(ports, seed)) {
    address.set_port(port);
    status = ucp_listener_create(worker, &params, &made->listener_);
    if (status != UCS_ERR_BUSY) break;
  }
  if (status == UCS_ERR_BUSY) return ShortOfPorts(ports, ip, 1);
  if (status != UCS_OK) return FromUcx(status, "listen on " + ip);
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  status = ucp_listener_query(made->listener_, &attributes);
  if (status != UCS_OK) return FromUcx(status, "find the port on " + ip);
  made->socket_ = SocketAddress::Of(reinterpret_cast<const sockaddr*>(&attributes.sockaddr));
  return made;
}

UcxListener::~UcxListener() {
  if (listener_ != nullptr) ucp_listener_destroy(listener_);
}

void UcxListener::OnConnection(ucp_conn_request_h request, void* listener) {
  static_cast<UcxListener*>(listener)->on_request_(request);
}

}  // namespace ringwood

// Owns one UCX context and worker and their settings; translates UCX's errors once.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/net/socket_address.h"
#include "base/status.h"
#include "transport/port_range.h"

namespace ringwood {

// "what: UCX's text", with the code that UCX's status means to us.
Status FromUcx(ucs_status_t status, const std::string& what);

class UcxWorker {
 public:
  // On the thread that will own it. `interface`, whose address is `ip`, is the only network device
  // used. UCX's own listener gets one of `ports`, tried one after the other; `client` is the id
  // that its connections carry. ShortOfPorts if none is free; the error names the `needed` number.
  static StatusOr<std::unique_ptr<UcxWorker>> Make(const std::string& interface,
                                                   const std::string& ip, const PortRange& ports,
                                                   size_t needed, uint64_t client);
  ~UcxWorker();  // closes every connection that is still open

  ucp_worker_h handle() const { return worker_; }
  int descriptor() const { return descriptor_; }

  bool Progress() { return ucp_worker_progress(worker_) != 0; }  // true: there was something
  bool Arm() { return ucp_worker_arm(worker_) == UCS_OK; }  // true: the descriptor will wake us
  // Progress, asleep while there is none, until `reached` or `deadline`.
  void ProgressUntil(const std::function<bool()>& reached, TimePoint deadline);
  // Progress until UCX is done with `request`, or `deadline`; frees it, if it is one.
  void Await(ucs_status_ptr_t request, TimePoint deadline);

  uint64_t client() const { return client_; }
  // That of UCX's own listener; 0: the kernel's choice.
  uint16_t port() const { return port_; }

 private:
  UcxWorker() = default;
  // AlreadyExists: somebody listens on the port of `address`, which the interface has.
  static StatusOr<std::unique_ptr<UcxWorker>> MakeOn(const std::string& interface,
                                                     const SocketAddress& address, uint64_t client);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;  // UCX's
  uint64_t client_ = 0;
  uint16_t port_ = 0;
};

// Connections that come in on these ports of this process end with a reset, so that TCP does not
// remember them for a minute: UCX makes its sockets without SO_REUSEADDR, and the ports of a range
// would run out with a few restarts. What was sent and not yet received is lost then, as it is with
// the process. For when the listeners stand: the sockets that they accept inherit the setting.
void ForgetAtEnd(std::span<const uint16_t> ports);

}  // namespace ringwood

// Owns one UCX context and worker and their settings; translates UCX's errors once.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "transport/port_range.h"

namespace ringwood {

// "what: UCX's text", with the code that UCX's status means to us.
Status FromUcx(ucs_status_t status, const std::string& what);

class UcxWorker {
 public:
  // On the thread that will own it. `interface` is the only network device used, and one of `ports`
  // for UCX's own listener; `client` is the id that its connections carry.
  static StatusOr<std::unique_ptr<UcxWorker>> Make(const std::string& interface,
                                                   const PortRange& ports, uint64_t client);
  ~UcxWorker();  // closes every connection that is still open

  ucp_worker_h handle() const { return worker_; }
  int descriptor() const { return descriptor_; }
  uint64_t client() const { return client_; }

 private:
  UcxWorker() = default;

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;  // UCX's
  uint64_t client_ = 0;
};

}  // namespace ringwood

// Owns one UCX context and worker and their settings; translates UCX's errors once.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace ringwood {

// "what: UCX's text", with the code that UCX's status means to us.
Status FromUcx(ucs_status_t status, const std::string& what);

class UcxWorker {
 public:
  // On the thread that will own it. `interface` is the only network device used.
  static StatusOr<std::unique_ptr<UcxWorker>> Make(const std::string& interface);
  ~UcxWorker();  // closes every connection that is still open

  ucp_worker_h handle() const { return worker_; }
  int descriptor() const { return descriptor_; }
  const std::string& address() const { return address_; }

 private:
  UcxWorker() = default;

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;  // UCX's
  std::string address_;
};

}  // namespace ringwood

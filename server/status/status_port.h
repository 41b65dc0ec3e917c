// The status port of a server: StatusPages behind an HttpServer.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "server/status/http_server.h"
#include "server/status/status_pages.h"

namespace ringwood {

class StatusPort {
 public:
  // At `address` and with the certificate `tls`, as HttpServer::Open takes them, with its errors.
  // Of `pages` only `guarded` is decided here: by everybody a token must be shown where the address
  // is not a loopback one, and where it says which job of a deployment is asked for.
  static StatusOr<std::unique_ptr<StatusPort>> Open(const std::string& address,
                                                    const std::string& tls,
                                                    StatusPages::Options pages);

  Status Listen() { return http_->Listen(); }      // once; connections are refused until then
  const std::string& url() const { return url_; }  // of the page, as a browser takes it

 private:
  StatusPort(std::unique_ptr<HttpServer> http, std::string url);

  const std::unique_ptr<HttpServer> http_;
  const std::string url_;
};

}  // namespace ringwood

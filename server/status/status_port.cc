#include "server/status/status_port.h"

#include <utility>

#include "base/net/endpoint.h"

namespace ringwood {

StatusPort::StatusPort(std::unique_ptr<HttpServer> http, std::string url)
    : http_(std::move(http)), url_(std::move(url)) {}

StatusOr<std::unique_ptr<StatusPort>> StatusPort::Open(const std::string& address,
                                                       const std::string& tls,
                                                       StatusPages::Options pages) {
  pages.guarded = pages.status_of != nullptr || !IsLoopbackHost(HostOf(address));
  const auto shared = std::make_shared<StatusPages>(std::move(pages));
  RW_ASSIGN_OR_RETURN(auto http,
                      HttpServer::Open(address, tls, [shared](const HttpRequest& request) {
                        return shared->Answer(request);
                      }));
  std::string url = (tls.empty() ? "http://" : "https://") +
                    ToString(Endpoint{HostOf(address), http->port()}) + "/";
  return std::unique_ptr<StatusPort>(new StatusPort(std::move(http), std::move(url)));
}

}  // namespace ringwood

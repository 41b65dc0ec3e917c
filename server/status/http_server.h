// A small HTTP server, over civetweb. Bounded: kThreads requests at once, kWaiting connections that
// wait for one of them, kMaxRequestBytes a request, and some seconds to send it; no connection
// outlives its answer, and no file is served.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "server/status/status_pages.h"

struct mg_context;

namespace ringwood {

class HttpServer {
 public:
  static constexpr int kThreads = 4;
  static constexpr int kWaiting = 32;
  static constexpr int kMaxRequestBytes = 8 << 10;
  static constexpr int kRequestMilliseconds = 5000;

  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  // At `address`, an IP address and a port; 0: the kernel chooses. Refused: the port is in use, or
  // this civetweb has no IPv6 (Debian's has none).
  static StatusOr<std::unique_ptr<HttpServer>> Open(const std::string& address, Handler handler);
  ~HttpServer();  // waits for the requests that are being answered

  int port() const { return port_; }
  const Handler& handler() const { return handler_; }  // any thread

 private:
  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {}

  const Handler handler_;
  mg_context* context_ = nullptr;
  int port_ = 0;
};

}  // namespace ringwood

// A small HTTP server, over Boost.Beast: one request a connection. Bounded: kThreads requests at
// once, kConnections connections, further ones wait in the kernel's queue; kMaxRequestBytes a
// request, which comes within kRequestSeconds, TLS's handshake included, and kAnswerSeconds to take
// the answer.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "server/status/status_pages.h"

namespace ringwood {

class HttpServer {
 public:
  static constexpr int kThreads = 4;
  static constexpr int kConnections = 36;
  static constexpr int kMaxRequestBytes = 8 << 10;
  static constexpr int kRequestSeconds = 5;
  static constexpr int kAnswerSeconds = 30;  // of a large job, through a slow tunnel

  using Handler = std::function<HttpAnswer(const HttpRequest&)>;  // on any of the threads

  // At `address`, an IP address and a port; 0: the kernel chooses. `tls`: a folder for
  // PageCertificate, whose errors are ours; empty: plaintext. Refused: the port is in use.
  // Connections are refused until Listen.
  static StatusOr<std::unique_ptr<HttpServer>> Open(const std::string& address,
                                                    const std::string& tls, Handler handler);
  ~HttpServer();  // waits for the requests that are being answered

  int port() const;

  // Answers from now on, with the errors of Open. Once.
  Status Listen();

 private:
  class Door;
  explicit HttpServer(std::unique_ptr<Door> door);

  const std::unique_ptr<Door> door_;
};

}  // namespace ringwood

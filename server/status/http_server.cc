#include "server/status/http_server.h"

#include <pthread.h>
#include <unistd.h>

#include <boost/asio.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/net/endpoint.h"
#include "base/net/socket_address.h"
#include "server/status/page_certificate.h"

namespace ringwood {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using Error = beast::error_code;
using Plain = beast::tcp_stream;
using Secured = beast::ssl_stream<beast::tcp_stream>;
using Context = PageCertificate::Context;

constexpr int kBacklog = 128;
const std::string kCannotListen = "cannot listen for --http ";
constexpr std::chrono::milliseconds kPause{100};  // until the next try when no descriptor was left

// Nothing that the page does not bring along; and it is no part of another page.
constexpr char kPolicy[] =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

HttpRequest RequestOf(const http::request<http::empty_body>& read) {
  const std::string target(read.target());
  return {std::string(read.method_string()), target.substr(0, target.find('?')),
          std::string(read[http::field::host]), std::string(read[http::field::authorization])};
}

std::string TextOf(const HttpAnswer& answer, bool head_only) {
  std::string text = absl::StrFormat(
      "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n"
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Content-Security-Policy: %s\r\n%s\r\n",
      answer.code, std::string(http::obsolete_reason(static_cast<http::status>(answer.code))),
      answer.type, answer.body.size(), kPolicy,
      answer.code == 401 ? "WWW-Authenticate: Bearer\r\n" : "");
  return head_only ? text : text + answer.body;
}

std::string WhyNot(int error) {
  if (error == EADDRINUSE) return "the port is in use: choose another";
  if (error == EADDRNOTAVAIL) return "this host has no such address";
  return std::strerror(error);
}

// One connection, kept by its own callbacks. All of it happens on a strand.
template <typename Stream>
class Visit : public std::enable_shared_from_this<Visit<Stream>> {
 public:
  template <typename... Rest>
  Visit(const HttpServer::Handler& handler, std::shared_ptr<void> place, Context context,
        Tcp::socket socket, Rest&... rest)
      : handler_(handler),
        place_(std::move(place)),
        context_(std::move(context)),
        stream_(std::move(socket), rest...) {
    parser_.header_limit(HttpServer::kMaxRequestBytes);
  }

  auto executor() { return stream_.get_executor(); }

  void Begin() {
    Within(HttpServer::kRequestSeconds);
    if constexpr (std::is_same_v<Stream, Secured>) {
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](Error error) {
                                if (!error) self->Read();
                              });
    } else {
      Read();
    }
  }

 private:
  // From now on; who takes longer is cut off.
  void Within(int seconds) {
    beast::get_lowest_layer(stream_).expires_after(std::chrono::seconds(seconds));
  }

  // What may follow the header is not read: nothing here takes any.
  void Read() {
    http::async_read_header(stream_, buffer_, parser_,
                            [self = this->shared_from_this()](Error error, size_t) {
                              if (!error) self->Answer();
                            });
  }

  void Answer() {
    const HttpRequest request = RequestOf(parser_.get());
    answer_ = TextOf(handler_(request), request.method == "HEAD");
    Within(HttpServer::kAnswerSeconds);
    asio::async_write(stream_, asio::buffer(answer_),
                      [self = this->shared_from_this()](Error error, size_t) {
                        if (!error) self->End();
                      });
  }

  void End() {
    Within(HttpServer::kRequestSeconds);
    if constexpr (std::is_same_v<Stream, Secured>) {
      stream_.async_shutdown([self = this->shared_from_this()](Error) {});
    } else {
      Error ignored;
      stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
      Drain();
    }
  }

  // A connection that is closed with something unread is reset, and the answer lost with it.
  void Drain() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(HttpServer::kMaxRequestBytes),
                            [self = this->shared_from_this()](Error error, size_t) {
                              if (!error) self->Drain();
                            });
  }

  const HttpServer::Handler& handler_;
  const std::shared_ptr<void> place_;  // taken as long as this lives
  const Context context_;              // null of a plain stream
  Stream stream_;
  beast::flat_buffer buffer_{HttpServer::kMaxRequestBytes};
  http::request_parser<http::empty_body> parser_;
  std::string answer_;
};

}  // namespace

class HttpServer::Door {
 public:
  Door(const std::string& address, std::unique_ptr<PageCertificate> certificate, Handler handler)
      : address_(address), certificate_(std::move(certificate)), handler_(std::move(handler)) {}

  ~Door() {
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
    ended_ = true;
  }

  Status Take(const SocketAddress& place) {
    const int listener = BindTcp(place, true);
    if (listener < 0) return Refused(WhyNot(errno));
    Error error;
    acceptor_.assign(place.family() == AF_INET6 ? Tcp::v6() : Tcp::v4(), listener, error);
    if (error) {
      ::close(listener);
      return Refused(error.message());
    }
    port_ = SocketAddress::OfSocket(listener).port();
    return OkStatus();
  }

  Status Listen() {
    if (ListenTcp(acceptor_.native_handle(), kBacklog) != 0) return Refused(WhyNot(errno));
    Accept();
    for (int i = 0; i < kThreads; ++i) {
      threads_.emplace_back([this] {
        pthread_setname_np(pthread_self(), "rw-http");
        io_.run();
      });
    }
    return OkStatus();
  }

  int port() const { return port_; }
  const std::string& address() const { return address_; }

 private:
  // On the acceptor's strand, but for the first time.
  void Accept() {
    accepting_ = true;
    acceptor_.async_accept(asio::make_strand(io_), [this](Error error, Tcp::socket socket) {
      accepting_ = false;
      if (error == asio::error::operation_aborted) return;
      if (error) return Pause();
      ++open_;
      Begin(std::move(socket));
      if (open_ < kConnections) Accept();
    });
  }

  void Pause() {
    pause_.expires_after(kPause);
    pause_.async_wait([this](Error error) {
      if (!error && !accepting_) Accept();
    });
  }

  void Begin(Tcp::socket socket) {
    const std::shared_ptr<void> place(this, [](Door* door) { door->Left(); });
    if (certificate_ == nullptr) {
      const auto visit =
          std::make_shared<Visit<Plain>>(handler_, place, nullptr, std::move(socket));
      asio::post(visit->executor(), [visit] { visit->Begin(); });
      return;
    }
    const Context context = certificate_->Newest();
    const auto visit =
        std::make_shared<Visit<Secured>>(handler_, place, context, std::move(socket), *context);
    asio::post(visit->executor(), [visit] { visit->Begin(); });
  }

  void Left() {
    if (ended_) return;
    asio::post(acceptor_.get_executor(), [this] {
      --open_;
      if (!accepting_) Accept();
    });
  }

  const std::string address_;
  const std::unique_ptr<PageCertificate> certificate_;  // null: plaintext
  const Handler handler_;
  bool ended_ = false;  // its threads have
  asio::io_context io_{kThreads};
  Tcp::acceptor acceptor_{asio::make_strand(io_)};
  asio::steady_timer pause_{acceptor_.get_executor()};
  int open_ = 0;            // on the acceptor's strand
  bool accepting_ = false;  // likewise
  int port_ = 0;
  std::vector<std::thread> threads_;
};

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Open(const std::string& address,
                                                       const std::string& tls, Handler handler) {
  RW_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(address));
  RW_ASSIGN_OR_RETURN(const SocketAddress place,
                      SocketAddress::Parse(endpoint.host, static_cast<uint16_t>(endpoint.port)));
  std::unique_ptr<PageCertificate> certificate;
  if (!tls.empty()) {
    RW_ASSIGN_OR_RETURN(certificate, PageCertificate::Open(tls));
  }
  auto door = std::make_unique<Door>(address, std::move(certificate), std::move(handler));
  RW_RETURN_IF_ERROR(Annotate(door->Take(place), kCannotListen + address));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(door)));
}

HttpServer::HttpServer(std::unique_ptr<Door> door) : door_(std::move(door)) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return door_->port(); }

Status HttpServer::Listen() { return Annotate(door_->Listen(), kCannotListen + door_->address()); }

}  // namespace ringwood

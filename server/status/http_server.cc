#include "server/status/http_server.h"

#include <civetweb.h>

#include <utility>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

// Nothing that the page does not bring along; and it is no part of another page.
constexpr char kPolicy[] =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const char* PhraseOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Service Unavailable";
  }
}

std::string TextOrNothing(const char* text) { return text == nullptr ? "" : text; }

int AnswerRequest(mg_connection* connection, void* data) {
  const auto* const server = static_cast<const HttpServer*>(data);
  const mg_request_info* const info = mg_get_request_info(connection);
  HttpRequest request;
  request.method = TextOrNothing(info->request_method);
  request.path = TextOrNothing(info->local_uri);
  request.host = TextOrNothing(mg_get_header(connection, "Host"));
  request.authorization = TextOrNothing(mg_get_header(connection, "Authorization"));
  const HttpAnswer answer = server->handler()(request);
  const std::string head = absl::StrFormat(
      "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n"
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Content-Security-Policy: %s\r\n%s\r\n",
      answer.code, PhraseOf(answer.code), answer.type, answer.body.size(), kPolicy,
      answer.code == 401 ? "WWW-Authenticate: Bearer\r\n" : "");
  mg_write(connection, head.data(), head.size());
  if (request.method != "HEAD") mg_write(connection, answer.body.data(), answer.body.size());
  return answer.code;
}

// What it would write to a log of its own: a stranger's broken requests are no news.
int Silence(const mg_connection*, const char*) { return 1; }

}  // namespace

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Open(const std::string& address,
                                                       Handler handler) {
  if (address.find('[') != std::string::npos && mg_check_feature(MG_FEATURES_IPV6) == 0) {
    return Refused(absl::StrFormat(
        "--http %s: the civetweb of this system listens on IPv4 only: give an address of IPv4, or "
        "127.0.0.1 behind a reverse proxy that listens there",
        address));
  }
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(handler)));
  mg_callbacks callbacks = {};
  callbacks.log_message = Silence;
  const std::string threads = std::to_string(kThreads), waiting = std::to_string(kWaiting);
  const std::string bytes = std::to_string(kMaxRequestBytes);
  const std::string milliseconds = std::to_string(kRequestMilliseconds);
  const char* options[] = {"listening_ports",
                           address.c_str(),
                           "num_threads",
                           threads.c_str(),
                           "connection_queue",
                           waiting.c_str(),
                           "max_request_size",
                           bytes.c_str(),
                           "request_timeout_ms",
                           milliseconds.c_str(),
                           "enable_keep_alive",
                           "no",
                           "enable_directory_listing",
                           "no",
                           nullptr};
  server->context_ = mg_start(&callbacks, nullptr, options);
  if (server->context_ == nullptr) {
    return Refused(absl::StrFormat(
        "--http %s: cannot listen there; is the port in use, or the address another host's?",
        address));
  }
  mg_set_request_handler(server->context_, "**", AnswerRequest, server.get());
  mg_server_port port = {};
  if (mg_get_server_ports(server->context_, 1, &port) == 1) server->port_ = port.port;
  return server;
}

HttpServer::~HttpServer() {
  if (context_ != nullptr) mg_stop(context_);
}

}  // namespace ringwood

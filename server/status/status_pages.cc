#include "server/status/status_pages.h"

#include <ctime>

#include "server/calls/call_guard.h"
#include "server/status/metrics.h"
#include "server/status/status_json.h"

namespace ringwood {
namespace {

constexpr char kBearer[] = "Bearer ";
constexpr char kHtml[] = "text/html; charset=utf-8";
constexpr char kJson[] = "application/json";
constexpr char kPrometheus[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

bool IsOwnHost(const std::string& host) {
  std::string name = host;
  const size_t colon = name.rfind(':');
  if (colon != std::string::npos && name.find(']', colon) == std::string::npos) name.resize(colon);
  return name == "localhost" || name == "[::1]" ||
         (!name.empty() && name.find_first_not_of("0123456789.") == std::string::npos);
}

Status StatusPages::Admit(const HttpRequest& request) const {
  if (!options_.guarded) return OkStatus();
  if (options_.token.empty() || request.authorization.rfind(kBearer, 0) != 0) {
    return Denied("this request has no token");
  }
  return AdmitReader(options_.token, request.authorization.substr(sizeof(kBearer) - 1),
                     std::time(nullptr));
}

HttpAnswer StatusPages::Answer(const HttpRequest& request) const {
  if (request.method != "GET" && request.method != "HEAD") {
    return {405, "text/plain; charset=utf-8", "this port is read-only: GET\n"};
  }
  if (!options_.guarded && !IsOwnHost(request.host)) {
    return {403, "text/plain; charset=utf-8", "ask by the address, not by a name\n"};
  }
  if (request.path == "/") return {200, kHtml, StatusPage()};
  if (request.path != "/metrics" && request.path != "/status.json") {
    return {404, "text/plain; charset=utf-8", "here are /, /status.json and /metrics\n"};
  }
  if (const Status admitted = Admit(request); !admitted.ok()) {
    return {401, "text/plain; charset=utf-8",
            Message(admitted) + "\ngive a token of the job: Authorization: Bearer TOKEN\n"};
  }
  const StatusOr<v1::StatusResponse> status = options_.status();
  if (!status.ok()) {
    return {503, "text/plain; charset=utf-8", Message(status.status()) + "\n"};
  }
  if (request.path == "/metrics") return {200, kPrometheus, MetricsText(*status)};
  return {200, kJson, ToJson(*status, -1)};
}

}  // namespace ringwood

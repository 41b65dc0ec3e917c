#include "server/status/status_pages.h"

#include <ctime>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/net/endpoint.h"
#include "base/net/socket_address.h"
#include "proto/job_token.h"
#include "server/calls/call_guard.h"
#include "server/status/metrics.h"
#include "server/status/status_json.h"

namespace ringwood {
namespace {

constexpr char kBearer[] = "Bearer ";
constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kHtml[] = "text/html; charset=utf-8";
constexpr char kJson[] = "application/json";
constexpr char kPrometheus[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

bool IsOwnHost(const std::string& host) {
  const bool bare = host.ends_with(']');  // "[::1]" without a port
  const std::string name = HostOf(bare ? host + ":0" : host);
  return name == "localhost" || SocketAddress::Parse(name, 0).ok();
}

// The token that was brought, "" where none is needed.
StatusOr<std::string> StatusPages::Admit(const HttpRequest& request) const {
  if (!options_.guarded) return std::string();
  if (options_.token.empty() || !absl::StartsWithIgnoreCase(request.authorization, kBearer)) {
    return Denied("this request has no token");
  }
  const std::string token = request.authorization.substr(sizeof(kBearer) - 1);
  const std::string secret = options_.status_of ? SecretFor(options_.token, token) : options_.token;
  RW_RETURN_IF_ERROR(AdmitReader(secret, token, std::time(nullptr)));
  return token;
}

HttpAnswer StatusPages::Answer(const HttpRequest& request) const {
  if (request.method != "GET" && request.method != "HEAD") {
    return {405, kText, "this port is read-only: GET\n"};
  }
  if (!options_.guarded && !IsOwnHost(request.host)) {
    return {403, kText, "ask by the address, not by a name\n"};
  }
  if (request.path == "/") return {200, kHtml, StatusPage()};
  if (request.path != "/metrics" && request.path != "/status.json") {
    return {404, kText, "here are /, /status.json and /metrics\n"};
  }
  const StatusOr<std::string> token = Admit(request);
  if (token.ok()) return Show(request.path, *token);
  return {401, kText,
          Message(token.status()) + "\ngive a token of the job: Authorization: Bearer TOKEN\n"};
}

HttpAnswer StatusPages::Show(const std::string& path, const std::string& token) const {
  std::vector<v1::StatusResponse> shown;
  Status failed;
  if (options_.status_of) {
    auto statuses = options_.status_of(token);
    failed = statuses.status();
    if (statuses.ok()) shown = *std::move(statuses);
  } else {
    auto status = options_.status();
    failed = status.status();
    if (status.ok()) shown.push_back(*std::move(status));
  }
  if (!failed.ok()) return {503, kText, Message(failed) + "\n"};
  if (path == "/metrics") return {200, kPrometheus, MetricsText(shown)};
  if (options_.status_of && JobOfToken(token).empty()) {
    return {404, kText, "which job? Give a token of it; the deployment's shows /metrics\n"};
  }
  return {200, kJson, ToJson(shown.front(), -1)};
}

}  // namespace ringwood

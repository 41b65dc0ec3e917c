#include "base/net/endpoint.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/net/socket_address.h"

namespace ringwood {
namespace {

struct Parts {
  std::string_view host, port;
};

std::optional<Parts> Split(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  Parts parts{text.substr(0, colon), text.substr(colon + 1)};
  if (parts.host.size() > 2 && parts.host.front() == '[' && parts.host.back() == ']') {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
    if (parts.host.find_first_of("[]") == std::string_view::npos) return parts;
  } else if (parts.host.find_first_of(":[]") == std::string_view::npos) {
    return parts;
  }
  return std::nullopt;
}

}  // namespace

StatusOr<Endpoint> ParseEndpoint(const std::string& text) {
  const std::optional<Parts> parts = Split(text);
  Endpoint endpoint;
  bool good = parts.has_value();
  if (good) {
    endpoint.host = parts->host;
    const char* const end = parts->port.data() + parts->port.size();
    const auto [stop, error] = std::from_chars(parts->port.data(), end, endpoint.port);
    good = error == std::errc() && stop == end && endpoint.port >= 0 && endpoint.port <= 65535;
  }
  if (good) return endpoint;
  const bool bare = SocketAddress::Parse(text, 0).ok();
  return Invalid(absl::StrFormat(
      "\"%s\" is not HOST:PORT (port 0 to 65535%s)", text,
      bare && IsIpv6(text) ? "; an IPv6 address stands in brackets, as [fd00::1]:7070" : ""));
}

std::string ToString(const Endpoint& endpoint) {
  if (IsIpv6(endpoint.host)) return absl::StrFormat("[%s]:%d", endpoint.host, endpoint.port);
  return absl::StrFormat("%s:%d", endpoint.host, endpoint.port);
}

Status CheckEndpoints(const std::string& list) {
  for (const std::string& text : std::vector<std::string>(absl::StrSplit(list, ','))) {
    RW_RETURN_IF_ERROR(ParseEndpoint(text).status());
  }
  return OkStatus();
}

std::string HostOf(const std::string& endpoint) {
  const std::optional<Parts> parts = Split(endpoint);
  return parts ? std::string(parts->host) : endpoint;
}

bool IsLoopbackHost(const std::string& host) {
  if (host == "localhost") return true;
  const auto address = SocketAddress::Parse(host, 0);
  return address.ok() && address->is_loopback();
}

}  // namespace ringwood

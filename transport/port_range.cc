#include "transport/port_range.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/net/endpoint.h"
#include "base/net/socket_address.h"

namespace ringwood {

StatusOr<PortRange> ParsePortRange(const std::string& text) {
  PortRange range;
  if (text.empty()) return range;
  const char* const end = text.data() + text.size();
  const auto [dash, first] = std::from_chars(text.data(), end, range.first);
  if (first == std::errc() && dash != end && *dash == '-') {
    const auto [stop, last] = std::from_chars(dash + 1, end, range.last);
    const bool read = last == std::errc() && stop == end;
    if (read && range.first > 0 && range.first <= range.last) return range;
  }
  return Invalid("the port range \"" + text + "\" is not FIRST-LAST, as 20000-20099");
}

std::string ToString(const PortRange& range) {
  return range.any() ? "any" : absl::StrFormat("%d-%d", range.first, range.last);
}

std::vector<uint16_t> PortsToTry(const PortRange& range, uint64_t seed) {
  if (range.any()) return {0};
  const uint64_t count = range.last - range.first + 1u;
  std::vector<uint16_t> ports;
  for (uint64_t i = 0; i < count; ++i) {
    ports.push_back(static_cast<uint16_t>(range.first + (seed % count + i) % count));
  }
  return ports;
}

namespace {

StatusOr<uint16_t> Listen(const std::string& ip, uint16_t port, bool reuse) {
  RW_ASSIGN_OR_RETURN(const SocketAddress address, SocketAddress::Parse(ip, port));
  const int probe = BindTcp(address, reuse);
  const bool listens = probe >= 0 && listen(probe, 1) == 0;
  const int error = errno;
  const uint16_t taken = listens ? SocketAddress::OfSocket(probe).port() : 0;
  if (probe >= 0) close(probe);
  if (listens) return taken;
  if (error == EADDRINUSE) return Exhausted(absl::StrFormat("port %d on %s is in use", port, ip));
  if (error == EMFILE || error == ENFILE) {
    return Unavailable(std::string("cannot make a socket: ") + std::strerror(error));
  }
  return Refused(
      absl::StrFormat("cannot listen on %s: %s", ToString({ip, port}), std::strerror(error)));
}

}  // namespace

StatusOr<uint16_t> ProbePort(const std::string& ip, uint16_t port) {
  return Listen(ip, port, true);
}

bool IsFree(const std::string& ip, uint16_t port) { return Listen(ip, port, false).ok(); }

StatusOr<std::vector<uint16_t>> FreePorts(const PortRange& range, const std::string& ip,
                                          uint64_t seed, size_t count) {
  if (range.any()) return std::vector<uint16_t>{0};
  std::vector<uint16_t> ports;
  for (const uint16_t port : PortsToTry(range, seed)) {
    const auto free = ProbePort(ip, port);
    if (!free.ok() && free.status().code() != StatusCode::kResourceExhausted) return free.status();
    if (free.ok()) ports.push_back(*free);
    if (ports.size() == count) return ports;
  }
  return ShortOfPorts(range, ip, count);
}

Status ShortOfPorts(const PortRange& range, const std::string& ip, size_t needed) {
  int free = 0, kept = 0, used = 0;
  for (const uint16_t port : PortsToTry(range, 0)) {
    ++(IsFree(ip, port) ? free : ProbePort(ip, port).ok() ? kept : used);
  }
  std::string text = absl::StrFormat("%d of the ports %s on %s are needed, of which %d are in use",
                                     needed, ToString(range), ip, used);
  if (kept > 0) {
    text += absl::StrFormat(
        ", %d are kept for a minute by connections of processes that have ended", kept);
  }
  text += absl::StrFormat(
      " and %d are free: give a wider --port-range, two ports for each process of a host and one "
      "more for each server",
      free);
  return kept > 0 ? Unavailable(text) : Exhausted(text);
}

}  // namespace ringwood

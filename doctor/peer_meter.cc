#include "doctor/peer_meter.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/median.h"
#include "base/net/socket_address.h"
#include "base/random.h"
#include "doctor/peer_socket.h"

namespace ringwood {
namespace {

constexpr double kConnectSeconds = 5;
constexpr double kSecretSeconds = 2;  // a stranger holds the listener no longer
constexpr int kPings = 40;
constexpr int kWarmUp = 4;  // pings that are not counted
constexpr size_t kBlockBytes = 1 << 20;
constexpr uint64_t kFirstBytes = 256 << 10;
constexpr int kBacklog = 16;
constexpr double kLongestPollSeconds = 1;
// After a connection that could not be accepted, as where no descriptor is left: the listener stays
// readable meanwhile, so poll() would not wait.
constexpr double kAcceptPauseSeconds = 0.05;

#pragma pack(push, 1)
struct Request {
  char letter;
  uint64_t number;
};
#pragma pack(pop)

uint64_t WallNanoseconds() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

Status SendBytes(PeerSocket* peer, uint64_t bytes) {
  const std::vector<char> block(std::min<uint64_t>(bytes, kBlockBytes));
  for (uint64_t left = bytes; left > 0;) {
    const size_t now = std::min<uint64_t>(left, block.size());
    RW_RETURN_IF_ERROR(peer->Send(block.data(), now));
    left -= now;
  }
  return OkStatus();
}

Status ReceiveBytes(PeerSocket* peer, uint64_t bytes) {
  std::vector<char> block(std::min<uint64_t>(bytes, kBlockBytes));
  for (uint64_t left = bytes; left > 0;) {
    const size_t now = std::min<uint64_t>(left, block.size());
    RW_RETURN_IF_ERROR(peer->Receive(block.data(), now));
    left -= now;
  }
  return OkStatus();
}

Status Answer(PeerSocket* peer, const Request& request) {
  if (request.number > kMostMeasuredBytes) return Invalid("too many bytes are asked for");
  const uint64_t clock = WallNanoseconds();
  switch (request.letter) {
    case 'p':
      return peer->Send(&clock, sizeof clock);
    case 't':
      RW_RETURN_IF_ERROR(ReceiveBytes(peer, request.number));
      return peer->Send("", 1);
    case 'g':
      return SendBytes(peer, request.number);
    case 'l': {
      const double share = peer->lost_share();
      return peer->Send(&share, sizeof share);
    }
    default:
      return Invalid("no such request");
  }
}

// In a time that does not depend on where they differ.
bool SameSecret(const std::string& a, const std::string& b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return difference == 0;
}

void ServeConnection(PeerSocket peer, const std::string& token) {
  peer.SetDeadline(Now() + Seconds(kSecretSeconds));
  std::string said(token.size(), '\0');
  if (!peer.Receive(said.data(), said.size()).ok() || !SameSecret(said, token)) return;
  peer.SetDeadline(Now() + Seconds(kConnectionSeconds));
  Request request{};
  while (peer.Receive(&request, sizeof request).ok() && Answer(&peer, request).ok()) {
  }
}

std::string InterfaceOf(const std::string& address) {
  ifaddrs* list = nullptr;
  std::string name;
  if (::getifaddrs(&list) != 0) return name;
  for (const ifaddrs* nic = list; nic != nullptr; nic = nic->ifa_next) {
    if (nic->ifa_addr == nullptr) continue;
    const std::string own = SocketAddress::Of(nic->ifa_addr).ip();  // "": of no IP address
    if (!own.empty() && own == address) name = nic->ifa_name;
  }
  ::freeifaddrs(list);
  return name;
}

Status Ping(PeerSocket* peer, LinkFacts* link) {
  std::vector<double> trips;
  double shortest = HUGE_VAL;
  for (int i = 0; i < kWarmUp + kPings; ++i) {
    const Request request = {'p', 0};
    uint64_t theirs = 0;
    const uint64_t ours = WallNanoseconds();
    const TimePoint begin = Now();
    RW_RETURN_IF_ERROR(peer->Send(&request, sizeof request));
    RW_RETURN_IF_ERROR(peer->Receive(&theirs, sizeof theirs));
    const double trip = ToSeconds(Now() - begin);
    if (i < kWarmUp) continue;
    trips.push_back(trip);
    if (trip >= shortest) continue;
    // The answer was written between the two ends of the trip (RFC 5905, section 8).
    shortest = trip;
    link->clock_error = trip / 2;
    link->clock_offset = static_cast<double>(static_cast<int64_t>(theirs - ours)) * 1e-9 - trip / 2;
  }
  link->latency_seconds = Median(trips) / 2;
  return OkStatus();
}

// Longer transfers until one lasts as long as it should; its rate, without the round trip.
StatusOr<double> TransferRate(const std::function<Status(uint64_t bytes)>& transfer, double wanted,
                              double trip) {
  for (uint64_t bytes = kFirstBytes;;) {
    const TimePoint begin = Now();
    RW_RETURN_IF_ERROR(transfer(bytes));
    const double seconds = ToSeconds(Now() - begin);
    if (seconds >= wanted * 0.7 || bytes == kMostMeasuredBytes) {
      return static_cast<double>(bytes) / std::max(seconds - trip, 1e-6);
    }
    const double factor = std::clamp(wanted / std::max(seconds, 1e-6), 2.0, 16.0);
    bytes =
        std::min(kMostMeasuredBytes, static_cast<uint64_t>(static_cast<double>(bytes) * factor));
  }
}

Status Measure(PeerSocket* peer, const MeasureRequest& request, LinkFacts* link) {
  const auto send = [peer](uint64_t bytes) -> Status {
    const Request take = {'t', bytes};
    RW_RETURN_IF_ERROR(peer->Send(&take, sizeof take));
    RW_RETURN_IF_ERROR(SendBytes(peer, bytes));
    char done = 0;
    return peer->Receive(&done, 1);
  };
  const auto receive = [peer](uint64_t bytes) -> Status {
    const Request give = {'g', bytes};
    RW_RETURN_IF_ERROR(peer->Send(&give, sizeof give));
    return ReceiveBytes(peer, bytes);
  };
  RW_RETURN_IF_ERROR(peer->Send(request.token.data(), request.token.size()));
  RW_RETURN_IF_ERROR(Ping(peer, link));
  const double trip = 2 * link->latency_seconds;
  RW_ASSIGN_OR_RETURN(link->sent_rate, TransferRate(send, request.seconds, trip));
  RW_ASSIGN_OR_RETURN(link->received_rate, TransferRate(receive, request.seconds, trip));
  // Who sends again knows it, so of the way back the other host does.
  const Request lost = {'l', 0};
  double back = 0;
  RW_RETURN_IF_ERROR(peer->Send(&lost, sizeof lost));
  RW_RETURN_IF_ERROR(peer->Receive(&back, sizeof back));
  link->lost_share = std::max(peer->lost_share(), std::isfinite(back) ? back : 0);
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<PeerListener>> PeerListener::Open(const std::string& address,
                                                           const PortRange& ports,
                                                           const std::string& token) {
  RW_ASSIGN_OR_RETURN(SocketAddress name, SocketAddress::Parse(address, 0));
  for (const uint16_t port : PortsToTry(ports, Unpredictable())) {
    name.set_port(port);
    const int socket = BindTcp(name, true);
    // Not blocking: who asked to connect may have gone between poll and accept.
    if (socket >= 0 && ::fcntl(socket, F_SETFL, O_NONBLOCK) == 0 &&
        ListenTcp(socket, kBacklog) == 0) {
      return std::unique_ptr<PeerListener>(
          new PeerListener(socket, SocketAddress::OfSocket(socket).port(), token));
    }
    const int error = errno;
    if (socket >= 0) ::close(socket);
    if (error == EADDRINUSE) continue;
    return Unavailable(absl::StrFormat("cannot listen on %s: %s", address, std::strerror(error)));
  }
  return ShortOfPorts(ports, address, 1);
}

PeerListener::~PeerListener() { ::close(socket_); }

Status PeerListener::ServeOne(TimePoint deadline) {
  int shortage = 0;  // errno of the last try, where what was short may come back
  for (double left; (left = ToSeconds(deadline - Now())) > 0;) {
    pollfd wait = {socket_, POLLIN, 0};
    const double seconds = std::min(left, kLongestPollSeconds);
    const int ready = ::poll(&wait, 1, static_cast<int>(seconds * 1000) + 1);
    if (ready == 0) continue;
    const int descriptor = ready > 0 ? ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC) : -1;
    if (descriptor >= 0) {
      ServeConnection(PeerSocket(descriptor), token_);
      return OkStatus();
    }
    const int error = errno;
    if (error == EBADF || error == EINVAL || error == ENOTSOCK) {
      return Internal(std::string("the listener cannot accept: ") + std::strerror(error));
    }
    const bool is_short = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
    shortage = is_short ? error : 0;  // else this one connection was at fault (accept(2))
    std::this_thread::sleep_for(Seconds(std::min(left, kAcceptPauseSeconds)));
  }
  if (shortage == 0) return TimedOut("no other host has come to measure");
  return Exhausted(absl::StrFormat(
      "cannot accept a connection: %s; raise the limit of open files (ulimit -n) and see what "
      "else this host runs",
      std::strerror(shortage)));
}

Status PeerListener::Serve(TimePoint deadline) {
  for (;;) RW_RETURN_IF_ERROR(ServeOne(deadline));
}

LinkFacts MeasurePeer(const MeasureRequest& request) {
  LinkFacts link;
  link.from = request.from;
  link.to = request.to;
  StatusOr<PeerSocket> peer = PeerSocket::Connect(request.address, request.port, kConnectSeconds);
  if (!peer.ok()) {
    link.error = absl::StrFormat("%s cannot connect to %s: %s", request.from, request.to,
                                 Message(peer.status()));
    return link;
  }
  link.interface_name = InterfaceOf(peer->local_address());
  peer->SetDeadline(Now() + Seconds(kConnectionSeconds));
  const Status status = Measure(&*peer, request, &link);
  if (!status.ok()) {
    link.error = absl::StrFormat("the measurement from %s to %s ended: %s", request.from,
                                 request.to, Message(status));
    link.busy = true;
  }
  return link;
}

}  // namespace ringwood

#include "doctor/peer_socket.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/net/socket_address.h"

namespace ringwood {
namespace {

constexpr int kLongestPollMilliseconds = 1000;

}  // namespace

PeerSocket::PeerSocket(int descriptor) : descriptor_(descriptor) {
  const int on = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
}

PeerSocket::PeerSocket(PeerSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), deadline_(other.deadline_) {}

PeerSocket::~PeerSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

StatusOr<PeerSocket> PeerSocket::Connect(const std::string& address, int port, double seconds) {
  RW_ASSIGN_OR_RETURN(const SocketAddress name,
                      SocketAddress::Parse(address, static_cast<uint16_t>(port)));
  const int descriptor = ::socket(name.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return Exhausted(std::string("cannot make a socket: ") + strerror(errno));
  PeerSocket socket(descriptor);
  socket.SetDeadline(Now() + Seconds(seconds));
  const std::string where = absl::StrFormat("%s port %d", address, port);
  if (::connect(descriptor, name.name(), name.size()) != 0) {
    if (errno != EINPROGRESS) return Unavailable(where + ": " + std::strerror(errno));
    if (!socket.Wait(POLLOUT).ok()) {
      return Unavailable(absl::StrFormat("%s does not answer within %g s", where, seconds));
    }
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return Unavailable(where + ": " + std::strerror(error));
  }
  return StatusOr<PeerSocket>(std::move(socket));
}

Status PeerSocket::Wait(short events) {
  for (;;) {
    const double left = ToSeconds(deadline_ - Now());
    if (left <= 0) return TimedOut("the measurement took too long");
    pollfd wait = {descriptor_, events, 0};
    const int milliseconds =
        static_cast<int>(std::min(left * 1000 + 1, double{kLongestPollMilliseconds}));
    if (::poll(&wait, 1, milliseconds) > 0) return OkStatus();
  }
}

Status PeerSocket::Send(const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::send(descriptor_, next, bytes, MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      return Unavailable(std::string("the connection broke: ") + std::strerror(errno));
    }
    if (count < 0) RW_RETURN_IF_ERROR(Wait(POLLOUT));
    if (count <= 0) continue;
    next += count;
    bytes -= static_cast<size_t>(count);
  }
  return OkStatus();
}

Status PeerSocket::Receive(void* data, size_t bytes) {
  char* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::recv(descriptor_, next, bytes, 0);
    if (count == 0) return Unavailable("the other host closed the connection");
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      return Unavailable(std::string("the connection broke: ") + std::strerror(errno));
    }
    if (count < 0) RW_RETURN_IF_ERROR(Wait(POLLIN));
    if (count < 0) continue;
    next += count;
    bytes -= static_cast<size_t>(count);
  }
  return OkStatus();
}

std::string PeerSocket::local_address() const { return SocketAddress::OfSocket(descriptor_).ip(); }

double PeerSocket::lost_share() const {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(descriptor_, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;
  if (info.tcpi_data_segs_out == 0) return 0;
  return static_cast<double>(info.tcpi_total_retrans) / info.tcpi_data_segs_out;
}

}  // namespace ringwood

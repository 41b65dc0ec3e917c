// A relay to a port of loopback that stands still when a test says so, as a process does that is
// stopped: connections are accepted, and nothing is answered.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <limits>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"

namespace ringwood {

class StillRelay {
 public:
  explicit StillRelay(int port) : port_(port) {
    sockaddr_in here = At(0);
    socklen_t size = sizeof here;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&here), size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&here), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(here.sin_port));
  }
  ~StillRelay() {
    ended_ = true;
    if (forwarding_.joinable()) forwarding_.join();
    ::close(listener_);
  }

  const std::string& address() const { return address_; }

  // The first connection is forwarded, once its caller has waited so long for an answer, and until
  // so many bytes of the caller's have been.
  void Forward(double still_seconds, size_t bytes = std::numeric_limits<size_t>::max()) {
    forwarding_ = std::thread([this, still_seconds, bytes] { Run(still_seconds, bytes); });
  }
  void AwaitStill() { still_.WaitForNotification(); }

 private:
  static sockaddr_in At(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  static bool Readable(int descriptor) {
    pollfd wait{descriptor, POLLIN, 0};
    return ::poll(&wait, 1, 1) == 1;
  }
  // False: the other end is closed.
  static bool Pass(int from, int to, size_t* passed) {
    std::array<char, 65536> bytes;
    const ssize_t got = ::read(from, bytes.data(), bytes.size());
    if (got <= 0) return false;
    for (ssize_t done = 0; done < got;) {
      const ssize_t sent = ::send(to, bytes.data() + done, got - done, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      done += sent;
    }
    *passed += got;
    return true;
  }

  void Run(double still_seconds, size_t limit) {
    while (!ended_ && !Readable(listener_)) continue;
    if (ended_) return;
    const int caller = ::accept(listener_, nullptr, nullptr);
    ::usleep(static_cast<useconds_t>(1e6 * still_seconds));
    const int server = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in there = At(port_);
    EXPECT_EQ(::connect(server, reinterpret_cast<const sockaddr*>(&there), sizeof there), 0);
    size_t asked = 0, answered = 0;
    for (bool open = true; open && !ended_ && asked < limit;) {
      if (Readable(caller)) open = Pass(caller, server, &asked);
      if (open && Readable(server)) open = Pass(server, caller, &answered);
    }
    still_.Notify();
    while (!ended_) ::usleep(1000);
    ::close(caller);
    ::close(server);
  }

  const int port_;
  const int listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
  std::string address_;
  std::atomic<bool> ended_{false};
  absl::Notification still_;
  std::thread forwarding_;
};

}  // namespace ringwood

// A connected TCP socket on which whole messages are sent and received, with a deadline for all.
#pragma once

#include <cstddef>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace ringwood {

class PeerSocket {
 public:
  // `address` is an IP address. Unavailable: refused, or not answered within `seconds`.
  static StatusOr<PeerSocket> Connect(const std::string& address, int port, double seconds);
  // Takes over an accepted one.
  explicit PeerSocket(int descriptor);
  PeerSocket(PeerSocket&& other) noexcept;
  PeerSocket& operator=(PeerSocket&&) = delete;
  ~PeerSocket();

  // For everything that follows.
  void SetDeadline(TimePoint deadline) { deadline_ = deadline; }

  // Unavailable: the other end closed; TimedOut: the deadline passed.
  Status Send(const void* data, size_t bytes);
  Status Receive(void* data, size_t bytes);

  std::string local_address() const;  // the IP address that the kernel chose by its routes
  double lost_share() const;  // of the segments with data sent, the part that was sent again

 private:
  Status Wait(short events);

  int descriptor_;
  TimePoint deadline_ = TimePoint::max();
};

}  // namespace ringwood

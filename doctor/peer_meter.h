// Latency, rate and clock offset between two hosts over a plain TCP connection: what the network
// can do, whatever transport a job takes.
//
// The listening host serves one connection at a time. Whoever connects says the job's token first;
// strangers are dropped. Then requests of nine bytes, a letter and a number n (least significant
// byte first):
//   'p'  answered with the wall clock, in nanoseconds since 1970
//   't'  n bytes follow; answered with one byte when they are all there
//   'g'  answered with n bytes
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "doctor/facts.h"
#include "transport/port_range.h"

namespace ringwood {

// Most bytes of one request, and most seconds of one connection: whoever knows the token can keep
// the host no longer.
constexpr uint64_t kMostMeasuredBytes = 512 << 20;
constexpr double kConnectionSeconds = 30;

class PeerListener {
 public:
  // At `address`, on the first free port of the range.
  static StatusOr<std::unique_ptr<PeerListener>> Open(const std::string& address,
                                                      const PortRange& ports,
                                                      const std::string& token);
  ~PeerListener();

  int port() const { return port_; }
  // Waits for a connection and serves it to its end. TimedOut: none came by the deadline.
  // Exhausted: one came, and until the deadline this host had no descriptor or memory for it.
  Status ServeOne(TimePoint deadline);
  // One after the other, until one of these errors.
  Status Serve(TimePoint deadline);

 private:
  PeerListener(int socket, int port, std::string token)
      : socket_(socket), port_(port), token_(std::move(token)) {}

  const int socket_;
  const int port_;
  const std::string token_;
};

struct MeasureRequest {
  std::string from, to;  // the launcher's names
  std::string address;   // of the listener
  int port = 0;
  std::string token;
  double seconds = 0.2;  // a transfer is to last so long
};

// Blocks for about a second; at most kConnectionSeconds. What fails stands in the facts.
LinkFacts MeasurePeer(const MeasureRequest& request);

}  // namespace ringwood

// How long a node may sleep before it polls its network library again, while long messages stream:
// on a slow network interface, waking for every few packets costs more than handling the bytes.
//
// A nap is half of the time between two messages, so that the chunks in flight hide it. There is
// none where messages come faster than every kLeastGap: there the processor is the limit.
#pragma once

#include <optional>

#include "base/clock.h"

namespace ringwood {

class PollPacer {
 public:
  static constexpr uint64_t kLongBytes = 128 << 10;  // messages shorter than this are not waited on
  // Naps need so many awaited long messages, and nothing else awaited: a single message may hold up
  // the next step of a peer.
  static constexpr int kFewestAwaited = 3;
  static constexpr Duration kLeastGap = std::chrono::microseconds(1500);  // 256 KiB at 1.4 Gbit/s
  static constexpr Duration kLongestNap = std::chrono::milliseconds(1);

  // A long message arrived while enough of them were awaited.
  void Arrived(TimePoint now);
  // Too few are awaited: the next arrival does not show the rate.
  void Interrupt() { last_.reset(); }
  // Zero until a rate is known.
  Duration Nap() const;

 private:
  std::optional<TimePoint> last_;
  std::optional<Duration> gap_;  // between arrivals, smoothed over about eight
};

}  // namespace ringwood

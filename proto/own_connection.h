// A gRPC connection that a process of a job has for itself: not shared by address inside the
// process, and not through a proxy that the environment names.
#pragma once

#include <grpcpp/grpcpp.h>

#include <optional>

#include "base/clock.h"

namespace ringwood {

// How a channel goes on trying to connect.
struct Reconnection {
  // Between two attempts, growing from the first, which is 100 at least, to the longest.
  int first_pause_milliseconds;
  int longest_pause_milliseconds;
  // For an attempt that gets no answer at all, as while its host is away.
  int attempt_milliseconds;
};

// To a server that may be started again: several attempts a second.
inline constexpr Reconnection kEagerReconnection{100, 200, 2000};

struct OwnConnection {
  // To a server that may be started again, and may stand still for a while, as a process does that
  // is stopped, or whose host swaps: only after so much silence it is given up, be it connected or
  // not. A call that is cancelled may wait so long, too: for bytes that TCP does not get rid of.
  static OwnConnection Patient(Duration silence);

  // The server is pinged, so that one that is stopped or cut off for so long (2 s at least) is
  // noticed. Nothing: it is not.
  std::optional<Duration> silence = std::nullopt;
  // Nothing: as gRPC does it, with pauses of 1 s to 2 min.
  std::optional<Reconnection> reconnection = std::nullopt;

  grpc::ChannelArguments Arguments() const;
};

// Until a channel knows that the connection of a call broke.
inline constexpr double kBreakSeconds = 0.2;

// Whether a call that has just ended did so because its connection broke, of which the call hears
// before the channel does. Waits for that moment, at most kBreakSeconds.
bool ConnectionBroke(grpc::Channel* channel);

}  // namespace ringwood

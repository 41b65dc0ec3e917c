// The listening socket of a server. It accepts by itself and hands connections to gRPC, whose own
// listener falls silent for good when the process once has no descriptor left.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/loop.h"
#include "base/status.h"

namespace ringwood {

struct FrontDoorOptions {
  Duration silence = Seconds(5);  // bytes that nobody acknowledges for so long end a connection
  int reserve = 0;  // descriptors that connections leave to the store and the rest of the process
};

// Raises the soft limit of open descriptors to the hard one; how many there may be.
int RaiseDescriptorLimit();

class FrontDoor {
 public:
  // Listens at an IPv4 "ADDRESS:PORT", port 0: the kernel's choice. Connections wait until Begin.
  // Refused: why it cannot be had, in words, and the remedy.
  static StatusOr<std::unique_ptr<FrontDoor>> Open(const std::string& address,
                                                   const FrontDoorOptions& options);
  ~FrontDoor();  // closes it; connections that were taken live on

  int port() const { return port_; }

  // From now on `take` gets each connection and owns it; on a thread of the door's. The kernel
  // gives the lowest free number: one that is within the reserve shows that the others are used up,
  // and is closed at once.
  void Begin(std::function<void(int connection)> take);

 private:
  class Listening;
  FrontDoor(int listener, int port, const FrontDoorOptions& options);

  int port_;
  std::unique_ptr<Listening> listening_;  // touched on loop_
  Loop loop_;
};

}  // namespace ringwood

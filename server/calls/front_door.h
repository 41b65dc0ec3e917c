// The listening socket of a server. It accepts connections itself and passes them to gRPC, whose
// own listener stops for good once the process has run out of descriptors.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/loop.h"
#include "base/status.h"

namespace ringwood {

struct FrontDoorOptions {
  Duration silence =
      Seconds(5);   // a connection ends when sent bytes stay unacknowledged for so long
  int reserve = 0;  // descriptors that connections leave to the store and the rest of the process
};

// Raises the soft limit of open descriptors to the hard one; returns the limit.
int RaiseDescriptorLimit();

class FrontDoor {
 public:
  // Takes an "ADDRESS:PORT" with an IP address, port 0: the kernel's choice. Connections are
  // refused until Listen. Refused: why the address cannot be used, and how to fix it.
  static StatusOr<std::unique_ptr<FrontDoor>> Open(const std::string& address,
                                                   const FrontDoorOptions& options);
  ~FrontDoor();  // closes it; accepted connections live on

  int port() const { return port_; }

  // From now on connections wait until Begin. Errors as for Open; once.
  Status Listen();

  // From now on `take` gets each connection and owns it; on a thread of this object's. The kernel
  // assigns the lowest free descriptor: a number within the reserve shows that the others are in
  // use, and that connection is closed at once.
  void Begin(std::function<void(int connection)> take);

 private:
  class Listening;
  FrontDoor(int listener, const std::string& address, int port, const FrontDoorOptions& options);

  const std::string address_;
  const int port_;
  const int listener_;                    // listening_ owns it
  std::unique_ptr<Listening> listening_;  // touched on loop_
  Loop loop_;
};

}  // namespace ringwood

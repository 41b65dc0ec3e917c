#include "server/calls/front_door.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/net/endpoint.h"
#include "base/net/socket_address.h"
#include "transport/refusals.h"

namespace ringwood {
namespace {

// The largest world has three connections a member; more descriptors than this are never filled by
// connections.
constexpr int kMostDescriptors = 16 << 10;
constexpr int kBacklog = 4096;         // a world that starts at once; the kernel may cut it
constexpr int kMostAtOnce = 64;        // accepted between two looks at the mailbox
constexpr double kPauseSeconds = 0.1;  // until the next try when no descriptor was left
constexpr double kDoorSeconds = 10;    // a task on the loop, which never blocks

StatusOr<SocketAddress> ParseAddress(const std::string& text) {
  RW_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(text));
  auto address = SocketAddress::Parse(endpoint.host, static_cast<uint16_t>(endpoint.port));
  if (!address.ok()) return Annotate(address.status(), "cannot listen on " + text);
  return address;
}

Status WhyNot(const std::string& address, int error) {
  if (error == EADDRINUSE) {
    return Refused(
        "cannot listen on " + address +
        ": the port is in use: stop the server that holds it, or choose another --listen");
  }
  return Refused("cannot listen on " + address + ": " + std::strerror(error));
}

}  // namespace

int RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlim_t before = std::exchange(limit.rlim_cur, limit.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  }
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, kMostDescriptors));
}

class FrontDoor::Listening : public Loop::Source {
 public:
  Listening(int listener, int most) : listener_(listener), most_(most) {}
  ~Listening() override { close(listener_); }

  int Descriptor() const override { return listener_; }
  bool Arm() override { return true; }

  bool Progress() override {
    for (int i = 0; i < kMostAtOnce; ++i) {
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (connection < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) Pause(errno);
        return i > 0;
      }
      if (connection < most_) {
        take_(connection);
      } else {
        close(connection);
        Complain("no connection beyond descriptor " + std::to_string(most_) +
                 " is taken: raise the limit of open files (ulimit -Hn)");
      }
    }
    return true;
  }

  // On loop.
  void Begin(Loop* loop, std::function<void(int)> take) {
    loop_ = loop;
    take_ = std::move(take);
    loop_->Attach(this);
  }
  void End() {
    if (loop_ == nullptr) return;
    loop_->Detach(this);
    ended_ = true;
  }

 private:
  // The connection stays in the kernel's queue; the descriptor would wake us for it at once.
  void Pause(int error) {
    Complain(std::strerror(error));
    loop_->Detach(this);
    loop_->After(Seconds(kPauseSeconds), [this] {
      if (!ended_) loop_->Attach(this);
    });
  }
  void Complain(const std::string& why) {
    refusals_.Say("a connection could not be taken: " + why, Now());
  }

  const int listener_;
  const int most_;  // descriptors below it may be connections
  Loop* loop_ = nullptr;
  std::function<void(int)> take_;
  bool ended_ = false;
  Refusals refusals_;
};

StatusOr<std::unique_ptr<FrontDoor>> FrontDoor::Open(const std::string& address,
                                                     const FrontDoorOptions& options) {
  RW_ASSIGN_OR_RETURN(const SocketAddress place, ParseAddress(address));
  const int listener = BindTcp(place, true);
  if (listener < 0) return WhyNot(address, errno);
  const int on = 1;
  const int silence = static_cast<int>(1000 * ToSeconds(options.silence));
  fcntl(listener, F_SETFL, fcntl(listener, F_GETFL) | O_NONBLOCK);
  setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // connections inherit both
  setsockopt(listener, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence, sizeof silence);
  return std::unique_ptr<FrontDoor>(
      new FrontDoor(listener, address, SocketAddress::OfSocket(listener).port(), options));
}

Status FrontDoor::Listen() {
  return ListenTcp(listener_, kBacklog) == 0 ? OkStatus() : WhyNot(address_, errno);
}

FrontDoor::FrontDoor(int listener, const std::string& address, int port,
                     const FrontDoorOptions& options)
    : address_(address),
      port_(port),
      listener_(listener),
      listening_(std::make_unique<Listening>(listener, RaiseDescriptorLimit() - options.reserve)),
      loop_("door") {}

FrontDoor::~FrontDoor() {
  const Status ended =
      loop_.Call([this] { return listening_->End(), OkStatus(); }, Seconds(kDoorSeconds));
  RW_CHECK(ended.ok());
}

void FrontDoor::Begin(std::function<void(int)> take) {
  loop_.Post([this, take = std::move(take)] { listening_->Begin(&loop_, take); });
}

}  // namespace ringwood

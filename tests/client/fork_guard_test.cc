#include "client/c/fork_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <vector>

namespace ringwood {
namespace {

using ::testing::Contains;
using ::testing::Not;

// A listener on a port of its own, in an epoll set.
struct Watched {
  Watched() : set(epoll_create1(EPOLL_CLOEXEC)), socket(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
    EXPECT_EQ(listen(socket, 1), 0);
    epoll_event event{};
    event.events = EPOLLIN;
    EXPECT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, socket, &event), 0);
  }
  ~Watched() {
    close(socket);
    close(set);
  }
  const int set;
  const int socket;
};

bool IsSocket(int descriptor) {
  struct stat file;
  return fstat(descriptor, &file) == 0 && S_ISSOCK(file.st_mode);
}

bool IsOpen(int descriptor) {
  struct stat file;
  return fstat(descriptor, &file) == 0;
}

bool HoldsInChild(const std::function<bool()>& condition) {
  const pid_t child = fork();
  if (child == 0) _exit(condition() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status == 0;
}

TEST(ForkGuard, AChildHasNothingInThePlaceOfAGuardedSocket) {
  const Watched others;
  const std::vector<int> before = EpollSets();
  const Watched ours;
  EXPECT_THAT(before, Contains(others.set));
  EXPECT_THAT(before, Not(Contains(ours.set)));
  EXPECT_TRUE(HoldsInChild([&] { return IsSocket(ours.socket); }));
  GuardEpollSetsSince(before);
  EXPECT_TRUE(HoldsInChild([&] { return IsOpen(ours.socket) && !IsSocket(ours.socket); }));
  EXPECT_TRUE(HoldsInChild([&] { return IsSocket(others.socket); }));
  EXPECT_TRUE(IsSocket(ours.socket));  // the parent goes on
}

TEST(ForkGuard, ASocketThatCameLaterIsFoundToo) {
  const std::vector<int> before = EpollSets();
  const Watched ours;
  GuardEpollSetsSince(before);
  const Watched later;
  epoll_event event{};
  ASSERT_EQ(epoll_ctl(ours.set, EPOLL_CTL_ADD, later.socket, &event), 0);
  EXPECT_TRUE(HoldsInChild([&] { return !IsSocket(later.socket); }));
}

TEST(ForkGuard, ASetThatWasClosedIsForgotten) {
  int number = -1;
  {
    const std::vector<int> before = EpollSets();
    const Watched ours;
    GuardEpollSetsSince(before);
    number = ours.set;
  }
  ForgetClosedEpollSets();
  const Watched next;  // gets the lowest free number, which was the set's
  EXPECT_EQ(next.set, number);
  EXPECT_TRUE(HoldsInChild([&] { return IsSocket(next.socket); }));
}

}  // namespace
}  // namespace ringwood

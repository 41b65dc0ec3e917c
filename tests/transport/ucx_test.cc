// What only real processes show: death without a word, settings, refusals.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <thread>

#include "tests/transport/world.h"
#include "transport/interface.h"
#include "transport/ucx/listener.h"
#include "transport/ucx/neighbour.h"
#include "transport/ucx/sender.h"

namespace ringwood {
namespace {

// A process of its own with a UCX node: reads the peers' addresses from `in`, writes its own.
struct Child {
  pid_t pid = -1;
  int in = -1;   // we write
  int out = -1;  // we read
};

void WriteAddress(int fd, const std::string& address) {
  const uint32_t size = static_cast<uint32_t>(address.size());
  RW_CHECK(write(fd, &size, sizeof size) == sizeof size);
  RW_CHECK(write(fd, address.data(), size) == static_cast<ssize_t>(size));
}

// Waits at most 20 s for every byte.
std::string ReadAddress(int fd) {
  const auto read_all = [fd](void* into, size_t size) {
    for (size_t got = 0; got < size;) {
      pollfd wait{fd, POLLIN, 0};
      RW_CHECK(poll(&wait, 1, 20'000) == 1);
      const ssize_t n = read(fd, static_cast<char*>(into) + got, size - got);
      RW_CHECK(n > 0);
      got += n;
    }
  };
  uint32_t size = 0;
  read_all(&size, sizeof size);
  std::string address(size, 0);
  read_all(address.data(), size);
  return address;
}

constexpr size_t kLong = 1 << 20;
constexpr uint32_t kGo = 9;  // chunks: rank 0's word, and what a child answers
constexpr uint32_t kPayload = 10, kMarker = 11;

MessageName Chunk(uint32_t chunk) { return {Lane::kDense, 1, 0, chunk, 0}; }

// The child joins as `rank` of 3 on one host, sends one message to rank 0 and then sleeps until it
// is killed; when rank 0 says go it sends a long one, which it only announces, and a short one.
[[noreturn]] void RunChild(int rank, int in, int out) {
  Loop loop("child");
  auto fabric = MakeUcxFabric(&loop, {});
  RW_CHECK(fabric.ok());
  WriteAddress(out, (*fabric)->Address());
  std::vector<Peer> peers;
  for (int i = 0; i < 3; ++i) {
    peers.push_back({i, absl::StrFormat("rank %d", i), ReadAddress(in), "h"});
  }
  std::unique_ptr<Transport> transport;
  std::vector<std::byte> payload(1000, std::byte{5}), go(1), whole(kLong, std::byte{6});
  RW_CHECK(loop.Call(
                   [&]() -> Status {
                     RW_ASSIGN_OR_RETURN(transport,
                                         (*fabric)->Connect({World::kJob, 1, rank}, peers, {}));
                     transport->Send(0, Chunk(0), {7, 0, 1000}, payload, [](Status) {});
                     transport->Receive(0, Chunk(kGo), {7, 0, 1}, go, [&](auto, const Frame&) {
                       transport->Send(0, Chunk(kPayload), {7, 0, kLong}, whole, [](Status) {});
                       transport->Send(0, Chunk(kMarker), {7, 0, 1000}, payload, [](Status) {});
                     });
                     return OkStatus();
                   },
                   Seconds(20))
               .ok());
  while (true) pause();
}

Child Start(int rank) {
  int down[2], up[2];
  RW_CHECK(pipe2(down, O_CLOEXEC) == 0 && pipe2(up, O_CLOEXEC) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    close(down[1]);
    close(up[0]);
    RunChild(rank, down[0], up[1]);
  }
  close(down[0]);
  close(up[1]);
  return {pid, down[1], up[0]};
}

TEST(UcxProcesses, AKilledPeerIsNamedAndSoIsAStoppedOne) {
  Child children[3];
  for (int rank : {1, 2}) children[rank] = Start(rank);  // before this process has threads
  Loop loop("rank0");
  auto fabric = MakeUcxFabric(&loop, {});
  ASSERT_TRUE(fabric.ok()) << Message(fabric.status());
  std::vector<Peer> peers = {{0, "rank 0", (*fabric)->Address(), "h"}};
  for (int rank : {1, 2}) {
    peers.push_back({rank, absl::StrFormat("rank %d", rank), ReadAddress(children[rank].out), "h"});
  }
  for (int rank : {1, 2}) {
    for (const Peer& peer : peers) WriteAddress(children[rank].in, peer.address);
  }
  std::unique_ptr<Transport> transport;
  std::vector<std::byte> into[4];
  for (auto& buffer : into) buffer.resize(1000);
  Answer hello[2], waiting[2];
  const auto on_loop = [&loop](const std::function<void()>& task) {
    RW_CHECK(loop.Call(
                     [&] {
                       task();
                       return OkStatus();
                     },
                     Seconds(20))
                 .ok());
  };
  on_loop([&] {
    FabricLimits limits;
    limits.silence_seconds = 3;
    auto made = (*fabric)->Connect({World::kJob, 1, 0}, peers, limits);
    ASSERT_TRUE(made.ok());
    transport = std::move(*made);
    for (int i : {0, 1}) {
      transport->Receive(i + 1, {Lane::kDense, 1, 0, 0, 0}, {7, 0, 0}, into[i],
                         hello[i].ForReceive());
      transport->Receive(i + 1, {Lane::kDense, 1, 0, 1, 0}, {7, 0, 0}, into[2 + i],
                         waiting[i].ForReceive());
    }
  });
  EXPECT_TRUE(hello[0].Wait().ok()) << Message(hello[0].status);
  EXPECT_TRUE(hello[1].Wait().ok()) << Message(hello[1].status);
  // Rank 1 is killed when its long payload was announced and not yet read.
  Answer word, marker, lost;
  std::vector<std::byte> one(1), short_one(1000), never(kLong);
  on_loop([&] {
    transport->Send(1, Chunk(kGo), {7, 0, 1}, one, word.ForSend());
    transport->Receive(1, Chunk(kMarker), {7, 0, 0}, short_one, marker.ForReceive());
  });
  ASSERT_TRUE(marker.Wait().ok()) << Message(marker.status);
  kill(children[2].pid, SIGSTOP);
  kill(children[1].pid, SIGKILL);
  EXPECT_EQ(waiting[0].Wait().code(), StatusCode::kUnavailable);
  EXPECT_NE(Message(waiting[0].status).find("rank 1 died"), std::string::npos);
  on_loop([&] { transport->Receive(1, Chunk(kPayload), {7, 0, 0}, never, lost.ForReceive()); });
  EXPECT_EQ(lost.Wait().code(), StatusCode::kUnavailable) << Message(lost.status);
  EXPECT_EQ(waiting[1].Wait().code(), StatusCode::kDeadlineExceeded);  // TCP alone says nothing
  EXPECT_NE(Message(waiting[1].status).find("rank 2 has not answered"), std::string::npos)
      << Message(waiting[1].status);
  on_loop([&] { transport->Close(Unavailable("rank 2 fell silent")); });  // is not held by it
  on_loop([&] {
    transport.reset();
    fabric->reset();
  });
  for (int rank : {1, 2}) {
    kill(children[rank].pid, SIGKILL);
    waitpid(children[rank].pid, nullptr, 0);
    close(children[rank].in);
    close(children[rank].out);
  }
}

TEST(UcxFabric, RefusesANetworkThatNobodyDeclaredPrivate) {
  const auto interface = ChooseInterface("^lo");
  if (!interface.ok()) GTEST_SKIP() << "this machine has only loopback";
  Loop loop("test");
  const auto fabric = MakeUcxFabric(&loop, {*interface, false, {}});
  EXPECT_EQ(fabric.status().code(), StatusCode::kPermissionDenied);
  EXPECT_NE(Message(fabric.status()).find("--trusted-fabric"), std::string::npos);
}

TEST(UcxFabric, AnUnknownInterfaceIsAnErrorThatListsTheKnownOnes) {
  Loop loop("test");
  const auto fabric = MakeUcxFabric(&loop, {"nosuch0", true, {}});
  EXPECT_EQ(fabric.status().code(), StatusCode::kNotFound);
  EXPECT_NE(Message(fabric.status()).find("lo"), std::string::npos);
}

// The calling thread's network is one with loopback alone, which has only ::1. False: not allowed.
bool EnterLoopbackOfOnlyIpv6() {
  if (unshare(CLONE_NEWNET) != 0) return false;
  const int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
  ifreq lo{};
  std::strcpy(lo.ifr_name, "lo");
  lo.ifr_flags = IFF_UP;
  RW_CHECK(ioctl(socket, SIOCSIFFLAGS, &lo) == 0);
  lo.ifr_addr = {AF_INET, {}};  // none
  RW_CHECK(ioctl(socket, SIOCSIFADDR, &lo) == 0);
  close(socket);
  return true;
}

TEST(UcxFabric, AnInterfaceThatUcxCannotUseIsAnErrorWithARemedy) {
  bool entered = false;
  Status status;
  std::thread([&] {
    entered = EnterLoopbackOfOnlyIpv6();
    if (!entered) return;
    Loop loop("test");
    status = MakeUcxFabric(&loop, {"lo", false, {}}).status();
  }).join();
  if (!entered) GTEST_SKIP() << "a network of its own needs root";
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(Message(status).find("lo (::1)"), std::string::npos) << Message(status);
  EXPECT_NE(Message(status).find("--transport grpc"), std::string::npos) << Message(status);
}

double ProcessorSeconds() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// Busy polling would use all of every second; connections settle in one of the first.
TEST(UcxFabric, AnIdleNodeUsesNoProcessorTime) {
  World world(Kind::kUcx, 4);
  std::vector<std::byte> into(10);
  std::vector<Answer> pending(4);
  for (int i = 0; i < 4; ++i) {
    world.Run(i, [&] {
      world.transport(i)->Receive((i + 1) % 4, {}, {7, 0, 0}, into, pending[i].ForReceive());
    });
  }
  absl::SleepFor(absl::Milliseconds(300));
  double used = 1;
  for (int second = 0; second < 10 && used >= 0.1; ++second) {
    const double before = ProcessorSeconds();
    absl::SleepFor(absl::Seconds(1));
    used = ProcessorSeconds() - before;
  }
  EXPECT_LT(used, 0.1);
  for (int i = 0; i < 4; ++i) world.Close(i, Aborted("over"));
}

TEST(UcxSender, KeepsABoundedNumberOfMessagesForAPeerThatDoesNotConnect) {
  constexpr size_t kMost = UcxSender::kMaxWaiting;
  std::vector<Status> answers;  // of the sends, in the order in which they come
  World world(Kind::kUcx, 2, false);
  world.Connect(1);  // it waits for rank 0, whose part it is to connect
  world.Run(1, [&] {
    for (size_t i = 0; i < kMost + 2; ++i) {
      world.transport(1)->Send(0, Chunk(static_cast<uint32_t>(i)), {}, {},
                               [&](const Status& status) { answers.push_back(status); });
    }
  });
  // Answers run between two turns of the loop, soon.
  const TimePoint deadline = Now() + Seconds(20);
  for (size_t count = 0; count == 0 && Now() < deadline;) {
    world.Run(1, [&] { count = answers.size(); });
  }
  world.Run(1, [&] {
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_EQ(answers[0].code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(Message(answers[0]), testing::HasSubstr("messages wait for rank 0 (host h0)"));
  });
  world.Close(1, Aborted("enough"));
  EXPECT_EQ(answers.size(), kMost + 2);
}

TEST(UcxAddress, IsOfEitherFamily) {
  for (const char* text : {"10.78.0.1 40123 9f86d081884c7d65 4711 55d0c0ffee00",
                           "fd00::1 40123 9f86d081884c7d65 4711 55d0c0ffee00"}) {
    const auto address = ParseUcxAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(Format(*address), text);
  }
  const std::string longest = "1111:2222:3333:4444:5555:6666:255.255.255.255";
  EXPECT_EQ(ParseUcxAddress(longest + " 1 1")->socket.port(), 1);
  for (const std::string& text :
       {std::string("h1 40123 1"), std::string("[fd00::1] 40123 1"), longest + "5 1 1",
        std::string("fd00::1 0 1"), std::string("fd00::1 65536 1")}) {
    EXPECT_EQ(ParseUcxAddress(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(Interface, AddressesThatPassAreNotThoseOfOthers) {
  const std::string table =
      "00000000000000000000000000000001 01 80 10 80       lo\n"
      "fd790000000000000000000000000001 02 40 00 82     eth0\n"  // permanent
      "fd790000000000000000000000000002 02 40 00 01     eth0\n"  // temporary
      "fd790000000000000000000000000003 02 40 00 a0     eth0\n"  // deprecated
      "fd790000000000000000000000000004 02 40 00 c0     eth0\n"  // tentative
      "fd79 02 40 00 c0 eth0\nbroken\n";
  EXPECT_EQ(PassingAddresses(table), (std::set<std::string>{"fd79::2", "fd79::3", "fd79::4"}));
}

TEST(Interface, FollowsTheNotationOfNccl) {
  EXPECT_EQ(InterfaceAddress("lo").value(), "127.0.0.1");
  EXPECT_TRUE(IsLoopback("lo").value());
  EXPECT_EQ(ChooseInterface("lo").value(), "lo");
  EXPECT_EQ(ChooseInterface("=lo").value(), "lo");
  EXPECT_EQ(ChooseInterface("nosuch,l").value(), "lo");
  EXPECT_EQ(ChooseInterface("=l").status().code(), StatusCode::kNotFound);
  const auto other = ChooseInterface("^lo");
  EXPECT_TRUE(!other.ok() || *other != "lo");
  EXPECT_TRUE(ChooseInterface("").ok());
}

TEST(Neighbour, MemoryIsReadWhereTheCookieIsFoundOnly) {
  const uint64_t cookie = 0x9f86d081884c7d65;
  const auto address = reinterpret_cast<uint64_t>(&cookie);
  EXPECT_TRUE(HasCookie(getpid(), address, cookie));
  EXPECT_FALSE(HasCookie(getpid(), address, cookie + 1));
  EXPECT_FALSE(HasCookie(getpid(), 8, cookie));       // no memory of ours
  EXPECT_FALSE(HasCookie(1 << 29, address, cookie));  // no process
  EXPECT_FALSE(HasCookie(0, address, cookie));
  std::byte into[4];
  const Status gone = ReadMemory(1 << 29, address, into);
  EXPECT_EQ(gone.code(), StatusCode::kUnavailable);
  EXPECT_NE(Message(gone).find("process 536870912 on this host is gone"), std::string::npos);
  const std::string wrong = Message(ReadMemory(getpid(), 8, into));
  EXPECT_NE(wrong.find("read 4 bytes of process"), std::string::npos) << wrong;
}

TEST(Neighbour, APayloadSettlesOnceWhetherItIsReadOrDropped) {
  const auto payload = std::vector<std::byte>(100, std::byte{3});
  const Announcement announcement{reinterpret_cast<uint64_t>(payload.data()), 1};
  int settled = 0;
  std::vector<std::byte> into(100);
  {
    NeighbourPayload read(getpid(), announcement, [&] { ++settled; });
    read.Fetch(into, [](Status status) { EXPECT_TRUE(status.ok()) << Message(status); });
    EXPECT_EQ(settled, 1);
    NeighbourPayload dropped(getpid(), announcement, [&] { ++settled; });
  }
  EXPECT_EQ(settled, 2);
  EXPECT_EQ(into, payload);
}

}  // namespace
}  // namespace ringwood

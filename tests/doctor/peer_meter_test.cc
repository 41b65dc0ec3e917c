// Between two threads of this machine, over loopback.
#include "doctor/peer_meter.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "doctor/disk_meter.h"
#include "doctor/host_collector.h"
#include "doctor/peer_socket.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

constexpr char kAddress[] = "127.0.0.1";

std::unique_ptr<PeerListener> Listen(const std::string& token) {
  auto listener = PeerListener::Open(kAddress, {}, token);
  EXPECT_TRUE(listener.ok()) << listener.status();
  return *std::move(listener);
}

MeasureRequest RequestTo(const PeerListener& listener, const std::string& token) {
  return {"h1", "h2", kAddress, listener.port(), token, 0.01};
}

TimePoint Soon() { return Now() + Seconds(20); }

TEST(PeerMeter, MeasuresLatencyRatesAndClock) {
  const auto listener = Listen("secret");
  std::thread other([&] { EXPECT_TRUE(listener->ServeOne(Soon()).ok()); });
  const LinkFacts link = MeasurePeer(RequestTo(*listener, "secret"));
  other.join();
  EXPECT_EQ(link.error, "");
  EXPECT_EQ(link.from + link.to + link.interface_name, "h1h2lo");
  EXPECT_GT(link.latency_seconds, 0);
  EXPECT_GT(link.sent_rate, 0);
  EXPECT_GT(link.received_rate, 0);
  EXPECT_LE(std::abs(link.clock_offset), link.clock_error);  // one clock
}

TEST(PeerMeter, WhoDoesNotKnowTheTokenIsDroppedAndTheNextIsServed) {
  const auto listener = Listen("secret");
  std::thread other([&] {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(listener->ServeOne(Soon()).ok());
  });
  const LinkFacts stranger = MeasurePeer(RequestTo(*listener, "sEcret"));
  EXPECT_THAT(stranger.error, HasSubstr("the measurement from h1 to h2 ended"));
  EXPECT_TRUE(stranger.busy);
  {
    auto silent = PeerSocket::Connect(kAddress, listener->port(), 5);
    ASSERT_TRUE(silent.ok());
    EXPECT_TRUE(silent->Send("GET /", 5).ok());
  }
  EXPECT_EQ(MeasurePeer(RequestTo(*listener, "secret")).error, "");
  other.join();
}

// A peer that has sent a quarter of its segments again.
void ServeWithLoss(PeerSocket peer) {
  std::vector<char> bytes(6);  // the token, then what is asked for
  EXPECT_TRUE(peer.Receive(bytes.data(), bytes.size()).ok());
  for (char request[9]; peer.Receive(request, sizeof request).ok();) {
    uint64_t number = 0;
    std::memcpy(&number, request + 1, sizeof number);
    bytes.resize(std::max<size_t>(number, 8));
    const double lost = 0.25;
    Status status;
    if (request[0] == 'p') status = peer.Send(bytes.data(), 8);
    if (request[0] == 'g') status = peer.Send(bytes.data(), number);
    if (request[0] == 'l') status = peer.Send(&lost, sizeof lost);
    if (request[0] == 't') {
      status = peer.Receive(bytes.data(), number);
      if (status.ok()) status = peer.Send("", 1);
    }
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(PeerMeter, SegmentsThatTheOtherHostSentAgainCount) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof name;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&name), length), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&name), &length), 0);
  const int port = ntohs(name.sin_port);
  std::thread other(
      [&] { ServeWithLoss(PeerSocket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC))); });
  const LinkFacts link = MeasurePeer({"h1", "h2", kAddress, port, "secret", 0.01});
  other.join();
  ::close(listener);
  EXPECT_EQ(link.error, "");
  EXPECT_DOUBLE_EQ(link.lost_share, 0.25);
}

TEST(PeerMeter, APortOnWhichNobodyListensIsNamed) {
  const int port = Listen("secret")->port();  // closed again
  MeasureRequest request = {"h1", "h2", kAddress, port, "secret", 0.01};
  const LinkFacts link = MeasurePeer(request);
  EXPECT_THAT(link.error, HasSubstr("h1 cannot connect to h2: 127.0.0.1 port"));
  EXPECT_FALSE(link.busy);
}

TEST(PeerMeter, WithoutADescriptorForItAConnectionWaitsAndTheListenerSleeps) {
  const auto listener = Listen("secret");
  auto waiting = PeerSocket::Connect(kAddress, listener->port(), 5);
  ASSERT_TRUE(waiting.ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);  // the lowest number that is free
  close(next);
  const rlimit full{static_cast<rlim_t>(next), before.rlim_max};
  rusage first{}, last{};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &full), 0);
  getrusage(RUSAGE_THREAD, &first);
  const Status served = listener->Serve(Now() + Seconds(0.2));
  getrusage(RUSAGE_THREAD, &last);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(served.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(served), HasSubstr("ulimit -n"));
  EXPECT_GT(last.ru_nvcsw, first.ru_nvcsw);  // it gave its core away

  EXPECT_TRUE(waiting->Send("another token", 13).ok());
  EXPECT_TRUE(listener->ServeOne(Soon()).ok());  // with room again
  EXPECT_EQ(listener->Serve(Now()).code(), StatusCode::kDeadlineExceeded);
}

TEST(DiskMeter, MeasuresAndLeavesNothing) {
  const std::string folder = ::testing::TempDir();
  const DiskFacts facts = MeasureDisk(folder + "/not/there/yet");
  EXPECT_EQ(facts.error, "");
  EXPECT_GT(facts.write_rate, 0);
  EXPECT_GT(facts.sync_seconds, 0);
  EXPECT_GT(facts.free_bytes, 0);
  EXPECT_FALSE(facts.file_system.empty());
  EXPECT_THAT(MeasureDisk("/proc/nothing").error, HasSubstr("cannot write into /proc"));
}

// A limit of the size of files ends writing in the middle of a chunk, as a full disk does.
TEST(DiskMeter, ADiskThatIsFullIsSaidToBe) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{6 << 20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  const DiskFacts facts = MeasureDisk(::testing::TempDir() + "/not/there/yet");
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(facts.error, HasSubstr("No space left on device"));
}

TEST(HostCollector, KnowsThisMachine) {
  CollectRequest request;
  request.host = "here";
  request.build = {{"ringwood", "1"}};
  const HostFacts facts = CollectHost(request);
  EXPECT_EQ(facts.interface_error + facts.transport_error, "");
  EXPECT_EQ(facts.address, "127.0.0.1");
  EXPECT_EQ(facts.transport, "ucx");
  EXPECT_GT(facts.cores, 0);
  EXPECT_GT(facts.descriptors_hard, 0u);
  EXPECT_FALSE(facts.interfaces.empty());
}

TEST(HostCollector, AnInterfaceThatIsNotThereIsAFactNotAnError) {
  CollectRequest request;
  request.host = "here";
  request.network_interface = "=no-such-nic";
  EXPECT_THAT(CollectHost(request).interface_error, HasSubstr("no-such-nic"));
}

}  // namespace
}  // namespace ringwood

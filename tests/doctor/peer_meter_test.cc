// Between two threads of this machine, over loopback.
#include "doctor/peer_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

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

TEST(PeerMeter, MeasuresLatencyRatesAndClock) {
  const auto listener = Listen("secret");
  std::thread other([&] { listener->ServeOne(); });
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
    for (int i = 0; i < 3; ++i) listener->ServeOne();
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

TEST(PeerMeter, APortOnWhichNobodyListensIsNamed) {
  const int port = Listen("secret")->port();  // closed again
  MeasureRequest request = {"h1", "h2", kAddress, port, "secret", 0.01};
  const LinkFacts link = MeasurePeer(request);
  EXPECT_THAT(link.error, HasSubstr("h1 cannot connect to h2: 127.0.0.1 port"));
  EXPECT_FALSE(link.busy);
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
  request.network_interface = "=no-such-card";
  EXPECT_THAT(CollectHost(request).interface_error, HasSubstr("no-such-card"));
}

}  // namespace
}  // namespace ringwood

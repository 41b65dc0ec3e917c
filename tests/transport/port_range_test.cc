#include "transport/port_range.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

#include "base/loop.h"
#include "tests/transport/world.h"
#include "transport/grpc/stream.h"
#include "transport/open_fabric.h"

namespace ringwood {
namespace {

TEST(PortRange, IsReadOrRefused) {
  EXPECT_TRUE(ParsePortRange("")->any());
  const PortRange range = *ParsePortRange("20000-20099");
  EXPECT_EQ(range.first, 20000);
  EXPECT_EQ(range.last, 20099);
  EXPECT_EQ(ToString(range), "20000-20099");
  for (const char* text :
       {"0-5", "7", "7-", "-7", "9-8", "1-65536", "1-2-3", "a-b", "1 -2", "0-0"}) {
    const Status status = ParsePortRange(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(Message(status).find("20000-20099"), std::string::npos) << "an example is due";
  }
}

TEST(PortRange, EveryPortIsTriedOnceFromWhereTheSeedSays) {
  EXPECT_EQ(PortsToTry({}, 17), std::vector<uint16_t>{0});
  EXPECT_EQ(PortsToTry({10, 12}, 4), (std::vector<uint16_t>{11, 12, 10}));
  const std::vector<uint16_t> all = PortsToTry({1, 65535}, ~uint64_t{0});
  EXPECT_EQ(std::set<uint16_t>(all.begin(), all.end()).size(), 65535u);
}

// The ports on which this process listens now.
std::set<uint16_t> ListeningPorts() {
  std::set<uint16_t> ports;
  DIR* const directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    const int descriptor = std::atoi(entry->d_name);
    int listens = 0;
    sockaddr_in6 name{};  // the port of an IPv4 address lies at the same place
    socklen_t size = sizeof listens, name_size = sizeof name;
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
      continue;
    if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &name_size) != 0) continue;
    if (name.sin6_family == AF_INET || name.sin6_family == AF_INET6) {
      ports.insert(ntohs(name.sin6_port));
    }
  }
  closedir(directory);
  return ports;
}

// Loops and fabrics that live together, each fabric destroyed on its loop.
class Fabrics {
 public:
  // Those who were called end their connections first, so that it is their ports that TCP
  // remembers.
  ~Fabrics() {
    for (size_t i = loops_.size(); i-- > 0;) {
      (void)loops_[i]->Call(
          [&] {
            transports_[i].reset();
            fabrics_[i].reset();
            return OkStatus();
          },
          Seconds(10));
    }
  }
  // Connects them all; each sends one message to each, in turn, so that the lower one of a pair
  // connects.
  void Talk() {
    const int size = static_cast<int>(loops_.size());
    std::vector<Peer> peers;
    for (int i = 0; i < size; ++i) {
      peers.push_back({i, absl::StrFormat("rank %d", i), fabrics_[i]->Address()});
    }
    for (int i = 0; i < size; ++i) {
      On(i, [&]() -> Status {
        RW_ASSIGN_OR_RETURN(transports_[i], fabrics_[i]->Connect({1, 1, i}, peers, {}));
        return OkStatus();
      });
    }
    for (int i = 0; i < size * size; ++i) {
      if (i / size != i % size) SendOne(i / size, i % size);
    }
  }
  Status Open(const std::string& transport, PortRange ports) {
    loops_.push_back(std::make_unique<Loop>("test"));
    fabrics_.emplace_back();
    transports_.emplace_back();
    FabricOptions options;
    options.transport = transport;
    options.ports = ports;
    RW_ASSIGN_OR_RETURN(fabrics_.back(), OpenFabric(loops_.back().get(), options));
    return OkStatus();
  }

 private:
  void On(int node, const std::function<Status()>& task) {
    const Status done = loops_[node]->Call(task, Seconds(10));
    ASSERT_TRUE(done.ok()) << Message(done);
  }
  void SendOne(int from, int to) {
    const std::vector<std::byte> payload(100, std::byte{3});
    std::vector<std::byte> into(100);
    Answer sent, received;
    On(to, [&] {
      transports_[to]->Receive(from, {}, {7, 0, 100}, into, received.ForReceive());
      return OkStatus();
    });
    On(from, [&] {
      transports_[from]->Send(to, {}, {7, 0, 100}, payload, sent.ForSend());
      return OkStatus();
    });
    EXPECT_TRUE(received.Wait().ok()) << Message(received.status);
    EXPECT_TRUE(sent.Wait().ok()) << Message(sent.status);
  }

  std::vector<std::unique_ptr<Loop>> loops_;
  std::vector<std::unique_ptr<Fabric>> fabrics_;
  std::vector<std::unique_ptr<Transport>> transports_;
};

class PortsOf : public testing::TestWithParam<const char*> {};

// Below the kernel's own ephemeral ports, so that no connection takes them, and this process's own,
// so that tests may run beside each other; each test's differ from those before it, where
// connections may linger. Not those of which another test has one.
PortRange OwnRange(int offset, int ports) {
  for (int block = getpid();; ++block) {
    const int first = 20000 + block % 200 * 60 + offset;
    const PortRange range{static_cast<uint16_t>(first), static_cast<uint16_t>(first + ports - 1)};
    bool free = true;
    for (const uint16_t port : PortsToTry(range, 0)) free &= IsFree("127.0.0.1", port);
    if (free) return range;
  }
}

TEST_P(PortsOf, AFabricListensInTheRangeOnly) {
  const PortRange range = OwnRange(0, 40);
  const std::set<uint16_t> before = ListeningPorts();
  Fabrics fabrics;
  for (int i = 0; i < 4; ++i) {
    const Status opened = fabrics.Open(GetParam(), range);
    ASSERT_TRUE(opened.ok()) << Message(opened);
  }
  size_t ours = 0;
  for (const uint16_t port : ListeningPorts()) {
    if (before.count(port) > 0) continue;
    ++ours;
    EXPECT_GE(port, range.first);
    EXPECT_LE(port, range.last);
  }
  EXPECT_GE(ours, 4u);
}

TEST_P(PortsOf, ARangeOfTheDocumentedSizeIsEnoughAgainAndAgain) {
  const PortRange range = OwnRange(40, 4);
  for (int run = 0; run < 4; ++run) {
    SCOPED_TRACE(run);
    Fabrics fabrics;
    for (int i = 0; i < 2; ++i) {
      const Status opened = fabrics.Open(GetParam(), range);
      ASSERT_TRUE(opened.ok()) << Message(opened);
    }
    fabrics.Talk();
  }
}

TEST_P(PortsOf, AFullRangeIsRefusedAtOnceWithWhatIsNeeded) {
  const PortRange range = OwnRange(50, 2);
  Fabrics fabrics;
  Status opened = OkStatus();
  for (int i = 0; i < 3 && opened.ok(); ++i) opened = fabrics.Open(GetParam(), range);
  EXPECT_EQ(opened.code(), StatusCode::kResourceExhausted) << Message(opened);
  EXPECT_NE(Message(opened).find("2 are in use"), std::string::npos) << Message(opened);
  EXPECT_NE(Message(opened).find(ToString(range)), std::string::npos) << Message(opened);
  EXPECT_NE(Message(opened).find("--port-range"), std::string::npos) << Message(opened);
}

TEST(GrpcListener, AnAddressThatThisHostHasNotIsRefusedWithTheCauseAndWhereToLook) {
  const auto opened = OpenGrpcListener("192.0.2.1", {}, [](uint64_t) {});
  EXPECT_EQ(opened.status().code(), StatusCode::kFailedPrecondition);
  for (const char* part : {"gRPC cannot listen on 192.0.2.1", "Cannot assign requested address",
                           "--network-interface (RINGWOOD_NETWORK_INTERFACE)"}) {
    EXPECT_NE(Message(opened.status()).find(part), std::string::npos) << Message(opened.status());
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, PortsOf, testing::Values("ucx", "grpc"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ringwood

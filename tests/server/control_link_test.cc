// A link that ends while calls are in flight: its channel is the last of the process then, which
// gRPC's own threads must not be the ones to drop.
#include "server/reducer/control_link.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/random.h"
#include "server/server.h"

namespace ringwood {
namespace {

v1::JoinRequest ReducerLink() {
  v1::JoinRequest request;
  request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
  request.set_role(v1::ROLE_REDUCER);
  request.set_host("test");
  request.set_incarnation(Unpredictable() | 1);
  return request;
}

// Everything at once, for a moment; whatever was begun has answered once when the link is gone.
void EndInFlight(const std::string& address, uint64_t microseconds) {
  std::atomic<int> joined{0}, over{0};
  {
    ControlLink link(address, "", Seconds(5));
    link.Join(ReducerLink(), Seconds(60), [&](StatusOr<v1::JoinResponse>) { ++joined; });
    link.Attend({[] {}, [](const v1::Notice&) {}, [&](const Status&) { ++over; }});
    link.Beat(v1::Beat());
    link.Leave(v1::LeaveRequest(), Seconds(60));
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  }
  EXPECT_EQ(joined, 1);
  EXPECT_EQ(over, 1);
}

TEST(ControlLink, EndsWhileItsCallsWaitForACoordinatorThatIsNotThere) {
  Random random(1);
  for (int round = 0; round < 200; ++round) EndInFlight("127.0.0.1:1", random.Below(3000));
}

TEST(ControlLink, EndsWhileACoordinatorHoldsItsCalls) {
  Random random(2);
  ServerOptions options;
  options.insecure = true;
  options.reducer_index = 1;  // not this process
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << Message(server.status());
  const std::string address = "127.0.0.1:" + std::to_string((*server)->port());
  for (int round = 0; round < 100; ++round) EndInFlight(address, random.Below(3000));
}

TEST(ControlLink, OutlivesItsCoordinator) {
  Random random(3);
  for (int round = 0; round < 20; ++round) {
    ServerOptions options;
    options.insecure = true;
    options.reducer_index = 1;
    auto server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << Message(server.status());
    const std::string address = "127.0.0.1:" + std::to_string((*server)->port());
    std::atomic<int> answers{0};
    {
      ControlLink link(address, "", Seconds(5));
      link.Join(ReducerLink(), Seconds(60), [&](StatusOr<v1::JoinResponse>) { ++answers; });
      link.Attend({[] {}, [](const v1::Notice&) {}, [&](const Status&) { ++answers; }});
      std::this_thread::sleep_for(std::chrono::microseconds(random.Below(3000)));
      server->reset();
    }
    EXPECT_EQ(answers, 2);
  }
}

}  // namespace
}  // namespace ringwood

// Sessions with tensors on a device, over a device in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "client/session.h"
#include "tests/client/fake_device.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

constexpr int kDeviceWorld = 3;
constexpr size_t kDeviceElements = 5000;

Job DeviceJob(FakeRings* rings) {
  Job job{.world = kDeviceWorld};
  job.accelerator = [rings](int) { return FakeAccelerator(rings); };
  return job;
}

// A gradient on the device, used by one stream.
struct DeviceGradient {
  DeviceGradient(Session& session, const std::string& name, FakeStream* on,
                 const std::string& route = "auto")
      : data(kDeviceElements), stream(on) {
    Tensor tensor;
    tensor.spec = {name, kDeviceElements, route, 0.01};
    tensor.data = data.data();
    tensor.device = OnDevice{0, stream};
    const StatusOr<int> registered = session.Register(tensor);
    EXPECT_TRUE(registered.ok()) << registered.status();
    id = registered.value_or(-1);
  }
  // Says that it is ready long before the device has made it.
  void Make(Session& session, float value) {
    stream->Put([this, value] {
      absl::SleepFor(absl::Milliseconds(10));
      std::fill(data.begin(), data.end(), value);
    });
    EXPECT_TRUE(session.Ready(id).ok());
  }
  std::vector<float> data;
  FakeStream* const stream;
  int id = -1;
};

TEST(DeviceTensors, AverageFollowsTheTrainersStreams) {
  FakeRings rings(kDeviceWorld);
  RunJob(DeviceJob(&rings), [&](Session& session, GatheringCoordinator&) {
    FakeStream one, other;
    DeviceGradient a(session, "a", &one), b(session, "b", &other);
    const auto rank = static_cast<float>(session.rank());
    for (int step = 1; step <= 3; ++step) {
      ASSERT_TRUE(session.BeginStep(session.rank() + 1).ok());
      a.Make(session, rank + static_cast<float>(step));
      b.Make(session, 10 * rank);
      const auto result = session.FinishStep();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_FALSE(result->skipped);
      EXPECT_EQ(result->total_weight, 6);
      EXPECT_GT(result->dense_bytes, 0u);
      // The trainer's next kernel sees the average, without anybody having waited for it.
      std::vector<float> seen(kDeviceElements);
      one.Put([&] { seen = a.data; });
      one.Wait();
      other.Wait();
      // (1·0 + 2·1 + 3·2) / 6 beyond the step; (0 + 2·10 + 3·20) / 6
      EXPECT_THAT(seen, testing::Each(static_cast<float>(8 + 6 * step) / 6));
      EXPECT_THAT(b.data, testing::Each(80.0f / 6));
    }
    EXPECT_EQ(session.route(a.id), "ring");
    EXPECT_TRUE(session.Close("").ok());
    one.Wait();
    other.Wait();
  });
}

// As the rest of backward does, which the exchange is meant to overlap.
TEST(DeviceTensors, WhatStandsBehindAReadyGradientIsNotWaitedFor) {
  for (const std::string route : {"dense", "sparse"}) {
    FakeRings rings(kDeviceWorld);
    RunJob(DeviceJob(&rings), [&](Session& session, GatheringCoordinator&) {
      FakeStream one, other;
      DeviceGradient a(session, "a", &one, route), b(session, "b", &other, route);
      ASSERT_TRUE(session.Agree().ok());  // before the first plan, ready is only noted
      absl::Notification finished;
      bool in_time = false;
      a.Make(session, 7);
      one.Put([&] { in_time = finished.WaitForNotificationWithTimeout(absl::Seconds(60)); });
      b.Make(session, 7);
      const auto result = session.FinishStep();
      finished.Notify();
      ASSERT_TRUE(result.ok()) << result.status();
      one.Wait();
      other.Wait();
      EXPECT_TRUE(in_time) << route;
      if (route == "dense") {
        EXPECT_THAT(a.data, testing::Each(7.0f));
      }
      EXPECT_TRUE(session.Close("").ok());
    });
  }
}

TEST(DeviceTensors, ANaNOnOneRankSkipsTheStepAndLeavesTheGradients) {
  FakeRings rings(kDeviceWorld);
  RunJob(DeviceJob(&rings), [&](Session& session, GatheringCoordinator&) {
    FakeStream stream;
    DeviceGradient gradient(session, "w", &stream);
    const float bad = std::numeric_limits<float>::quiet_NaN();
    gradient.Make(session, session.rank() == 1 ? bad : 7);
    const auto skipped = session.FinishStep();
    ASSERT_TRUE(skipped.ok()) << skipped.status();
    EXPECT_TRUE(skipped->skipped);
    stream.Wait();
    EXPECT_TRUE(session.rank() == 1 ? std::isnan(gradient.data[9]) : gradient.data[9] == 7);
    gradient.Make(session, 4);
    const auto result = session.FinishStep();
    ASSERT_TRUE(result.ok()) << result.status();
    stream.Wait();
    EXPECT_THAT(gradient.data, testing::Each(4.0f));
    EXPECT_TRUE(session.Close("").ok());
  });
}

TEST(DeviceTensors, ADeadRankEndsTheRingWithItsNameAndLeavesTheGradients) {
  FakeRings rings(kDeviceWorld);
  RunJob(DeviceJob(&rings), [&](Session& session, GatheringCoordinator& coordinator) {
    FakeStream stream;
    DeviceGradient gradient(session, "w", &stream);
    ASSERT_TRUE(session.Agree().ok());
    if (session.rank() == 2) {
      absl::SleepFor(absl::Milliseconds(100));  // the others wait inside the ring
      coordinator.Fail(Unavailable("rank 2 fell silent"));
      return;
    }
    gradient.Make(session, 7);
    const auto result = session.FinishStep();
    EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(Message(result.status()), testing::HasSubstr("rank 2 fell silent"));
    EXPECT_THAT(Message(rings.ReasonOf(session.rank())), testing::HasSubstr("rank 2 fell silent"));
    stream.Wait();
    EXPECT_THAT(gradient.data, testing::Each(7.0f));
  });
}

TEST(DeviceTensors, WhatARankCannotDoIsRefusedWithTheRemedy) {
  FakeRings rings(1);
  Job job = DeviceJob(&rings);
  job.world = 1;
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    FakeStream stream;
    DeviceGradient gradient(session, "w", &stream);
    float memory[4];
    Tensor host;
    host.spec = {"host", 4, "auto", 0.01};
    host.data = memory;
    EXPECT_THAT(Message(session.Register(host).status()), testing::HasSubstr("all on one device"));
    Tensor far = host;
    far.device = OnDevice{1, &stream};
    EXPECT_THAT(Message(session.Register(far).status()), testing::HasSubstr("all on one device"));
    Tensor sparse = host;
    sparse.device = OnDevice{0, &stream};
    sparse.spec.route = "sparse";
    sparse.clip_norm = 3;
    const std::string message = Message(session.Register(sparse).status());
    EXPECT_THAT(message, testing::HasSubstr("clip_norm = 3"));
    EXPECT_THAT(message, testing::HasSubstr("copy it"));
  });
}

TEST(DeviceTensors, WithoutADeviceTheFirstStepSaysWhatIsMissing) {
  Job job{.world = 1};
  job.accelerator = [](int) {
    Accelerator none;
    none.make_ring = [](Loop*, const DeviceRingOptions&) -> StatusOr<std::unique_ptr<DeviceRing>> {
      return Unavailable("this machine has no device");
    };
    return none;
  };
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    FakeStream stream;
    DeviceGradient gradient(session, "w", &stream);
    EXPECT_THAT(Message(session.Agree()), testing::HasSubstr("this machine has no device"));
  });
}

}  // namespace
}  // namespace ringwood

// Sessions with tensors on a device, over a device in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "client/grpc/parts.h"
#include "client/session.h"
#include "dense/arithmetic/half.h"
#include "plan/model/cost.h"
#include "plan/strategy/planner.h"
#include "tests/client/fake_device.h"
#include "tests/client/job.h"
#include "tests/client/placed.h"
#include "transport/interface.h"

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

TEST(DeviceTensors, BFloat16IsAveragedBesideFloat32AsItIs) {
  FakeRings rings(2);
  Job job{.world = 2, .wire = "native"};
  job.accelerator = [&](int) { return FakeAccelerator(&rings); };
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    FakeStream stream;
    DeviceGradient wide(session, "wide", &stream);
    std::vector<uint16_t> narrow(kDeviceElements);
    Tensor tensor{.spec = {"narrow", narrow.size()}, .data = narrow.data()};
    tensor.type = DataType::kBFloat16;
    tensor.device = OnDevice{0, &stream};
    const int id = *session.Register(tensor);
    for (int step = 1; step <= 2; ++step) {
      const auto value = static_cast<float>(step + session.rank());
      stream.Put([&narrow, value] { std::ranges::fill(narrow, ToBFloat16(value)); });
      ASSERT_TRUE(session.Ready(id).ok());
      wide.Make(session, value);
      const auto result = session.FinishStep();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->dense_equivalent_bytes, kDeviceElements * 6);
      stream.Wait();
      EXPECT_EQ(narrow, std::vector<uint16_t>(kDeviceElements, ToBFloat16(step + 0.5f)));
      EXPECT_EQ(wide.data, std::vector<float>(kDeviceElements, step + 0.5f));
    }
    EXPECT_TRUE(session.Close("").ok());
  });
}

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

// The last mark of a stream is behind the others: each costs an event of CUDA's in a hook.
TEST(DeviceTensors, AGroupThatUsesOneStreamIsMarkedOnce) {
  for (const std::string route : {"dense", "sparse"}) {
    for (const bool shared : {true, false}) {
      FakeRings rings(1);
      Job job{.world = 1};
      job.accelerator = [&](int) { return FakeAccelerator(&rings); };
      RunJob(job, [&](Session& session, GatheringCoordinator&) {
        FakeStream one, other;
        std::vector<std::unique_ptr<DeviceGradient>> gradients;
        for (int t = 0; t < 6; ++t) {
          gradients.push_back(std::make_unique<DeviceGradient>(
              session, std::to_string(t), shared || t % 2 == 0 ? &one : &other, route));
        }
        ASSERT_TRUE(session.Agree().ok());  // before the first plan, ready is only noted
        const int before = FakeMarks::recorded;
        for (const auto& gradient : gradients) gradient->Make(session, 7);
        EXPECT_EQ(FakeMarks::recorded - before, shared ? 1 : 6) << route;
        ASSERT_TRUE(session.FinishStep().ok());
        one.Wait();
        other.Wait();
        for (const auto& gradient : gradients) {
          EXPECT_EQ(*std::max_element(gradient->data.begin(), gradient->data.end()), 7.0f);
        }
        EXPECT_TRUE(session.Close("").ok());
      });
    }
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
      return Refused("this machine has no device");
    };
    return none;
  };
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    FakeStream stream;
    DeviceGradient gradient(session, "w", &stream);
    EXPECT_THAT(Message(session.Agree()), testing::HasSubstr("this machine has no device"));
  });
}

Job WhereOthersReachTheNetwork(Job job, FakeRings* rings) {
  job.accelerator = [rings](int) {
    Accelerator accelerator = FakeAccelerator(rings);
    accelerator.ring_refused = Denied("NCCL encrypts nothing");
    return accelerator;
  };
  return job;
}

// Of sparse groups only the entries travel, by the session's own data plane.
TEST(DeviceTensors, WhereOthersReachTheNetworkRanksMakeNoRing) {
  for (const std::string route : {"dense", "sparse"}) {
    FakeRings rings(kDeviceWorld);
    const Job job = WhereOthersReachTheNetwork(DeviceJob(&rings), &rings);
    RunJob(job, [&](Session& session, GatheringCoordinator&) {
      FakeStream stream;
      DeviceGradient gradient(session, "w", &stream, route);
      EXPECT_EQ(Message(session.DeviceSupport(0)), "NCCL encrypts nothing");
      const Status agreed = session.Agree();
      EXPECT_EQ(agreed.code(), route == "sparse" ? StatusCode::kOk : StatusCode::kPermissionDenied);
    });
  }
}

TEST(DeviceTensors, OneRankSendsNothingAndNeedsNoPrivateNetwork) {
  FakeRings rings(1);
  const Job job = WhereOthersReachTheNetwork({.world = 1}, &rings);
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    FakeStream stream;
    DeviceGradient gradient(session, "w", &stream);
    EXPECT_NE(session.DeviceSupport(0).code(), StatusCode::kPermissionDenied);
    EXPECT_TRUE(session.Agree().ok());
  });
}

TEST(DeviceTensors, ARingIsForLoopbackAndForNetworksThatAreDeclaredPrivate) {
  const auto refused = [](const std::string& card, bool trusted) {
    SessionOptions options;
    options.coordinator = "127.0.0.1:1";
    options.network_interface = card;
    options.trusted_fabric = trusted;
    return MakeParts(options).value().accelerator.ring_refused;
  };
  EXPECT_TRUE(refused("", false).ok());
  EXPECT_TRUE(refused("=lo", false).ok());
  const std::string card = ChooseInterface("").value();
  if (card == "lo") GTEST_SKIP() << "no network";
  EXPECT_TRUE(refused("=" + card, true).ok());
  EXPECT_THAT(Message(refused("=" + card, false)), testing::HasSubstr("--trusted-fabric"));
  EXPECT_EQ(refused("=" + card, false).code(), StatusCode::kPermissionDenied);
}

// Dense tensors of many sizes that travel as codes, with weights that differ, a rank without
// samples and a step that is skipped.
PlacedScript CodedScript(int world, const std::string& wire) {
  PlacedScript script;
  script.job.world = world;
  script.job.wire = wire;
  script.to = 6;
  for (const auto& [name, elements] :
       {std::pair{"a", 1}, std::pair{"b", 300}, std::pair{"c", 5000}, std::pair{"d", 255}}) {
    script.tensors.push_back(TensorOf(name, elements, "dense"));
  }
  script.weight = [world](int rank, uint64_t step) {
    if (world == 1) return 1.0;  // what is multiplied and divided by 1 stays
    return rank == 1 && step % 4 == 2 ? 0 : 1 + 0.5 * rank + static_cast<double>(step % 3);
  };
  return script;
}

bool Owes(const Outcome& outcome) {
  for (const Outcome::Bits& residual : outcome.residuals) {
    for (const uint32_t bits : residual) {
      if (bits << 1 != 0) return true;
    }
  }
  return false;
}

TEST(DeviceWire, CodesGiveTheHostsBitsInAllWorlds) {
  for (int world = 1; world <= 8; ++world) {
    for (const char* wire : {"int8", "int4"}) {
      const PlacedScript script = CodedScript(world, wire);
      const Outcome host = Play(script, Where::kHost);
      EXPECT_EQ(Owes(host), world > 1);
      EXPECT_TRUE(Play(script, Where::kFake) == host) << wire << ", " << world << " ranks";
    }
  }
}

TEST(DeviceWire, WithBf16TensorsTravelInFull) {
  PlacedScript script = CodedScript(2, "bf16");
  script.integers = true;
  script.weight = nullptr;
  const Outcome outcome = Play(script, Where::kFake);
  EXPECT_FALSE(Owes(outcome));
  script.job.wire = "fp32";
  EXPECT_TRUE(outcome == Play(script, Where::kHost));
}

// Errors and reaches go on through groups that merge and split, and through routes that change.
TEST(DeviceWire, AChangeOfThePlanKeepsTheHostsBits) {
  PlacedScript script = CodedScript(3, "int4");
  script.to = 14;
  script.prepare = [tensors = script.tensors](GatheringCoordinator& coordinator) {
    PlanInput input;
    for (auto t = tensors.rbegin(); t != tensors.rend(); ++t) input.tensors.push_back(t->spec);
    input.world = 3;
    input.ring_codecs = DeviceCodecs("int4", OneEach(3));
    coordinator.ChangePlanAfter(2, *MakePlan("single", input));
    coordinator.ChangePlanAfter(4, *MakePlan("wfbp", input));
    input.tensors[1].route = "sparse";  // c
    input.tensors[1].density = 0.05;
    coordinator.ChangePlanAfter(6, *MakePlan("hybrid", input));
    input.tensors[1].route = "dense";
    coordinator.ChangePlanAfter(9, *MakePlan("hybrid", input));
    input.ring_codecs = DeviceCodecs("fp32", OneEach(3));
    coordinator.ChangePlanAfter(11, *MakePlan("single", input));
    input.ring_codecs = DeviceCodecs("int8", OneEach(3));
    coordinator.ChangePlanAfter(12, *MakePlan("single", input));
  };
  script.tensors[2].spec.route = "auto";
  // Sums of fp32 have another order of additions on the fake device: whole numbers.
  script.integers = true;
  script.weight = nullptr;
  const Outcome host = Play(script, Where::kHost);
  const Outcome device = Play(script, Where::kFake);
  EXPECT_EQ(device.routes, host.routes);
  EXPECT_THAT(device.routes, testing::AllOf(testing::Contains("ring"), testing::Contains("tree")));
  EXPECT_TRUE(device == host);
}

TEST(DeviceWire, AResumedJobGoesOnBitForBitAndBetweenHostAndDevice) {
  constexpr uint64_t kResumed = 5;
  for (const char* wire : {"int8", "int4"}) {
    PlacedScript script = CodedScript(2, wire);
    script.to = 9;
    const Outcome whole = Play(script, Where::kHost);
    for (const auto& [first, then] :
         {std::pair(Where::kFake, Where::kFake), std::pair(Where::kFake, Where::kHost),
          std::pair(Where::kHost, Where::kFake)}) {
      MemoryStore store;
      PlacedScript part = script;
      part.job.store = &store;
      part.to = kResumed;
      Play(part, first);
      part.from = kResumed;
      part.to = script.to;
      const Outcome resumed = Play(part, then);
      EXPECT_TRUE(resumed.residuals == whole.residuals);
      const size_t before = kResumed * script.job.world * script.tensors.size();
      EXPECT_TRUE(resumed.results ==
                  std::vector(whole.results.begin() + before, whole.results.end()));
    }
  }
}

TEST(DeviceWire, AFailedStepLeavesWhatIsOwed) {
  FakeRings rings(kDeviceWorld);
  Job job = DeviceJob(&rings);
  job.wire = "int4";
  RunOwningJob(job, [&](std::unique_ptr<Session> session, GatheringCoordinator& coordinator) {
    FakeStream stream;
    DeviceGradient gradient(*session, "w", &stream);
    for (int step = 0; step < 2; ++step) {
      gradient.Make(*session, 7.3f);
      ASSERT_TRUE(session->FinishStep().ok());
    }
    std::vector<float> before(kDeviceElements), after(kDeviceElements);
    ASSERT_TRUE(session->Residual(gradient.id, before).ok());
    EXPECT_THAT(before, testing::Contains(testing::Ne(0)));
    stream.Put([&] { std::fill(gradient.data.begin(), gradient.data.end(), 3.0f); });
    (void)session->Ready(gradient.id);  // exchanged by all, perhaps; never committed
    if (session->rank() == 2) {
      coordinator.Fail(Unavailable("rank 2 fell silent"));
    } else {
      EXPECT_EQ(session->FinishStep().status().code(), StatusCode::kUnavailable);
      ASSERT_TRUE(session->Residual(gradient.id, after).ok());
      EXPECT_EQ(before, after);
    }
    session.reset();  // before the gradient, which the device may still read
    stream.Wait();
  });
}

TEST(DeviceWire, ADeviceThatCannotSayWhatIsOwedEndsTheCheckpointWithItsError) {
  FakeRings rings(2);
  Job job{.world = 2, .wire = "int8"};
  job.accelerator = [&](int) {
    Accelerator accelerator = FakeAccelerator(&rings);
    accelerator.make_bucket = [](int, uint64_t elements,
                                 DataType) -> StatusOr<std::unique_ptr<DeviceBucket>> {
      return std::unique_ptr<DeviceBucket>(
          std::make_unique<FakeBucket>(elements, Unavailable("copy rounding errors: it is lost")));
    };
    return accelerator;
  };
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    FakeStream stream;
    DeviceGradient gradient(session, "w", &stream);
    gradient.Make(session, 1);
    ASSERT_TRUE(session.FinishStep().ok());
    std::vector<float> residual(kDeviceElements);
    EXPECT_THAT(Message(session.Residual(gradient.id, residual)), testing::HasSubstr("is lost"));
    EXPECT_THAT(Message(session.Checkpoint({})), testing::HasSubstr("is lost"));
    stream.Wait();
  });
}

}  // namespace
}  // namespace ringwood

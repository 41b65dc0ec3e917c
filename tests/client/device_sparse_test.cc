// Sparse tensors on a device give the bits of those on the host: over a device in this process, and
// over a real one where there is one.
#include <gmock/gmock.h>

#include <cmath>

#include "client/exchange/device_sparse_exchange.h"
#include "plan/strategy/planner.h"
#include "tests/client/placed.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

bool Missing(Where where) { return where == Where::kReal && !CountDevices().ok(); }

// The tensors `groups` of each group, at the density of its first.
Plan PlacedPlan(const std::vector<TensorSpec>& table,
                const std::vector<std::vector<uint32_t>>& groups) {
  Plan plan;
  plan.planner = "hybrid";
  for (const std::vector<uint32_t>& tensors : groups) {
    Group group;
    group.tensors = tensors;
    group.route = "tree";
    group.codec = "block16/fp32";
    group.density = table[tensors[0]].density;
    for (uint32_t t : tensors) group.k += EntriesOf(group.density, table[t].elements);
    plan.groups.push_back(std::move(group));
  }
  return plan;
}

// Several groups, tensors of one group with and without momentum, weights that differ, a rank
// without samples, a step that is skipped, tensors that change their groups and densities.
PlacedScript Mixture(int world, bool reducer) {
  PlacedScript script;
  script.job.world = world;
  script.job.reducer = reducer;
  script.tensors = {TensorOf("a", 5000, "sparse", 0.02, 0.9), TensorOf("b", 130, "sparse", 0.1),
                    TensorOf("c", 70'001, "sparse", 0.02), TensorOf("d", 1, "sparse", 1)};
  script.weight = [](int rank, uint64_t step) {
    return rank == 1 && step % 4 == 2 ? 0 : 1 + 0.5 * rank + static_cast<double>(step % 3);
  };
  return script;
}

PlacedScript Regrouped(int world, bool reducer) {
  PlacedScript script = Mixture(world, reducer);
  script.prepare = [tensors = script.tensors](GatheringCoordinator& coordinator) {
    std::vector<TensorSpec> table;  // last first
    for (auto t = tensors.rbegin(); t != tensors.rend(); ++t) table.push_back(t->spec);
    coordinator.ChangePlanAfter(2, PlacedPlan(table, {{0}, {1}, {2}, {3}}));
    coordinator.ChangePlanAfter(6, PlacedPlan(table, {{2, 3}, {0, 1}}));
  };
  return script;
}

class DeviceSparse : public testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    if (Missing(GetParam())) GTEST_SKIP() << "skipped: no device";
  }
  void Same(const PlacedScript& script) {
    const Outcome expected = Play(script, Where::kHost);
    EXPECT_GT(expected.sparse_bytes, 0u);
    const Outcome outcome = Play(script, GetParam());
    EXPECT_EQ(outcome.routes, expected.routes);
    EXPECT_EQ(outcome.skipped, expected.skipped);
    EXPECT_EQ(outcome.sparse_bytes, expected.sparse_bytes);
    EXPECT_TRUE(outcome.results == expected.results);
    EXPECT_TRUE(outcome.residuals == expected.residuals);
  }
};
INSTANTIATE_TEST_SUITE_P(On, DeviceSparse, testing::Values(Where::kFake, Where::kReal),
                         [](const auto& info) {
                           return info.param == Where::kFake ? "AThreadsDevice" : "ARealDevice";
                         });

TEST_P(DeviceSparse, HasTheHostsBitsWithAndWithoutAReducer) {
  for (const bool reducer : {false, true}) {
    for (const int world : {2, 3}) Same(Regrouped(world, reducer));
  }
}

TEST_P(DeviceSparse, HasTheHostsBitsWithEveryCodecMergeAndPlanner) {
  struct Choice {
    const char *codec, *merge, *planner;
    double keep = 1;
  };
  for (const Choice& choice :
       {Choice{"rice/int8", "gtopk", "hybrid"}, Choice{"block16/bf16", "union", "hybrid"},
        Choice{"rice/int4", "exact", "lags", 2.5},
        Choice{"block16/fp32", "gtopk", "hybrid", 0.5}}) {
    SCOPED_TRACE(choice.codec);
    PlacedScript script = Mixture(3, true);
    script.job.options = [choice](SessionOptions* options) {
      options->sparse_codec = choice.codec;
      options->sparse_merge = choice.merge;
      options->sparse_keep = choice.keep;
      options->planner = choice.planner;
      options->momentum = 0.5;
      options->momentum_masking = choice.keep == 1;
    };
    Same(script);
  }
}

// A stage changes k between two steps; residuals and momenta go on.
TEST_P(DeviceSparse, ADensityWarmUpHasTheHostsBits) {
  PlacedScript script = Mixture(2, true);
  script.to = 12;
  script.job.momentum = 0.9;
  script.job.options = [](SessionOptions* options) { options->warmup_steps = 8; };
  Same(script);
}

TEST_P(DeviceSparse, AResumedJobGoesOnBitForBitAndBetweenHostAndDevice) {
  constexpr uint64_t kResumed = 5;
  PlacedScript script = Mixture(2, false);
  script.to = 12;
  script.job.momentum = 0.9;
  script.job.options = [](SessionOptions* options) { options->warmup_steps = 8; };
  const Outcome whole = Play(script, Where::kHost);
  for (const auto& [first, then] :
       {std::pair(GetParam(), GetParam()), std::pair(GetParam(), Where::kHost),
        std::pair(Where::kHost, GetParam())}) {
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

// On integers: what was applied and what remains is what came in.
TEST_P(DeviceSparse, LosesNothing) {
  PlacedScript script;
  script.job.world = 2;
  script.tensors = {TensorOf("w", 4000, "sparse")};
  script.integers = true;
  const Outcome outcome = Play(script, GetParam());
  size_t applied = 0;
  for (size_t i = 0; i < 4000; ++i) {
    double in = 0, out = 0;
    for (uint64_t step = 0; step < script.to; ++step) {
      if (outcome.skipped[step]) continue;
      for (int rank = 0; rank < 2; ++rank) in += GradientOf(script, rank, step, 0, 1)[i];
      const float average = std::bit_cast<float>(outcome.results[step * 2][i]);
      out += std::rint(2 * average);
      applied += average != 0;
    }
    for (int rank = 0; rank < 2; ++rank) out += std::bit_cast<float>(outcome.residuals[rank][i]);
    ASSERT_EQ(in, out) << i;
  }
  EXPECT_GT(applied, 100u);
}

// Over a real device a ring of several ranks in one process is not NCCL's: one rank.
TEST_P(DeviceSparse, DenseAndSparseGroupsGoTogether) {
  PlacedScript script = Mixture(GetParam() == Where::kReal ? 1 : 3, false);
  script.integers = true;  // no ring rounds
  script.job.options = nullptr;
  script.tensors.push_back(TensorOf("e", 3000, "dense"));
  const Outcome expected = Play(script, Where::kHost);
  const Outcome outcome = Play(script, GetParam());
  EXPECT_THAT(outcome.routes, testing::AllOf(testing::Contains("ring"), testing::Contains("tree")));
  EXPECT_TRUE(outcome == expected);
}

// What sparse tensors owe goes with their first dense gradient, also when that step is skipped.
TEST_P(DeviceSparse, ATensorThatChangesItsRouteHasTheHostsBits) {
  PlacedScript script;
  script.job.world = GetParam() == Where::kReal ? 1 : 3;
  script.integers = true;
  script.tensors = {TensorOf("first", 600, "auto", 0.05), TensorOf("second", 600, "auto", 0.05)};
  script.to = 14;
  script.prepare = [&](GatheringCoordinator& coordinator) {
    const char* routes[][2] = {{"dense", "sparse"}, {"sparse", "sparse"}, {"dense", "sparse"},
                               {"sparse", "dense"}, {"dense", "dense"},   {"sparse", "sparse"}};
    uint64_t round = 1;
    for (const auto& [first, second] : routes) {
      PlanInput input;
      input.world = 3;
      input.tensors = {{"second", 600, second, 0.05}, {"first", 600, first, 0.05}};
      coordinator.ChangePlanAfter(round, *MakePlan("hybrid", input));
      round += 2;
    }
  };
  const Outcome expected = Play(script, Where::kHost);
  const Outcome outcome = Play(script, GetParam());
  EXPECT_EQ(outcome.routes, expected.routes);
  EXPECT_THAT(outcome.routes, testing::AllOf(testing::Contains("ring"), testing::Contains("tree")));
  EXPECT_TRUE(outcome == expected);
}

// Of two ranks, one has a gradient on its device, which never ends what it does.
struct OneRank {
  OneRank(Session& session, FakeStream* stream)
      : gradient(session, TensorOf("w", 1000, "sparse"), Where::kFake, stream) {}
  Placed gradient;
};

Job FakeJob(FakeRings* rings, int world, std::function<Status()> health = nullptr) {
  Job job{.world = world};
  job.accelerator = [rings, health](int rank) {
    Accelerator accelerator = FakeAccelerator(rings);
    if (rank == 0 && health) {
      accelerator.make_group =
          [health](const std::vector<cuda::TensorShape>& shapes,
                   const DeviceGroupOptions& options) -> StatusOr<std::unique_ptr<DeviceGroup>> {
        return std::unique_ptr<DeviceGroup>(std::make_unique<FakeGroup>(shapes, options, health));
      };
    }
    return accelerator;
  };
  return job;
}

TEST(DeviceSparseFailure, ADeadRankLeavesGradientsAndResiduals) {
  FakeRings rings(2);
  RunOwningJob(FakeJob(&rings, 2),
               [&](std::unique_ptr<Session> session, GatheringCoordinator& coordinator) {
                 std::vector<FakeStream> streams(1);
                 OneRank rank(*session, &streams[0]);
                 const std::vector<float> ones(1000, 1.0f);
                 rank.gradient.Set(ones);
                 ASSERT_TRUE(session->Ready(rank.gradient.id).ok());
                 ASSERT_TRUE(session->FinishStep().ok());
                 std::vector<float> before(1000), after(1000);
                 ASSERT_TRUE(session->Residual(rank.gradient.id, before).ok());
                 if (session->rank() == 1) {
                   absl::SleepFor(absl::Milliseconds(50));  // the other one waits in the tree
                   coordinator.Fail(Unavailable("rank 1 fell silent"));
                   return;
                 }
                 rank.gradient.Set(ones);
                 ASSERT_TRUE(session->Ready(rank.gradient.id).ok());
                 const Status failed = session->FinishStep().status();
                 EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
                 EXPECT_THAT(Message(failed), HasSubstr("rank 1 fell silent"));
                 EXPECT_EQ(rank.gradient.Get(), ones);
                 ASSERT_TRUE(session->Residual(rank.gradient.id, after).ok());
                 EXPECT_EQ(before, after);
                 session.reset();
               });
}

// Says when the device has called back.
class ToldGroup : public FakeGroup {
 public:
  explicit ToldGroup(absl::Notification* told)
      : FakeGroup({{100, 10}}, DeviceGroupOptions(), nullptr), told_(told) {}
  Status Accumulate(const std::vector<Gradient>& gradients, float weight,
                    std::function<void()> done) override {
    return FakeGroup::Accumulate(gradients, weight, [this, done = std::move(done)] {
      done();
      told_->Notify();
    });
  }

 private:
  absl::Notification* const told_;
};

TEST(DeviceSparseFailure, TheDevicesNoticeHasAPlaceInAFullMailbox) {
  FakeStream stream;
  std::vector<float> gradient(100, 1);
  Tensor tensor = TensorOf("a", 100, "sparse", 0.1);
  tensor.data = gradient.data();
  tensor.device = OnDevice{0, &stream};
  absl::Notification told, packed;
  Loop compute("rw-compute");
  DeviceSparseExchange exchange(*Climb::Of({1, 0, 2}, 0, {0, 100, 10}), {&tensor},
                                std::make_unique<ToldGroup>(&told), &compute);
  compute.Post([&] {
    exchange.Pack(1, [&](const Status& status) {
      EXPECT_TRUE(status.ok()) << Message(status);
      packed.Notify();
    });
    while (compute.Post([] {})) continue;
    told.WaitForNotification();
  });
  EXPECT_TRUE(packed.WaitForNotificationWithTimeout(absl::Seconds(60)));
  exchange.Abort();
}

TEST(DeviceSparseFailure, ADeviceThatFailsIsNamed) {
  FakeRings rings(1);
  const auto health = [] { return Unavailable("an illegal memory access was encountered"); };
  RunOwningJob(FakeJob(&rings, 1, health),
               [&](std::unique_ptr<Session> session, GatheringCoordinator&) {
                 std::vector<FakeStream> streams(1);
                 OneRank rank(*session, &streams[0]);
                 ASSERT_TRUE(session->Ready(rank.gradient.id).ok());
                 const std::string message = Message(session->FinishStep().status());
                 EXPECT_THAT(message, HasSubstr("rank 0: step 1"));
                 EXPECT_THAT(message, HasSubstr("group 0 (tree)"));
                 EXPECT_THAT(message, HasSubstr("device 0"));
                 EXPECT_THAT(message, HasSubstr("illegal memory access"));
                 session.reset();
               });
}

// The device has not ended what it was given, neither when the epoch fails nor when all goes.
TEST(DeviceSparseFailure, ASessionThatEndsWhileTheDeviceIsAtWorkWaitsForItAndTouchesNothing) {
  FakeRings rings(1);
  RunOwningJob(FakeJob(&rings, 1),
               [&](std::unique_ptr<Session> session, GatheringCoordinator& coordinator) {
                 std::vector<FakeStream> streams(1);
                 OneRank rank(*session, &streams[0]);
                 absl::Notification go;
                 streams[0].Put([&] { go.WaitForNotification(); });
                 ASSERT_TRUE(session->Ready(rank.gradient.id).ok());
                 std::thread later([&] {
                   absl::SleepFor(absl::Milliseconds(20));
                   coordinator.Fail(Unavailable("the server is gone"));
                 });
                 EXPECT_THAT(Message(session->FinishStep().status()), HasSubstr("server is gone"));
                 later.join();
                 std::thread last([&] {
                   absl::SleepFor(absl::Milliseconds(20));
                   go.Notify();
                 });
                 session.reset();
                 EXPECT_TRUE(go.HasBeenNotified());
                 last.join();
               });
}

TEST(DeviceSparseFailure, ACheckpointInTheMiddleOfAStepIsRefused) {
  FakeRings rings(1);
  RunOwningJob(FakeJob(&rings, 1), [&](std::unique_ptr<Session> session, GatheringCoordinator&) {
    std::vector<FakeStream> streams(1);
    OneRank rank(*session, &streams[0]);
    ASSERT_TRUE(session->Agree().ok());
    ASSERT_TRUE(session->Ready(rank.gradient.id).ok());
    Status refused;
    for (int i = 0; refused.ok() && i < 1000; ++i) {  // the compute loop begins soon
      refused = session->Checkpoint({});
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_THAT(Message(refused), HasSubstr("finish_step first"));
    EXPECT_TRUE(session->FinishStep().ok());
    EXPECT_TRUE(session->Checkpoint({}).ok());
    EXPECT_TRUE(session->Close("").ok());
    session.reset();
  });
}

TEST(DeviceSparseOptions, WhatADeviceCannotDoIsRefusedByNameAndAutoStaysDense) {
  struct Case {
    std::function<void(SessionOptions*)> set;
    const char* named;
  };
  for (const Case& each : {Case{[](auto* o) { o->sparse_chunk = 4096; }, "sparse_chunk = 4096"},
                           Case{[](auto* o) { o->sparse_method = "gaussian"; }, "gaussian"},
                           Case{[](auto* o) { o->clip_norm = 2; }, "clip_norm = 2"}}) {
    FakeRings rings(2);
    Job job = FakeJob(&rings, 2);
    job.options = each.set;
    RunOwningJob(job, [&](std::unique_ptr<Session> session, GatheringCoordinator&) {
      std::vector<float> data(200'000);
      std::vector<FakeStream> streams(1);  // ends before its memory does
      Tensor tensor = TensorOf("w", data.size(), "sparse");
      tensor.data = data.data();
      tensor.device = OnDevice{0, &streams[0]};
      const std::string message = Message(session->Register(tensor).status());
      EXPECT_THAT(message, HasSubstr(each.named));
      EXPECT_THAT(message, HasSubstr("copy it to the host"));
      tensor.spec.route = "auto";
      const auto id = session->Register(tensor);
      ASSERT_TRUE(id.ok()) << id.status();
      ASSERT_TRUE(session->Ready(*id).ok());
      ASSERT_TRUE(session->FinishStep().ok());
      EXPECT_EQ(session->route(*id), "ring");
      EXPECT_TRUE(session->Close("").ok());
      session.reset();
    });
  }
}

class SelectionTimes : public Observer {
 public:
  explicit SelectionTimes(TimePoint* begun) : begun_(begun) {}
  void SelectionBegun(uint64_t, uint32_t, TimePoint at) override { *begun_ = at; }

 private:
  TimePoint* const begun_;
};

TEST(DeviceSparseOptions, ASelectionBeginsWhenTheGradientIsThere) {
  FakeRings rings(1);
  Job job = FakeJob(&rings, 1);
  TimePoint begun;
  job.observer = [&](int) { return std::make_unique<SelectionTimes>(&begun); };
  RunOwningJob(job, [&](std::unique_ptr<Session> session, GatheringCoordinator&) {
    std::vector<FakeStream> streams(1);
    OneRank rank(*session, &streams[0]);
    TimePoint made;
    streams[0].Put([&] {
      absl::SleepFor(absl::Milliseconds(30));
      made = Now();
    });
    ASSERT_TRUE(session->Ready(rank.gradient.id).ok());
    ASSERT_TRUE(session->FinishStep().ok());
    EXPECT_GE(begun, made);
    EXPECT_TRUE(session->Close("").ok());
    session.reset();
  });
}

// Every ten steps or so the ranks bring together what they measured; densities may follow.
TEST(DeviceSparseOptions, AnAdaptiveJobGoesOnWithNewPlans) {
  FakeRings rings(2);
  Job job = FakeJob(&rings, 2);
  job.options = [](SessionOptions* options) {
    options->adapt = true;
    options->planner = "lags";
    options->warmup_steps = 20;
  };
  uint64_t reviews = 0;
  RunOwningJob(job, [&](std::unique_ptr<Session> session, GatheringCoordinator& coordinator) {
    std::vector<FakeStream> streams(1);
    OneRank rank(*session, &streams[0]);
    double owed = 0, applied = 0;
    for (int step = 0; step < 40; ++step) {
      rank.gradient.Set(std::vector<float>(1000, 2.0f));
      ASSERT_TRUE(session->Ready(rank.gradient.id).ok());
      ASSERT_TRUE(session->FinishStep().ok());
      for (float value : rank.gradient.Get()) applied += value;
    }
    std::vector<float> residual(1000);
    ASSERT_TRUE(session->Residual(rank.gradient.id, residual).ok());
    for (float value : residual) owed += value;
    EXPECT_EQ(applied + owed, 40 * 2000.0);  // both ranks are alike
    EXPECT_TRUE(session->Close("").ok());
    session.reset();
    coordinator.Alone([&] { reviews = coordinator.reviews(); });
  });
  EXPECT_GE(reviews, 1u);
}

}  // namespace
}  // namespace ringwood

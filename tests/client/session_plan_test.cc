// Plans that change between two rounds, that a file freezes, that a checkpoint keeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <thread>

#include "base/random.h"
#include "client/plan_proposal.h"
#include "client/replan/plan_file.h"
#include "client/replanner.h"
#include "plan/strategy/planner.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

constexpr size_t kPlanElements = 600;

Plan PlanOf(const std::vector<TensorSpec>& table, const std::string& planner) {
  PlanInput input;
  input.tensors = table;
  input.world = 3;
  return *MakePlan(planner, input);
}

// The table that a session of these two tensors has: last first.
std::vector<TensorSpec> Table(const std::string& first, const std::string& second,
                              uint64_t elements = kPlanElements) {
  return {{"second", elements, second, 0.05}, {"first", elements, first, 0.05}};
}

// Both tensors dense, then the second sparse, then both sparse, then dense again: on integers, what
// was applied and what remains is what came in, whatever the plan was.
// With a reducer, which every change reaches, and without.
class SessionPlanRoutes : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(WithAReducer, SessionPlanRoutes, testing::Bool());

TEST_P(SessionPlanRoutes, NothingIsLostWhenTensorsChangeThem) {
  constexpr int kWorld = 3;
  std::vector<double> in(2 * kPlanElements, 0.0), applied(2 * kPlanElements, 0.0);
  RunJob({.world = kWorld, .reducer = GetParam()},
         [&](Session& session, GatheringCoordinator& coordinator) {
           Gradient first(session, "first", kPlanElements, "auto", 0.05);
           Gradient second(session, "second", kPlanElements, "auto", 0.05);
           const char* routes[][2] = {{"dense", "sparse"},
                                      {"sparse", "sparse"},
                                      {"dense", "sparse"},
                                      {"sparse", "dense"},
                                      {"dense", "dense"}};
           for (uint64_t change = 0; change < std::size(routes); ++change) {
             std::vector<TensorSpec> table = Table(routes[change][0], routes[change][1]);
             coordinator.ChangePlanAfter(2 * (change + 1), PlanOf(table, "hybrid"));
           }
           for (int step = 0; step < 14; ++step) {
             Random random(step * 10 + session.rank());
             for (Gradient* gradient : {&second, &first}) {
               for (float& value : gradient->data)
                 value = static_cast<float>(random.Below(21)) - 10;
               coordinator.Alone([&] {
                 for (size_t i = 0; i < kPlanElements; ++i)
                   in[gradient->id * kPlanElements + i] += gradient->data[i];
               });
               ASSERT_TRUE(session.Ready(gradient->id).ok());
             }
             ASSERT_TRUE(session.FinishStep().ok());
             const uint64_t change = session.step() / 2;  // that holds from here on
             if (change > 0 && change <= std::size(routes)) {
               EXPECT_EQ(session.route(0),
                         routes[change - 1][0] == std::string("dense") ? "ring" : "tree");
             }
             if (session.rank() != 0) continue;
             for (Gradient* gradient : {&first, &second}) {
               for (size_t i = 0; i < kPlanElements; ++i) {
                 applied[gradient->id * kPlanElements + i] += std::rint(gradient->data[i] * kWorld);
               }
             }
           }
           EXPECT_TRUE(session.Close("").ok());
         });
  EXPECT_EQ(applied, in);  // the last two steps were dense: nothing is owed
}

TEST(SessionPlan, WhatTheWireRoundedAwayOutlivesAChange) {
  constexpr size_t kMany = 200'000;  // short groups are not rounded
  size_t owed = 0;                   // elements, over both ranks
  RunJob({.world = 2, .wire = "bf16"}, [&](Session& session, GatheringCoordinator& coordinator) {
    Gradient first(session, "first", kMany, "auto", 0.05);
    Gradient second(session, "second", kMany, "auto", 0.05);
    PlanInput input;
    input.tensors = Table("dense", "dense", kMany);
    input.world = 2;
    input.ring_codecs = {{.name = "bf16", .wire_ratio = 0.5}};
    coordinator.ChangePlanAfter(1, *MakePlan("single", input));
    input.tensors = Table("sparse", "sparse", kMany);
    coordinator.ChangePlanAfter(2, *MakePlan("hybrid", input));
    for (int step = 1; step <= 2; ++step) {
      for (Gradient* gradient : {&second, &first}) {
        for (size_t i = 0; i < kMany; ++i) gradient->data[i] = 1.0f + 1e-5f * i;
        ASSERT_TRUE(session.Ready(gradient->id).ok());
      }
      ASSERT_TRUE(session.FinishStep().ok());
    }
    EXPECT_EQ(session.route(first.id), "tree");
    for (Gradient* gradient : {&second, &first}) {  // a rank rounds what it sends, not all
      ASSERT_TRUE(session.Residual(gradient->id, gradient->data).ok());
      coordinator.Alone([&] {
        for (float e : gradient->data) owed += e != 0;
      });
    }
    EXPECT_TRUE(session.Close("").ok());
  });
  // The change to one merged bf16 group rounds in step 2; what it rounded is a residual afterwards.
  EXPECT_GT(owed, kMany / 2);
}

TEST(SessionPlan, ASkippedStepAndAChangeTogetherLoseNothing) {
  RunJob({.world = 2}, [&](Session& session, GatheringCoordinator& coordinator) {
    Gradient first(session, "first", kPlanElements, "auto", 0.05);
    Gradient second(session, "second", kPlanElements, "auto", 0.05);
    coordinator.ChangePlanAfter(1, PlanOf(Table("sparse", "sparse"), "hybrid"));
    coordinator.ChangePlanAfter(2, PlanOf(Table("dense", "dense"), "hybrid"));
    std::vector<float> total(kPlanElements, 0.0f);
    for (int step = 1; step <= 4; ++step) {
      for (Gradient* gradient : {&second, &first}) {
        for (size_t i = 0; i < kPlanElements; ++i) gradient->data[i] = static_cast<float>(i + step);
        if (step == 3 && session.rank() == 1) gradient->data[5] = NAN;
        ASSERT_TRUE(session.Ready(gradient->id).ok());
      }
      const auto result = session.FinishStep();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->skipped, step == 3);
      if (step == 3) continue;
      for (size_t i = 0; i < kPlanElements; ++i) total[i] += first.data[i];
    }
    for (size_t i = 0; i < kPlanElements; ++i) EXPECT_EQ(total[i], 3.0f * i + 1 + 2 + 4) << i;
    EXPECT_TRUE(session.Close("").ok());
  });
}

TEST(SessionPlan, APlanThatCannotRunEndsTheSessionAfterTheStep) {
  RunJob({.world = 2}, [&](Session& session, GatheringCoordinator& coordinator) {
    Gradient first(session, "first", kPlanElements, "dense");
    coordinator.ChangePlanAfter(1, PlanOf(Table("dense", "dense"), "hybrid"));
    ASSERT_TRUE(session.Ready(first.id).ok());
    ASSERT_TRUE(session.FinishStep().ok());
    const Status late = session.BeginStep(1);
    EXPECT_EQ(late.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(late), HasSubstr("the new plan"));
  });
}

TEST(SessionPlan, ASavedPlanIsFrozenByTheNextJob) {
  const std::string path = testing::TempDir() + "frozen_" + std::to_string(getpid()) + ".json";
  std::string saved;
  for (const bool freeze : {false, true}) {
    Job job{.world = 2};
    job.options = [&](SessionOptions* options) {
      (freeze ? options->freeze_plan : options->save_plan) = path;
      options->planner = freeze ? "single" : "wfbp";  // the file goes before
    };
    RunJob(job, [&](Session& session, GatheringCoordinator&) {
      Gradient first(session, "first", kPlanElements, "dense");
      Gradient second(session, "second", kPlanElements, "dense");
      ASSERT_TRUE(session.Agree().ok());
      if (session.rank() == 0 && !freeze) saved = session.plan_text();
      if (freeze) {
        EXPECT_EQ(session.plan_text(), saved);
      }
      EXPECT_TRUE(session.Close("").ok());
    });
  }
  std::filesystem::remove(path);
}

TEST(SessionPlan, AResumedJobGoesOnWithTheCheckpointsPlan) {
  MemoryStore store;
  std::string before;
  for (const uint64_t base : {0, 2}) {
    const Job job{.world = 2, .base_step = base, .has_checkpoint = base > 0, .store = &store};
    RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
      Gradient first(session, "first", kPlanElements, "auto", 0.05);
      Gradient second(session, "second", kPlanElements, "auto", 0.05);
      coordinator.ChangePlanAfter(1, PlanOf(Table("sparse", "dense"), "hybrid"));
      if (base > 0) {
        ASSERT_TRUE(session.Agree().ok());
        EXPECT_EQ(session.plan_text(), before);
        EXPECT_EQ(session.route(0), "tree");
        EXPECT_TRUE(session.Close("").ok());
        return;
      }
      for (int step = 0; step < 2; ++step) {
        ASSERT_TRUE(session.Ready(first.id).ok());
        ASSERT_TRUE(session.Ready(second.id).ok());
        ASSERT_TRUE(session.FinishStep().ok());
      }
      ASSERT_TRUE(session.Checkpoint({}).ok());
      EXPECT_TRUE(session.Close("").ok());
      if (session.rank() == 0) before = session.plan_text();
    });
  }
}

// What the checkpoint's plan says of it holds no longer than the option.
TEST(SessionPlan, AResumedJobTakesAnotherWireCodecMergeOrNumberOfEntries) {
  const auto options_of = [](SessionOptions* options) {
    options->sparse_codec = "rice/int8";
    options->sparse_keep = 2;
  };
  using Change = std::function<void(SessionOptions*)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"", [](SessionOptions*) {}},
      {"", [](SessionOptions* options) { options->sparse_keep = 0; }},
      {"wire", [](SessionOptions* options) { options->wire = "fp32"; }},
      {"codec", [](SessionOptions* options) { options->sparse_codec = "block16/fp32"; }},
      {"merge", [](SessionOptions* options) { options->sparse_merge = "union"; }},
      {"keep", [](SessionOptions* options) { options->sparse_keep = 3; }}};
  for (const auto& [what, change] : changes) {
    MemoryStore store;
    Plan before, after;
    for (const uint64_t base : {0, 1}) {
      Job job{.base_step = base, .has_checkpoint = base > 0, .store = &store, .wire = "int8"};
      job.options = [&](SessionOptions* options) {
        options_of(options);
        if (base > 0) change(options);
      };
      RunJob(job, [&](Session& session, GatheringCoordinator&) {
        Gradient dense(session, "dense", kPlanElements, "dense");
        Gradient sparse(session, "sparse", kPlanElements, "sparse", 0.05);
        ASSERT_TRUE(session.Ready(dense.id).ok());
        ASSERT_TRUE(session.Ready(sparse.id).ok());
        ASSERT_TRUE(session.FinishStep().ok());
        ASSERT_TRUE(session.Checkpoint({}).ok());
        if (session.rank() == 0) (base == 0 ? before : after) = session.plan();
        EXPECT_TRUE(session.Close("").ok());
      });
    }
    ASSERT_EQ(after.groups.size(), 2u);
    for (const Group& group : after.groups) {
      if (group.route == "ring") {
        EXPECT_EQ(group.codec, what == "wire" ? "fp32" : "int8") << what;
      } else {
        EXPECT_EQ(group.codec, what == "codec" ? "block16/fp32" : "rice/int8") << what;
        EXPECT_EQ(group.merge, what == "merge" ? "union" : "gtopk") << what;
        const double keep = what == "keep" ? 3 : what == "merge" ? 1 : 2;  // a union keeps all
        EXPECT_EQ(group.keep, keep) << what;
      }
    }
    EXPECT_EQ(Hash(after) == Hash(before), what.empty()) << what;
  }
}

TEST(SessionPlan, AnAdaptiveJobReviewsItsPlanAndWritesItsProfile) {
  Job job{.world = 2};
  const std::string path = testing::TempDir() + "profile_" + std::to_string(getpid()) + ".csv";
  job.options = [&](SessionOptions* options) {
    options->adapt = true;
    options->profile = path;
  };
  uint64_t reviews = 0;
  RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
    std::vector<std::unique_ptr<Gradient>> gradients;
    for (int t = 0; t < 8; ++t) {
      gradients.push_back(
          std::make_unique<Gradient>(session, "t" + std::to_string(t), 1000, "dense"));
    }
    for (int step = 0; step < 40; ++step) {
      for (auto& gradient : gradients) {
        std::fill(gradient->data.begin(), gradient->data.end(), 1.0f + step + session.rank());
        ASSERT_TRUE(session.Ready(gradient->id).ok());
      }
      ASSERT_TRUE(session.FinishStep().ok());
      for (auto& gradient : gradients) {
        EXPECT_THAT(gradient->data, testing::Each(1.5f + step));
      }
    }
    EXPECT_TRUE(session.Close("").ok());
    if (session.rank() == 0) coordinator.Alone([&] { reviews = coordinator.reviews(); });
  });
  EXPECT_GE(reviews, 1u);
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove(path);
}

// The plan that rank 0 proposes first, where a hop takes 50 ms.
Plan FirstPlan(const std::function<void(SessionOptions*)>& set) {
  SessionOptions options;
  options.rank = 0;
  options.world = 4;
  set(&options);
  TensorTable table(options);
  std::vector<float> data(1000);
  for (int t = 0; t < 40; ++t) {
    table.Add({.spec = {"t" + std::to_string(t), data.size(), "auto", 0.01}, .data = data.data()});
  }
  const Place place{.rank = 0, .world = 4, .hosts = OneEach(4), .servers = 1};
  Replanner replanner(options, table);
  replanner.TakeLink({.bytes_per_second = 0.956e9 / 8, .hop_seconds = 0.05});
  Restore* const none = nullptr;
  const StatusOr<Plan> first = ProposePlan(options, place, replanner.network(), table, none, {}, 0);
  EXPECT_TRUE(first.ok()) << first.status();
  return *first;
}

TEST(SessionPlan, TheFirstPlanIsForTheNetworkThatWasMeasured) {
  const uint64_t measured = Hash(FirstPlan([](SessionOptions*) {}));
  const auto far = [](SessionOptions* options) { options->plan_for = "1gbit,50ms"; };
  EXPECT_EQ(Hash(FirstPlan(far)), measured);
  const auto near = [](SessionOptions* options) { options->plan_for = "1gbit"; };
  EXPECT_NE(Hash(FirstPlan(near)), measured) << "the user's word goes before";
}

// A tree's velocity is each rank's own, and so is its residual: on a ring both would reach the
// optimizer's momentum, ten times what they are.
TEST(SessionPlan, TensorsWithMomentumKeepTheirRouteInAnotherWorld) {
  SessionOptions options;
  options.rank = 0;
  TensorTable table(options);
  std::vector<float> data(100'000);
  for (const bool momentum : {false, true}) {
    Tensor tensor{.spec = {momentum ? "with" : "without", data.size(), "auto", 0.01},
                  .data = data.data()};
    if (momentum) tensor.momentum = 0.9;
    table.Add(tensor);
  }
  const auto planned = [&](int world, const char* network, const v1::SavedPlan& before) {
    const Place place{.rank = 0, .world = world, .hosts = OneEach(world), .servers = 1};
    options.world = world;
    const Plan plan =
        *ProposePlan(options, place, *ParsePlannedNetwork(network), table, nullptr, before, 0);
    std::map<std::string, std::string> routes;
    for (const Group& group : plan.groups) {
      for (const uint32_t index : group.tensors) routes[table.Specs()[index].name] = group.route;
    }
    return std::pair(routes, SavedPlanOf(plan, table, place));
  };
  using Routes = std::map<std::string, std::string>;
  const auto [slow, of_slow] = planned(4, "100mbit", {});
  EXPECT_EQ(slow, (Routes{{"with", "tree"}, {"without", "tree"}}));
  const auto [alone, of_alone] = planned(1, "100mbit", of_slow);
  EXPECT_EQ(alone, (Routes{{"with", "tree"}, {"without", "ring"}}));
  EXPECT_EQ(planned(4, "100mbit", of_alone).first, slow);
  const auto [first_alone, of_first] = planned(1, "100mbit", {});
  EXPECT_EQ(first_alone, (Routes{{"with", "ring"}, {"without", "ring"}}));
  EXPECT_EQ(planned(4, "100mbit", of_first).first, slow) << "alone there was nothing to choose";
  const auto [fast, of_fast] = planned(2, "400gbit", {});
  EXPECT_EQ(fast, (Routes{{"with", "ring"}, {"without", "ring"}}));
  EXPECT_EQ(planned(4, "100mbit", of_fast).first, (Routes{{"with", "ring"}, {"without", "tree"}}));
}

// Hosts in one process are as fast as its memory, and plans for any of these networks give the same
// sums.
TEST(SessionPlan, SumsStayWhatTheyAreOnAnyNetwork) {
  for (const char* plan_for : {"measured", "10mbit,20ms", "1gbit", "100gbit"}) {
    Job job{.world = 3};
    job.options = [&](SessionOptions* options) {
      options->plan_for = plan_for;
      options->network_interface = "card";
      options->host = "host" + std::to_string(options->rank);
    };
    RunJob(job, [&](Session& session, GatheringCoordinator&) {
      std::vector<std::unique_ptr<Gradient>> gradients;
      for (int t = 0; t < 12; ++t) {
        gradients.push_back(std::make_unique<Gradient>(session, "t" + std::to_string(t),
                                                       t % 3 == 0 ? 40'000 : 300, "dense"));
      }
      for (int step = 0; step < 4; ++step) {
        for (auto& gradient : gradients) {
          std::fill(gradient->data.begin(), gradient->data.end(), 3.0f * (step + session.rank()));
          ASSERT_TRUE(session.Ready(gradient->id).ok());
        }
        ASSERT_TRUE(session.FinishStep().ok());
        for (auto& gradient : gradients) {
          EXPECT_THAT(gradient->data, testing::Each(3.0f * step + 3)) << plan_for;
        }
      }
      EXPECT_TRUE(session.Close("").ok());
    });
  }
}

TEST(SessionPlan, APlanFrozenForAnotherWorldIsSaid) {
  const std::string path = testing::TempDir() + "world_" + std::to_string(getpid()) + ".json";
  testing::internal::CaptureStderr();
  for (const int world : {2, 3}) {
    Job job{.world = world};
    job.options = [&](SessionOptions* options) {
      (world == 2 ? options->save_plan : options->freeze_plan) = path;
    };
    RunJob(job, [](Session& session, GatheringCoordinator&) {
      Gradient first(session, "first", kPlanElements, "dense");
      EXPECT_TRUE(session.Agree().ok());
    });
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("was made for 2 workers and 0 servers, here are 3 and 0"));
  std::filesystem::remove(path);
}

// Measures when the exchanges of a plan are made, which is before the event.
class MemoryObserver : public Observer {
 public:
  explicit MemoryObserver(std::vector<size_t>* seen) : seen_(seen) {}
  void PlanAdopted(const Plan&, const std::vector<TensorSpec>&, uint64_t) override {
    seen_->push_back(mallinfo2().hblkhd);
  }

 private:
  std::vector<size_t>* const seen_;
};

TEST(SessionPlan, AChangeOfPlanHoldsTheBuffersOfOne) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator does not count";
#endif
  constexpr size_t kLarge = 8 << 20;
  std::vector<size_t> seen;
  Job job{.world = 2};
  job.observer = [&](int rank) -> std::unique_ptr<Observer> {
    if (rank == 0) return std::make_unique<MemoryObserver>(&seen);
    return std::make_unique<Observer>();
  };
  constexpr size_t kBuffers = 2 * 2 * kLarge * sizeof(float);  // of a rank: inputs and sums
  std::atomic<int> registered{0};
  size_t before = 0;
  RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
    Gradient first(session, "first", kLarge, "dense");
    Gradient second(session, "second", kLarge, "dense");
    coordinator.ChangePlanAfter(1, PlanOf(Table("dense", "dense", kLarge), "single"));
    ++registered;
    while (registered < 2) std::this_thread::yield();
    if (session.rank() == 0) before = mallinfo2().hblkhd;  // the other one waits for this rank
    for (int step = 0; step < 2; ++step) {
      ASSERT_TRUE(session.Ready(first.id).ok());
      ASSERT_TRUE(session.Ready(second.id).ok());
      ASSERT_TRUE(session.FinishStep().ok());
    }
  });
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_GT(seen[0], before);
  EXPECT_LT(seen[1], before + 2 * kBuffers + kBuffers / 2);
}

TEST(SessionPlan, AMissingFrozenPlanIsNamed) {
  Job job{.world = 1};
  job.options = [](SessionOptions* options) { options->freeze_plan = "/no/such/plan.json"; };
  RunJob(job, [](Session& session, GatheringCoordinator&) {
    Gradient first(session, "first", kPlanElements, "dense");
    EXPECT_THAT(Message(session.Agree()), HasSubstr("/no/such/plan.json"));
  });
}

}  // namespace
}  // namespace ringwood

#include "client/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <new>
#include <numeric>

#include "base/random.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TEST(Session, TheResultIsTheWeightedAverageOnEveryRank) {
  for (int world : {1, 2, 3, 5}) {
    RunJob({.world = world}, [&](Session& session, GatheringCoordinator&) {
      Gradient small(session, "small", 7, "dense");
      Gradient large(session, "large", 5000, "dense");
      for (int step = 0; step < 3; ++step) {
        const float rank = static_cast<float>(session.rank());
        std::fill(small.data.begin(), small.data.end(), rank + step);
        std::fill(large.data.begin(), large.data.end(), -rank);
        ASSERT_TRUE(session.BeginStep(rank + 1).ok());
        ASSERT_TRUE(session.Ready(large.id).ok());
        ASSERT_TRUE(session.Ready(small.id).ok());
        const auto result = session.FinishStep();
        ASSERT_TRUE(result.ok()) << result.status();
        double total = 0, sum_small = 0, sum_large = 0;
        for (int r = 0; r < world; ++r) {
          total += r + 1;
          sum_small += (r + 1.0) * (r + step);
          sum_large -= (r + 1.0) * r;
        }
        EXPECT_EQ(result->total_weight, total);
        EXPECT_EQ(result->step, step + 1u);
        EXPECT_THAT(small.data, Each(static_cast<float>(sum_small / total)));
        EXPECT_THAT(large.data, Each(static_cast<float>(sum_large / total)));
      }
      EXPECT_TRUE(session.Close("").ok());
    });
  }
}

// On integers, exactly: what was applied and what remains is what came in.
TEST(Session, SparseStepsLoseNothing) {
  constexpr int kWorld = 3;
  constexpr size_t kElements = 4000;
  std::vector<std::vector<double>> gradients(kWorld, std::vector<double>(kElements, 0.0));
  std::vector<std::vector<float>> residuals(kWorld, std::vector<float>(kElements));
  std::vector<double> applied(kElements, 0.0);
  RunJob({.world = kWorld}, [&](Session& session, GatheringCoordinator&) {
    const int rank = session.rank();
    Gradient sparse(session, "sparse", kElements, "sparse", 0.02);
    Random random(rank);
    for (int step = 0; step < 6; ++step) {
      for (size_t i = 0; i < kElements; ++i) {
        sparse.data[i] = static_cast<float>(random.Below(21)) - 10;
        gradients[rank][i] += sparse.data[i];
      }
      ASSERT_TRUE(session.Ready(sparse.id).ok());
      ASSERT_TRUE(session.FinishStep().ok());
      if (rank == 0) {
        for (size_t i = 0; i < kElements; ++i) applied[i] += std::rint(sparse.data[i] * kWorld);
      }
    }
    ASSERT_TRUE(session.Residual(sparse.id, residuals[rank]).ok());
    EXPECT_TRUE(session.Close("").ok());
  });
  size_t nonzero = 0;
  for (size_t i = 0; i < kElements; ++i) {
    double in = 0, left = 0;
    for (int r = 0; r < kWorld; ++r) {
      in += gradients[r][i];
      left += residuals[r][i];
    }
    EXPECT_EQ(in, applied[i] + left) << "element " << i;
    nonzero += applied[i] != 0;
  }
  EXPECT_GT(nonzero, 100u);
}

TEST(Session, ANotANumberOnOneRankSkipsTheStepOnAll) {
  RunJob({.world = 3}, [](Session& session, GatheringCoordinator&) {
    Gradient dense(session, "dense", 10, "dense");
    Gradient sparse(session, "sparse", 1000, "sparse");
    std::fill(dense.data.begin(), dense.data.end(), 1.0f);
    std::iota(sparse.data.begin(), sparse.data.end(), 0.0f);
    if (session.rank() == 1) dense.data[3] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> before = sparse.data;
    ASSERT_TRUE(session.Ready(sparse.id).ok());
    ASSERT_TRUE(session.Ready(dense.id).ok());
    const auto result = session.FinishStep();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->skipped);
    EXPECT_EQ(sparse.data, before);
    std::vector<float> residual(1000, 1.0f);
    ASSERT_TRUE(session.Residual(sparse.id, residual).ok());
    EXPECT_THAT(residual, Each(0.0f));
    EXPECT_TRUE(session.Close("").ok());
  });
}

TEST(Session, AFailureLeavesGradientsAndResidualsAsTheyWere) {
  RunJob({.world = 2}, [](Session& session, GatheringCoordinator& coordinator) {
    Gradient dense(session, "dense", 100, "dense");
    Gradient sparse(session, "sparse", 1000, "sparse");
    std::fill(dense.data.begin(), dense.data.end(), 3.0f);
    std::iota(sparse.data.begin(), sparse.data.end(), 0.0f);
    ASSERT_TRUE(session.Ready(dense.id).ok());
    ASSERT_TRUE(session.Ready(sparse.id).ok());
    ASSERT_TRUE(session.FinishStep().ok());
    const std::vector<float> dense_before = dense.data, sparse_before = sparse.data;
    std::vector<float> before(1000), after(1000);
    ASSERT_TRUE(session.Residual(sparse.id, before).ok());
    // The announcement may come before, between or after these.
    (void)session.Ready(dense.id);
    (void)session.Ready(sparse.id);
    if (session.rank() == 1) {
      coordinator.Fail(Unavailable("rank 1 (host localhost) failed in epoch 1 at step 2: gone"));
    }
    // On rank 1, too: its exchange reads the gradients until then.
    const auto result = session.FinishStep();
    EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(Message(result.status()), HasSubstr("rank 1 (host localhost)"));
    EXPECT_THAT(Message(result.status()), HasSubstr("step 2"));
    EXPECT_EQ(dense.data, dense_before);
    EXPECT_EQ(sparse.data, sparse_before);
    ASSERT_TRUE(session.Residual(sparse.id, after).ok());
    EXPECT_EQ(before, after);
    EXPECT_EQ(session.FinishStep().status().code(), StatusCode::kUnavailable);
  });
}

TEST(Session, ReadySaysNothingOfAFailureButTheCoordinatorsWords) {
  const Status verdict = Unavailable("rank 1 (host localhost) failed in epoch 1 at step 2: gone");
  RunJob({.world = 2}, [&](Session& session, GatheringCoordinator& coordinator) {
    Gradient first(session, "first", 100, "dense");
    Gradient second(session, "second", 100, "dense");
    for (const Gradient* gradient : {&first, &second}) {
      ASSERT_TRUE(session.Ready(gradient->id).ok());
    }
    ASSERT_TRUE(session.FinishStep().ok());
    (void)session.Ready(first.id);  // the other rank may have been faster
    coordinator.Fail(verdict);
    EXPECT_EQ(session.Ready(second.id), verdict);
    EXPECT_EQ(session.FinishStep().status(), verdict);
  });
}

TEST(Session, MisuseIsATypedErrorThatNamesTheTensor) {
  RunJob({.world = 1}, [](Session& session, GatheringCoordinator&) {
    EXPECT_EQ(session.Ready(0).code(), StatusCode::kInvalidArgument);
    Gradient first(session, "first", 10, "dense");
    Gradient second(session, "second", 10, "dense");
    std::vector<float> more(10);
    EXPECT_EQ(session.Register({{"first", 10, "dense", 0.1}, more.data()}).status().code(),
              StatusCode::kAlreadyExists);
    EXPECT_EQ(session.Register({{"null", 10, "dense", 0.1}, nullptr}).status().code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(session.Register({{"route", 10, "boat", 0.1}, more.data()}).status().code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(session.Register({{"density", 10, "sparse", 1.5}, more.data()}).status().code(),
              StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(session.FinishStep().status()), HasSubstr("2 of 2"));
    ASSERT_TRUE(session.Ready(first.id).ok());
    EXPECT_EQ(session.Ready(first.id).code(), StatusCode::kAlreadyExists);
    EXPECT_THAT(Message(session.Ready(first.id)), HasSubstr("'first'"));
    EXPECT_EQ(session.BeginStep(1).code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(session.Rebind(first.id, more.data()).code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(session.Register({{"late", 10, "dense", 0.1}, more.data()}).status().code(),
              StatusCode::kFailedPrecondition);
    const Status missing = session.FinishStep().status();
    EXPECT_EQ(missing.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(missing), HasSubstr("second"));
    ASSERT_TRUE(session.Ready(second.id).ok());
    EXPECT_TRUE(session.FinishStep().ok());  // the step was still open
    for (const double weight : {-1.0, 1e-40, 1e-46, 1e39}) {
      EXPECT_EQ(session.BeginStep(weight).code(), StatusCode::kInvalidArgument) << weight;
    }
    EXPECT_EQ(session.Ready(77).code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(session.Close("").ok());
    EXPECT_EQ(session.Close("").code(), StatusCode::kFailedPrecondition);
  });
}

TEST(Session, AReboundGradientIsReadAndWrittenAtItsNewPlace) {
  RunJob({.world = 2}, [](Session& session, GatheringCoordinator&) {
    Gradient dense(session, "dense", 10, "dense");
    std::vector<float> moved(10, session.rank() + 1.0f);
    ASSERT_TRUE(session.Rebind(dense.id, moved.data()).ok());
    ASSERT_TRUE(session.Ready(dense.id).ok());
    ASSERT_TRUE(session.FinishStep().ok());
    EXPECT_THAT(moved, Each(1.5f));
    EXPECT_THAT(dense.data, Each(0.0f));
    EXPECT_TRUE(session.Close("").ok());
  });
}

TEST(Session, CollectivesWorkBeforeAndBetweenSteps) {
  RunJob({.world = 3}, [](Session& session, GatheringCoordinator&) {
    std::vector<int64_t> counts(5, session.rank());
    const auto bytes = std::as_writable_bytes(std::span(counts));
    ASSERT_TRUE(session.AllReduce(bytes, DataType::kInt64, ReduceOp::kSum).ok());
    EXPECT_THAT(counts, Each(3));
    EXPECT_EQ(session.AllReduce(bytes, DataType::kInt64, ReduceOp::kAverage).code(),
              StatusCode::kInvalidArgument);
    std::vector<double> values(5, session.rank());
    const auto doubles = std::as_writable_bytes(std::span(values));
    ASSERT_TRUE(session.AllReduce(doubles, DataType::kFloat64, ReduceOp::kAverage).ok());
    EXPECT_THAT(values, Each(1.0));
    // More than one piece.
    std::vector<std::byte> large(Collectives::kPieceBytes + 1000,
                                 static_cast<std::byte>(session.rank() + 1));
    ASSERT_TRUE(session.Broadcast(large, 2).ok());
    EXPECT_EQ(large.front(), std::byte{3});
    EXPECT_EQ(large.back(), std::byte{3});
    EXPECT_EQ(session.Broadcast(large, 3).code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(session.Close("").ok());
  });
}

TEST(Session, ARootDoesNotRunAheadOfARankThatIsLate) {
  absl::Notification begun;
  RunJob({.world = 2}, [&](Session& session, GatheringCoordinator&) {
    std::vector<std::byte> data(50 << 20), last(1000);
    if (session.rank() == 0) {
      std::ranges::fill(data, std::byte{7});
      begun.Notify();
    } else {
      begun.WaitForNotification();
      absl::SleepFor(absl::Milliseconds(200));  // the root could send all of it meanwhile
    }
    for (int i = 0; i < 2; ++i) {
      const Status sent = session.Broadcast(data, 0);
      ASSERT_TRUE(sent.ok()) << sent;
      EXPECT_EQ(data.back(), std::byte{7});
    }
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(session.Broadcast(last, i % 2).ok());
    EXPECT_TRUE(session.Close("").ok());
  });
}

TEST(Session, CollectivesOfManyPiecesKeepTheirBuffers) {
  constexpr size_t kElements = 5 * Collectives::kPieceBytes / sizeof(int32_t) / 2 + 7;
  RunJob({.world = 3}, [](Session& session, GatheringCoordinator&) {
    const auto value = [](size_t i, int rank) {
      return static_cast<int32_t>(i % 1000) * (rank + 1);
    };
    std::vector<int32_t> data(kElements);
    const auto bytes = std::as_writable_bytes(std::span(data));
    for (size_t i = 0; i < kElements; ++i) data[i] = value(i, session.rank());
    ASSERT_TRUE(session.AllReduce(bytes, DataType::kInt32, ReduceOp::kSum).ok());
    for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(data[i], value(i, 5)) << i;  // 1 + 2 + 3
    for (size_t i = 0; i < kElements; ++i) data[i] = value(i, session.rank());
    ASSERT_TRUE(session.ReduceScatter(bytes, DataType::kInt32, ReduceOp::kMax).ok());
    const Range share = CutEvenly(kElements, session.world())[session.rank()];
    for (size_t i = 0; i < kElements; ++i) {
      const bool mine = i >= share.begin && i < share.begin + share.count;
      ASSERT_EQ(data[i], value(i, mine ? 2 : session.rank())) << i;
    }
    ASSERT_TRUE(session.AllGather(bytes, DataType::kInt32).ok());
    for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(data[i], value(i, 2)) << i;
    EXPECT_TRUE(session.Close("").ok());
  });
}

// Memory in blocks that malloc asks the kernel for one by one, as it does for large ones.
size_t LargeBlocks() { return mallinfo2().hblkhd; }

TEST(Session, AWorldOfOneNeedsNoExchangeBuffers) {
  constexpr size_t kElements = 64 << 20 >> 2;
  RunJob({.world = 1}, [](Session& session, GatheringCoordinator&) {
    Gradient gradient(session, "w", kElements, "dense");
    const size_t before = LargeBlocks();
    for (int step = 1; step < 3; ++step) {
      std::fill(gradient.data.begin(), gradient.data.end(), 0.1f);
      ASSERT_TRUE(session.BeginStep(3).ok());
      ASSERT_TRUE(session.Ready(gradient.id).ok());
      const auto result = session.FinishStep();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_FALSE(result->skipped);
      EXPECT_EQ(gradient.data[kElements - 1], 0.1f);
    }
    EXPECT_LT(LargeBlocks(), before + kElements);
    gradient.data[7] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_TRUE(session.Ready(gradient.id).ok());
    const auto result = session.FinishStep();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->skipped);
    EXPECT_EQ(gradient.data[0], 0.1f);
  });
}

// Fails when it is told of the step that is applied.
class ThrowingObserver : public Observer {
 public:
  void Applied(uint64_t round, TimePoint) override {
    if (round == 2) throw std::bad_alloc();
  }
};

TEST(Session, WhatIsThrownWhileAStepIsAppliedEndsTheSession) {
  Job job{.world = 1};
  job.observer = [](int) { return std::make_unique<ThrowingObserver>(); };
  RunJob(job, [](Session& session, GatheringCoordinator&) {
    Gradient gradient(session, "w", 10, "dense");
    ASSERT_TRUE(session.Ready(gradient.id).ok());
    ASSERT_TRUE(session.FinishStep().ok());
    ASSERT_TRUE(session.Ready(gradient.id).ok());
    const Status thrown = session.FinishStep().status();
    EXPECT_EQ(thrown.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(Message(thrown), HasSubstr("step 2 was committed and is applied in part"));
    EXPECT_EQ(session.FinishStep().status(), thrown);  // it is not applied again
    EXPECT_THAT(Message(session.Ready(gradient.id)), HasSubstr(Message(thrown)));
    EXPECT_EQ(session.step(), 1u);
  });
}

// Trains `steps` from `base`; returns the digest of weights and residual a rank ends with.
std::vector<uint64_t> Train(uint64_t base, uint64_t steps, MemoryStore* store, bool save) {
  constexpr int kWorld = 3;
  constexpr size_t kElements = 3000;
  std::vector<uint64_t> digests(kWorld);
  const Job job{kWorld, 0.9, base, base > 0, store};
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    Gradient gradient(session, "w", kElements, "sparse", 0.01);
    std::vector<float> weights(kElements, 1.0f);
    const auto bytes = std::as_writable_bytes(std::span(weights));
    EXPECT_EQ(session.resumed(), base > 0);
    if (session.resumed()) {
      ASSERT_TRUE(session.RestoreItem("weights", true, bytes).ok());
    }
    while (session.step() < base + steps) {
      Random random(session.step() * 10 + session.rank());
      for (size_t i = 0; i < kElements; ++i) {
        gradient.data[i] = static_cast<float>(random.Unit() - 0.5) + 0.01f * weights[i];
      }
      ASSERT_TRUE(session.Ready(gradient.id).ok());
      ASSERT_TRUE(session.FinishStep().ok());
      for (size_t i = 0; i < kElements; ++i) weights[i] -= 0.1f * gradient.data[i];
    }
    if (save) {
      ASSERT_TRUE(session.Checkpoint({{"weights", true, bytes}}).ok());
      ASSERT_TRUE(session.CheckpointWait().ok());
    }
    std::vector<float> residual(kElements);
    ASSERT_TRUE(session.Residual(gradient.id, residual).ok());
    digests[session.rank()] = Combine(Digest(bytes), Digest(std::as_bytes(std::span(residual))));
    EXPECT_TRUE(session.Close("").ok());
  });
  return digests;
}

TEST(Session, AResumedRunEndsWithTheBitsOfTheUninterruptedOne) {
  MemoryStore store, unused;
  const std::vector<uint64_t> whole = Train(0, 9, &unused, false);
  Train(0, 4, &store, true);
  EXPECT_EQ(Train(4, 5, &store, false), whole);
}

TEST(Session, ATensorThatBecomesDenseAcrossAResumePaysWhatItOwes) {
  constexpr int kWorld = 2;
  constexpr size_t kElements = 500;
  MemoryStore store;
  std::vector<double> in(kElements, 0.0), applied(kElements, 0.0);
  const auto train = [&](uint64_t base, const std::string& route, bool save) {
    const Job job{.world = kWorld, .base_step = base, .has_checkpoint = base > 0, .store = &store};
    RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
      Gradient gradient(session, "w", kElements, route, 0.02);
      for (int step = 0; step < 2; ++step) {
        Random random(session.step() * 10 + session.rank());
        for (float& value : gradient.data) value = static_cast<float>(random.Below(21)) - 10;
        coordinator.Alone([&] {
          for (size_t i = 0; i < kElements; ++i) in[i] += gradient.data[i];
        });
        ASSERT_TRUE(session.Ready(gradient.id).ok());
        ASSERT_TRUE(session.FinishStep().ok());
        if (session.rank() != 0) continue;
        for (size_t i = 0; i < kElements; ++i) applied[i] += gradient.data[i] * kWorld;
      }
      if (save) {
        ASSERT_TRUE(session.Checkpoint({}).ok());
        ASSERT_TRUE(session.CheckpointWait().ok());
      }
      std::vector<float> residual(kElements);
      ASSERT_TRUE(session.Residual(gradient.id, residual).ok());
      const bool owes = std::any_of(residual.begin(), residual.end(), [](float e) { return e; });
      EXPECT_EQ(owes, route == "sparse");
      EXPECT_EQ(session.route(gradient.id), route == "sparse" ? "tree" : "ring");
      EXPECT_EQ(session.route(gradient.id + 1), "");
      EXPECT_TRUE(session.Close("").ok());
    });
  };
  train(0, "sparse", true);
  EXPECT_NE(applied, in);
  train(2, "dense", false);
  EXPECT_EQ(applied, in);
}

// Gradients are whole numbers, so sums are exact whatever their order.
TEST(Session, WhatFourRanksOweIsOwedByAnyOtherNumberOfRanks) {
  constexpr size_t kElements = 500;
  MemoryStore store;
  const auto owed_by = [&](const Job& job, int steps) {
    std::vector<double> sum(kElements, 0.0);
    RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
      Gradient gradient(session, "w", kElements, "sparse", 0.02, 0.5);
      ASSERT_TRUE(session.Agree().ok());
      for (int step = 0; step < steps; ++step) {
        Random random(session.step() * 10 + session.rank());
        for (float& value : gradient.data) value = static_cast<float>(random.Below(21)) - 10;
        ASSERT_TRUE(session.Ready(gradient.id).ok());
        ASSERT_TRUE(session.FinishStep().ok());
      }
      std::vector<float> residual(kElements);
      ASSERT_TRUE(session.Residual(gradient.id, residual).ok());
      coordinator.Alone([&] {
        std::transform(sum.begin(), sum.end(), residual.begin(), sum.begin(), std::plus<>());
      });
      if (steps > 0) {
        ASSERT_TRUE(session.Checkpoint({}).ok());
        ASSERT_TRUE(session.CheckpointWait().ok());
      }
      EXPECT_TRUE(session.Close("").ok());
    });
    return sum;
  };
  const std::vector<double> owed = owed_by({.world = 4, .store = &store}, 3);
  EXPECT_NE(owed, std::vector<double>(kElements, 0.0));
  for (const int world : {1, 2, 3, 4, 8}) {
    EXPECT_EQ(owed_by({.world = world, .base_step = 3, .has_checkpoint = true, .store = &store}, 0),
              owed)
        << world;
  }
}

TEST(Session, ATensorsOwnMomentumGoesBeforeTheSessions) {
  std::map<std::string, std::vector<float>> residuals;
  RunJob({.world = 1, .momentum = 0.9}, [&](Session& session, GatheringCoordinator&) {
    std::vector<std::unique_ptr<Gradient>> gradients;
    gradients.push_back(std::make_unique<Gradient>(session, "session", 100, "sparse", 0.01));
    gradients.push_back(std::make_unique<Gradient>(session, "none", 100, "sparse", 0.01, 0.0));
    gradients.push_back(std::make_unique<Gradient>(session, "same", 100, "sparse", 0.01, 0.9));
    std::vector<float> data(100);
    const Tensor wrong{.spec = {"wrong", 100, "sparse", 0.1}, .data = data.data(), .momentum = 1.0};
    EXPECT_EQ(session.Register(wrong).status().code(), StatusCode::kInvalidArgument);
    for (int step = 0; step < 2; ++step) {
      for (auto& gradient : gradients) {
        std::iota(gradient->data.begin(), gradient->data.end(), 1.0f);
        ASSERT_TRUE(session.Ready(gradient->id).ok());
      }
      ASSERT_TRUE(session.FinishStep().ok());
    }
    for (const auto& [name, id] : {std::pair("session", 0), {"none", 1}, {"same", 2}}) {
      residuals[name].resize(100);
      ASSERT_TRUE(session.Residual(id, residuals[name]).ok());
    }
    EXPECT_TRUE(session.Close("").ok());
  });
  // Element 0 is never picked: 1 + 1 without momentum, 1 + (0.9 + 1) with it.
  EXPECT_FLOAT_EQ(residuals["none"][0], 2.0f);
  EXPECT_FLOAT_EQ(residuals["session"][0], 2.9f);
  EXPECT_EQ(residuals["same"], residuals["session"]);
}

TEST(Session, CheckpointNamesOfItsOwnAreRefusedToTheCaller) {
  RunJob({.world = 1}, [](Session& session, GatheringCoordinator&) {
    EXPECT_EQ(session.Checkpoint({{"ringwood/residual/x", false, {}}}).code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(session.RestoreBytes("w", true).status().code(), StatusCode::kNotFound);
    EXPECT_TRUE(session.Close("").ok());
  });
}

}  // namespace
}  // namespace ringwood

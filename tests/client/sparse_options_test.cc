// What users choose for sparse tensors, in sessions: clipping, momentum masking, how much comes
// down.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

constexpr size_t kElements = 64;

// A norm of 16 clipped to 16 / sqrt(4): every gradient counts half, exactly, and what counts is
// applied or owed.
TEST(SparseOptions, AClippedGradientIsAllThatIsAppliedAndOwed) {
  constexpr int kWorld = 4;
  Job job{.world = kWorld};
  job.options = [](SessionOptions* options) { options->clip_norm = 16; };
  std::vector<double> in(kElements, 0.0), out(kElements, 0.0);
  RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
    Gradient gradient(session, "sparse", kElements, "sparse", 0.1);
    for (int step = 0; step < 5; ++step) {
      std::fill(gradient.data.begin(), gradient.data.end(), 0.0f);
      for (int i = 0; i < 4; ++i) gradient.data[(7 * step + 13 * i + session.rank()) % 64] = 8;
      coordinator.Alone([&] {
        for (size_t i = 0; i < kElements; ++i) in[i] += 0.5 * gradient.data[i];
      });
      ASSERT_TRUE(session.Ready(gradient.id).ok());
      ASSERT_TRUE(session.FinishStep().ok());
      if (session.rank() != 0) continue;
      for (size_t i = 0; i < kElements; ++i) out[i] += kWorld * gradient.data[i];
    }
    std::vector<float> owed(kElements);
    ASSERT_TRUE(session.Residual(gradient.id, owed).ok());
    coordinator.Alone([&] {
      for (size_t i = 0; i < kElements; ++i) out[i] += owed[i];
    });
    EXPECT_TRUE(session.Close("").ok());
  });
  EXPECT_EQ(in, out);
}

TEST(SparseOptions, ATensorsOwnClipNormGoesBeforeTheSessions) {
  Job job{.world = 1};
  job.options = [](SessionOptions* options) { options->clip_norm = 1; };
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    std::vector<std::unique_ptr<std::vector<float>>> memory;
    const auto add = [&](const char* name, std::optional<double> clip_norm) {
      memory.push_back(std::make_unique<std::vector<float>>(kElements, 1.0f));  // norm 8
      Tensor tensor;
      tensor.spec = {name, kElements, "sparse", 1};
      tensor.data = memory.back()->data();
      tensor.clip_norm = clip_norm;
      ASSERT_TRUE(session.Register(tensor).ok());
    };
    add("session's", std::nullopt);
    add("own", 4);
    add("none", 0);
    Tensor wrong;
    wrong.spec = {"wrong", kElements, "sparse", 1};
    wrong.data = memory[0]->data();
    wrong.clip_norm = -1;
    EXPECT_THAT(Message(session.Register(wrong).status()), testing::HasSubstr("clip_norm = -1"));
    for (int id = 0; id < 3; ++id) ASSERT_TRUE(session.Ready(id).ok());
    ASSERT_TRUE(session.FinishStep().ok());
    EXPECT_THAT(*memory[0], testing::Each(0.125f));
    EXPECT_THAT(*memory[1], testing::Each(0.5f));
    EXPECT_THAT(*memory[2], testing::Each(1.0f));
    EXPECT_TRUE(session.Close("").ok());
  });
}

// The first entry is applied in step 1; in step 2 its gradient is 0.
std::vector<float> SecondStep(bool masking, double density) {
  std::vector<float> second;
  Job job{.world = 1, .momentum = 0.5};
  job.options = [&](SessionOptions* options) { options->momentum_masking = masking; };
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    Gradient gradient(session, "sparse", kElements, "sparse", density);
    for (const float value : {8.0f, 0.0f}) {
      std::fill(gradient.data.begin(), gradient.data.end(), 0.0f);
      gradient.data[0] = value;
      ASSERT_TRUE(session.Ready(gradient.id).ok());
      ASSERT_TRUE(session.FinishStep().ok());
    }
    second = gradient.data;
    EXPECT_TRUE(session.Close("").ok());
  });
  return second;
}

TEST(SparseOptions, MaskingClearsTheVelocityOfWhatWasAppliedWhereFewEntriesAre) {
  EXPECT_EQ(SecondStep(true, 0.02)[0], 0);
  EXPECT_EQ(SecondStep(false, 0.02)[0], 4);
  EXPECT_EQ(SecondStep(true, 0.25)[0], 4);  // a dense stage: the velocity goes on
}

TEST(SparseOptions, AResultOfMoreOrFewerEntriesLosesNothing) {
  for (const double keep : {0.5, 3.0, 1000.0}) {
    for (const bool reducer : {false, true}) {
      constexpr int kWorld = 3;
      constexpr uint64_t kEntries = 6;  // a tenth of 64
      std::vector<double> in(kElements, 0.0), out(kElements, 0.0);
      size_t most = 0;
      Job job{.world = kWorld, .reducer = reducer};
      job.options = [&](SessionOptions* options) { options->sparse_keep = keep; };
      RunJob(job, [&](Session& session, GatheringCoordinator& coordinator) {
        Gradient gradient(session, "sparse", kElements, "sparse", 0.1);
        for (int step = 0; step < 6; ++step) {
          Random random(step * 10 + session.rank());
          for (float& value : gradient.data) value = static_cast<float>(random.Below(201)) - 100;
          coordinator.Alone([&] {
            for (size_t i = 0; i < kElements; ++i) in[i] += gradient.data[i];
          });
          ASSERT_TRUE(session.Ready(gradient.id).ok());
          ASSERT_TRUE(session.FinishStep().ok());
          if (session.rank() != 0) continue;
          for (size_t i = 0; i < kElements; ++i) out[i] += std::rint(kWorld * gradient.data[i]);
          most = std::max<size_t>(
              most, kElements - std::count(gradient.data.begin(), gradient.data.end(), 0.0f));
        }
        std::vector<float> owed(kElements);
        ASSERT_TRUE(session.Residual(gradient.id, owed).ok());
        coordinator.Alone([&] {
          for (size_t i = 0; i < kElements; ++i) out[i] += owed[i];
        });
        EXPECT_TRUE(session.Close("").ok());
      });
      EXPECT_EQ(in, out) << keep;
      EXPECT_LE(most, keep * kEntries);
      if (keep < 1) {
        EXPECT_EQ(most, kEntries / 2);
      } else {
        EXPECT_GT(most, kEntries);
      }
    }
  }
}

}  // namespace
}  // namespace ringwood

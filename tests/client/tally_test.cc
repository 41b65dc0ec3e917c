#include "client/connection/tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/base/at.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::Ge;
using ::testing::SizeIs;

auto Is(double seconds) { return DoubleNear(seconds, 1e-9); }

const std::vector<TensorSpec> kTable = {{"small", 30, "dense", 1}, {"large", 1000, "sparse", 0.01}};

Plan RingAndTree() {
  Plan plan;
  plan.groups.resize(2);
  plan.groups[0] = {.tensors = {0}, .route = "ring", .start_seconds = 1, .end_seconds = 3};
  plan.groups[1] = {.tensors = {1}, .route = "tree", .k = 10, .start_seconds = 0, .end_seconds = 4};
  plan.predicted_seconds = 7;
  return plan;
}

// Data after 1 s, gradients after 3 and 6, exchanged after 8, the commit after 9, applied after 10.
void Play(Tally* tally, uint64_t round, bool skipped = false) {
  tally->RoundBegun(round, At(0));
  tally->Loaded(round, At(1));
  tally->GradientReady(round, 1, At(3));
  tally->GroupStarted(round, 1, At(3));
  tally->GradientReady(round, 0, At(6));
  tally->GroupStarted(round, 0, At(6));
  tally->GroupEnded(round, 1, 700, At(7.5));
  tally->GroupEnded(round, 0, 50, At(8));
  tally->Voted(round, 0, At(8));
  tally->Committed(round, skipped, At(9));
  tally->Applied(round, At(10));
}

v1::MemberReport ReportOf(const Tally& tally) {
  v1::MemberReport report;
  tally.Fill(&report);
  return report;
}

TEST(Tally, PhasesAndLanesAreSumsOverTheAppliedRounds) {
  Tally tally(1234);
  tally.PlanAdopted(RingAndTree(), kTable, 1);
  Play(&tally, 1);
  Play(&tally, 2, true);
  const v1::MemberReport report = ReportOf(tally);
  EXPECT_EQ(report.steps(), 2u);
  EXPECT_EQ(report.skipped_steps(), 1u);
  EXPECT_EQ(report.repeated_steps(), 0u);
  EXPECT_THAT(report.step_seconds(), Is(20));
  EXPECT_THAT(report.loading_seconds(), Is(2));
  EXPECT_THAT(report.forward_seconds(), Is(4));
  EXPECT_THAT(report.backward_seconds(), Is(6));
  EXPECT_THAT(report.exposed_seconds(), Is(4));
  EXPECT_THAT(report.vote_seconds(), Is(2));
  EXPECT_THAT(report.apply_seconds(), Is(2));
  EXPECT_THAT(report.predicted_step_seconds(), Is(14));
  EXPECT_EQ(report.ring().groups(), 2u);
  EXPECT_EQ(report.ring().bytes(), 100u);
  EXPECT_THAT(report.ring().seconds(), Is(4));
  EXPECT_THAT(report.ring().predicted_seconds(), Is(4));
  EXPECT_THAT(report.ring().density(), Is(1));
  EXPECT_EQ(report.tree().bytes(), 1400u);
  EXPECT_THAT(report.tree().seconds(), Is(9));
  EXPECT_THAT(report.tree().predicted_seconds(), Is(8));
  EXPECT_THAT(report.tree().density(), Is(0.01));
  EXPECT_EQ(report.memory_bound_bytes(), 1234u);
  EXPECT_GT(report.resident_bytes(), 0u);
  EXPECT_GE(report.peak_resident_bytes(), report.resident_bytes());
}

TEST(Tally, ARoundThatIsExchangedAgainCountsOnceAndWhatItLostIsExposed) {
  Tally tally(0);
  tally.PlanAdopted(RingAndTree(), kTable, 1);
  tally.RoundBegun(1, At(0));
  tally.GradientReady(1, 1, At(1));
  tally.GradientReady(1, 0, At(2));
  tally.GroupEnded(1, 0, 5000, At(3));
  tally.PlanAdopted(RingAndTree(), kTable, 1);  // of the next epoch
  tally.RoundBegun(1, At(6));
  tally.GradientReady(1, 0, At(6));
  EXPECT_THAT(tally.SinceReady(At(7)), ::testing::Optional(Is(5)));
  tally.GroupStarted(1, 0, At(6));
  tally.GroupEnded(1, 0, 50, At(8));
  tally.Voted(1, 0, At(8));
  tally.Committed(1, false, At(8));
  tally.Applied(1, At(8));
  const v1::MemberReport report = ReportOf(tally);
  EXPECT_EQ(report.steps(), 1u);
  EXPECT_EQ(report.repeated_steps(), 1u);
  EXPECT_EQ(report.ring().bytes(), 50u);
  EXPECT_THAT(report.step_seconds(), Is(8));
  EXPECT_THAT(report.exposed_seconds(), Is(6));
  EXPECT_EQ(tally.SinceReady(At(9)), std::nullopt);
}

TEST(Tally, GroupsOfALaneAtTheSameTimeCountOnce) {
  Tally tally(0);
  Plan plan;
  plan.groups.resize(3);
  for (Group& group : plan.groups) group.route = "tree";
  tally.PlanAdopted(plan, {}, 1);
  tally.RoundBegun(1, At(0));
  tally.GroupStarted(1, 0, At(1));
  tally.GroupStarted(1, 1, At(2));
  tally.GroupEnded(1, 1, 10, At(3));
  tally.GroupEnded(1, 0, 10, At(5));
  tally.GroupStarted(1, 2, At(7));
  tally.GroupEnded(1, 2, 10, At(8));
  tally.Applied(1, At(9));
  EXPECT_EQ(ReportOf(tally).tree().groups(), 3u);
  EXPECT_THAT(ReportOf(tally).tree().seconds(), Is(5));
}

TEST(Tally, ARoundWithoutAGradientIsNeitherLateNorNegative) {
  Tally tally(0);
  tally.RoundBegun(1, At(0));
  EXPECT_EQ(tally.SinceReady(At(1)), std::nullopt);
  tally.Loaded(7, At(1));  // of another round
  tally.Voted(1, 0, At(2));
  tally.Committed(1, false, At(3));
  tally.Applied(1, At(4));
  const v1::MemberReport report = ReportOf(tally);
  EXPECT_THAT(report.step_seconds(), Is(4));
  EXPECT_THAT(report.loading_seconds(), Is(0));
  EXPECT_THAT(report.exposed_seconds(), Is(2));
}

// A report has a fixed number of numbers: nothing in it may grow with the plan or the world.
void ExpectBounded(const google::protobuf::Descriptor* message) {
  for (int i = 0; i < message->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* const field = message->field(i);
    EXPECT_FALSE(field->is_repeated()) << field->full_name();
    EXPECT_NE(field->cpp_type(), google::protobuf::FieldDescriptor::CPPTYPE_STRING);
    if (field->message_type() != nullptr) ExpectBounded(field->message_type());
  }
}

TEST(Tally, AReportIsBounded) { ExpectBounded(v1::MemberReport::descriptor()); }

TEST(Tally, TheLastReportIsTheTrainersOwnAccount) {
  MemoryStore store;
  Job job{.world = 3};
  job.store = &store;
  RunJob(job, [](Session& session, GatheringCoordinator& coordinator) {
    Gradient dense(session, "dense", 100, "dense");
    Gradient sparse(session, "sparse", 5000, "sparse", 0.02);
    uint64_t dense_bytes = 0, sparse_bytes = 0, skipped = 0;
    for (int step = 0; step < 5; ++step) {
      for (float& x : dense.data) x = 1;
      for (size_t i = 0; i < sparse.data.size(); ++i) sparse.data[i] = static_cast<float>(i % 97);
      if (step == 2 && session.rank() == 1) {
        dense.data[0] = std::numeric_limits<float>::quiet_NaN();
      }
      ASSERT_TRUE(session.BeginStep(1).ok());
      ASSERT_TRUE(session.Ready(sparse.id).ok());
      ASSERT_TRUE(session.Ready(dense.id).ok());
      const auto result = session.FinishStep();
      ASSERT_TRUE(result.ok()) << result.status();
      dense_bytes += result->dense_bytes;
      sparse_bytes += result->sparse_bytes;
      skipped += result->skipped;
    }
    ASSERT_TRUE(session.Checkpoint({}).ok());
    ASSERT_TRUE(session.CheckpointWait().ok());
    EXPECT_TRUE(session.Close("").ok());
    const v1::MemberReport report = coordinator.ReportOf(session.rank());
    EXPECT_EQ(report.steps(), 5u);
    EXPECT_EQ(report.skipped_steps(), skipped);
    EXPECT_EQ(skipped, 1u);
    EXPECT_GT(dense_bytes, 0u);
    EXPECT_GT(sparse_bytes, 0u);
    EXPECT_EQ(report.ring().bytes(), dense_bytes);
    EXPECT_EQ(report.tree().bytes(), sparse_bytes);
    EXPECT_EQ(report.checkpoints(), 1u);
    EXPECT_EQ(report.checkpoint_step(), 5u);
    EXPECT_THAT(coordinator.AgesInVotesOf(session.rank()), AllOf(SizeIs(5), Each(Ge(0))));
  });
}

}  // namespace
}  // namespace ringwood

#include "server/status/board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/status/stragglers.h"
#include "tests/base/at.h"

namespace ringwood {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr double kHeartbeat = 1;

auto Is(double value) { return DoubleNear(value, 1e-9); }

// A board that is told what happens to a job of ranks and one reducer.
class Story {
 public:
  void Begin(uint64_t job, uint64_t epoch, uint64_t base, std::vector<uint64_t> incarnations,
             double at) {
    v1::EpochRecord record;
    record.set_job(job);
    record.set_epoch(epoch);
    record.set_base_step(base);
    record.set_world(static_cast<uint32_t>(incarnations.size()));
    incarnations_ = incarnations;
    incarnations_.push_back(99);
    epoch_ = epoch;
    for (size_t node = 0; node < incarnations_.size(); ++node) {
      v1::RecordedMember* const member = record.add_members();
      const bool reducer = node == incarnations.size();
      member->set_role(reducer ? v1::ROLE_REDUCER : v1::ROLE_WORKER);
      member->set_rank(reducer ? 0 : static_cast<uint32_t>(node));
      member->set_host("h1");
      member->set_incarnation(incarnations_[node]);
    }
    Happens(event::Tick{}, {action::Activate{record}}, at);
  }

  void Beat(uint32_t node, const v1::MemberReport& report, double at) {
    event::Heartbeat heard{node + 1u, {}};
    heard.beat.set_epoch(epoch_);
    heard.beat.set_node(node);
    heard.beat.set_incarnation(incarnations_[node]);
    *heard.beat.mutable_report() = report;
    Happens(heard, {}, at);
  }

  void Vote(uint32_t node, uint64_t round, double since, double at, bool commits = false) {
    event::Vote vote{1, {}};
    vote.request.set_epoch(epoch_);
    vote.request.set_round(round);
    vote.request.set_rank(node);
    vote.request.set_incarnation(incarnations_[node]);
    vote.request.set_since_ready_seconds(since);
    v1::Commit commit;
    commit.set_epoch(epoch_);
    commit.set_round(round);
    Actions actions;
    if (commits) actions = {action::Reply{1, commit}, action::Reply{2, commit}};
    Happens(vote, actions, at);
  }

  void Leave(uint32_t node, const v1::MemberReport& report, double at, bool failed = false) {
    event::Leave left{1, {}};
    left.request.set_epoch(epoch_);
    left.request.set_node(node);
    left.request.set_incarnation(incarnations_[node]);
    *left.request.mutable_report() = report;
    left.request.set_failed(failed);
    Happens(left, {}, at);
  }

  void Happens(const Event& event, const Actions& actions, double at) {
    board_.Saw(event, actions, At(at), 1e9 + at);
  }

  v1::StatusResponse Status(double at, const char* phase = "running") {
    v1::StatusResponse status;
    status.set_phase(phase);
    board_.Complete(&status, At(at), 1e9 + at);
    return status;
  }
  Board& board() { return board_; }

 private:
  Board board_{kHeartbeat};
  uint64_t epoch_ = 0;
  std::vector<uint64_t> incarnations_;
};

v1::MemberReport Report(uint64_t steps, uint64_t ring_bytes, double seconds_a_step = 1) {
  v1::MemberReport report;
  report.set_steps(steps);
  report.set_step_seconds(seconds_a_step * static_cast<double>(steps));
  report.set_exposed_seconds(0.25 * seconds_a_step * static_cast<double>(steps));
  report.mutable_ring()->set_bytes(ring_bytes);
  report.set_resident_bytes(7000 + steps);
  return report;
}

TEST(Board, ShowsEachSlotWithWhatItReported) {
  Story story;
  story.Begin(5, 1, 0, {11, 12}, 0);
  story.Beat(0, Report(4, 400), 1);
  story.Beat(0, Report(8, 800), 2);
  story.Beat(1, Report(3, 300), 2);
  const v1::StatusResponse status = story.Status(3);
  ASSERT_EQ(status.slots_size(), 3);
  const v1::SlotState& first = status.slots(0);
  EXPECT_EQ(first.state(), "present");
  EXPECT_EQ(first.totals().steps(), 8u);
  EXPECT_EQ(first.totals().ring().bytes(), 800u);
  EXPECT_EQ(first.totals().resident_bytes(), 7008u);
  EXPECT_THAT(first.step_seconds(), Is(1));
  EXPECT_THAT(first.exposed_seconds(), Is(0.25));
  EXPECT_THAT(first.silence_seconds(), Is(1));
  EXPECT_EQ(first.processes(), 1u);
  EXPECT_EQ(status.slots(1).totals().steps(), 3u);
  EXPECT_EQ(status.slots(2).role(), v1::ROLE_REDUCER);
  EXPECT_EQ(status.slots(2).state(), "silent");  // it has never beaten
  EXPECT_EQ(status.epochs(), 1u);
}

TEST(Board, SumsGoOnWhereASlotsProcessIsStartedAgain) {
  Story story;
  story.Begin(5, 1, 0, {11, 12}, 0);
  story.Beat(0, Report(10, 1000), 1);
  story.Happens(event::StreamBroken{1}, {}, 2);
  EXPECT_EQ(story.Status(2).slots(0).state(), "gone");
  story.Begin(5, 2, 10, {21, 12}, 3);
  story.Beat(0, Report(2, 200), 4);
  const v1::SlotState again = story.Status(4).slots(0);
  EXPECT_EQ(again.state(), "present");
  EXPECT_EQ(again.processes(), 2u);
  EXPECT_EQ(again.totals().steps(), 12u);
  EXPECT_EQ(again.totals().ring().bytes(), 1200u);
  EXPECT_EQ(again.totals().resident_bytes(), 7002u);
  EXPECT_EQ(story.Status(4).slots(1).processes(), 1u);
}

TEST(Board, ASlotThatIsNotInTheEpochStaysWithItsSums) {
  Story story;
  story.Begin(5, 1, 0, {11, 12}, 0);
  story.Beat(1, Report(10, 1000), 1);
  story.Begin(5, 2, 10, {11}, 3);
  const v1::StatusResponse status = story.Status(3);
  ASSERT_EQ(status.slots_size(), 3);
  EXPECT_EQ(status.slots(1).state(), "away");
  EXPECT_FALSE(status.slots(1).has_node());
  EXPECT_EQ(status.slots(1).totals().steps(), 10u);
}

TEST(Board, AnotherJobBeginsAtZero) {
  Story story;
  story.Begin(5, 1, 0, {11, 12}, 0);
  story.Beat(0, Report(10, 1000), 1);
  story.board().Completed(5, {{1, 10}}, 1e9);
  story.Begin(6, 2, 0, {31, 32}, 3);
  const v1::StatusResponse status = story.Status(3);
  EXPECT_EQ(status.slots(0).totals().steps(), 0u);
  EXPECT_THAT(status.checkpoints(), IsEmpty());
}

TEST(Board, TheLastReportCountsAlsoWhenAnOlderOneComesAfterIt) {
  Story story;
  story.Begin(5, 1, 0, {11, 12}, 0);
  story.Leave(0, Report(10, 1000), 1);
  story.Beat(0, Report(9, 900), 1.1);
  const v1::SlotState slot = story.Status(9).slots(0);
  EXPECT_EQ(slot.state(), "left");
  EXPECT_EQ(slot.totals().steps(), 10u);
  EXPECT_EQ(slot.totals().ring().bytes(), 1000u);
}

TEST(Board, StrangersAreNotHeard) {
  Story story;
  story.Begin(5, 2, 0, {11, 12}, 0);
  event::Heartbeat heard{77, {}};
  heard.beat.set_epoch(2);
  heard.beat.set_node(0);
  heard.beat.set_incarnation(666);
  *heard.beat.mutable_report() = Report(1000, 1);
  story.Happens(heard, {}, 1);
  heard.beat.set_incarnation(11);
  heard.beat.set_epoch(1);
  story.Happens(heard, {}, 1);
  heard.beat.set_node(4000);
  heard.beat.set_epoch(2);
  story.Happens(heard, {}, 1);
  EXPECT_EQ(story.Status(1).slots(0).totals().steps(), 0u);
}

// The vote of rank 1 comes last, and so do its gradients; that of rank 0 comes late though its
// gradients were the first.
TEST(Board, LatenessComparesGradientsAndNotVotes) {
  Story story;
  story.Begin(5, 1, 0, {11, 12, 13}, 0);
  story.Vote(2, 1, 0.5, 10);
  story.Vote(0, 1, 2.0, 11);
  story.Vote(1, 1, 0.25, 11, true);
  const v1::StatusResponse status = story.Status(11);
  EXPECT_THAT(status.slots(0).total_late_seconds(), Is(0));
  EXPECT_THAT(status.slots(1).total_late_seconds(), Is(1.75));
  EXPECT_THAT(status.slots(2).total_late_seconds(), Is(0.5));
  EXPECT_EQ(status.slots(1).late_steps(), 1u);
}

TEST(Board, CountsACommitOnceAndKnowsTheRate) {
  Story story;
  story.Begin(5, 1, 0, {11, 12}, 0);
  for (uint64_t round = 1; round <= 5; ++round) {
    const double at = 0.5 * static_cast<double>(round);
    story.Vote(0, round, 0.1, at);
    story.Vote(1, round, 0.1, at, true);
  }
  EXPECT_THAT(story.Status(3).steps_per_second(), Is(2));
  EXPECT_EQ(story.Status(3).slots(0).late_steps(), 5u);
  EXPECT_THAT(story.Status(300).steps_per_second(), Is(0));
  EXPECT_THAT(story.Status(3, "waiting").steps_per_second(), Is(0));
}

TEST(Board, KeepsTheLastEventsAndNamesTheSlot) {
  Story story;
  story.Begin(5, 1, 0, {11, 12}, 0);
  v1::Failure failure;
  failure.set_epoch(1);
  failure.set_node(1);
  failure.set_who("rank 1 (host h1)");
  failure.set_step(3);
  failure.set_reason("its heartbeat stream broke");
  story.Happens(event::Tick{}, {action::Verdict{failure}}, 1);
  v1::StatusResponse status = story.Status(1);
  ASSERT_EQ(status.events_size(), 1);
  EXPECT_EQ(status.events(0).name(), "epoch_failed");
  EXPECT_EQ(status.events(0).slot(), 1u);
  EXPECT_EQ(status.events(0).level(), "warning");
  EXPECT_THAT(status.events(0).text(), HasSubstr("rank 1 (host h1) failed at step 3"));
  EXPECT_EQ(status.failures(), 1u);
  story.Begin(5, 2, 2, {11}, 1.5);  // the next epoch does not forget it
  EXPECT_EQ(story.Status(1.5).last_failure(),
            "rank 1 (host h1) failed at step 3 of epoch 1: its heartbeat stream broke");
  for (int i = 0; i < 1000; ++i) {
    story.Happens(event::Tick{}, {action::Report{"stalled", std::string(10000, 'x')}}, 2);
  }
  status = story.Status(2);
  EXPECT_EQ(static_cast<size_t>(status.events_size()), Board::kMostEvents);
  EXPECT_LT(status.ByteSizeLong(), 200u << 10);
}

TEST(Board, CheckpointsAreShownNewestFirstWithTheirTime) {
  Story story;
  story.Begin(5, 1, 0, {11}, 0);
  story.board().Completed(5, {{1, 10}, {1, 20}}, 100);  // 10 was there before
  story.board().Completed(5, {{1, 20}, {1, 30}}, 200);
  story.board().Completed(8, {{1, 99}}, 300);
  const v1::StatusResponse status = story.Status(1);
  ASSERT_EQ(status.checkpoints_size(), 2);
  EXPECT_EQ(status.checkpoints(0).step(), 30u);
  EXPECT_EQ(status.checkpoints(0).unix_seconds(), 200);
  EXPECT_EQ(status.checkpoints(1).unix_seconds(), 100);
  EXPECT_EQ(status.completed_checkpoints(), 2u);
}

TEST(Board, AServerThatGoesWhenAllRanksHaveLeftIsNotGone) {
  Story story;
  story.Begin(5, 1, 0, {11, 12}, 0);
  for (uint32_t node = 0; node < 3; ++node) story.Beat(node, Report(0, 0), 1);
  story.Leave(0, Report(3, 300), 2);
  story.Leave(1, Report(3, 300), 2);
  story.Happens(event::StreamBroken{3}, {}, 3);
  const v1::StatusResponse status = story.Status(3);
  EXPECT_EQ(status.slots(2).state(), "left");
  EXPECT_EQ(status.slots(2).totals().resident_bytes(), 7000u);
}

TEST(Board, ARankThatLeavesWithAnErrorIsGone) {
  Story story;
  story.Begin(5, 1, 0, {11, 12}, 0);
  story.Leave(1, Report(3, 300), 2, true);
  EXPECT_EQ(story.Status(2).slots(1).state(), "gone");
  EXPECT_EQ(story.Status(2).slots(1).totals().steps(), 3u);
}

TEST(Board, ARestartedServerShowsTheCheckpointsThatItFound) {
  Story story;
  story.board().Found(5, {1, 10}, 100);
  story.board().Found(5, {2, 20}, 200);
  story.board().Found(6, {3, 30}, 300);
  story.Begin(5, 3, 20, {11}, 0);
  v1::StatusResponse status = story.Status(1);
  ASSERT_EQ(status.checkpoints_size(), 2);
  EXPECT_EQ(status.checkpoints(0).step(), 20u);
  EXPECT_EQ(status.checkpoints(0).unix_seconds(), 200);
  EXPECT_EQ(status.completed_checkpoints(), 0u);
  story.board().Completed(5, {{3, 30}, {2, 20}}, 400);
  status = story.Status(2);
  ASSERT_EQ(status.checkpoints_size(), 2);
  EXPECT_EQ(status.checkpoints(0).unix_seconds(), 400);
  EXPECT_EQ(status.checkpoints(1).unix_seconds(), 200);
}

TEST(Stragglers, ARankIsOneByItsLatenessAndNamedWithThePhaseThatTakesLonger) {
  const RecentStep usual{.step = 1, .loading = 0.1, .forward = 0.2, .backward = 0.4, .late = 0.01};
  RecentStep loader = usual, slow = usual;
  loader.loading = 0.5;
  loader.late = 0.4;
  slow.backward = 0.9;
  slow.late = 0.5;
  EXPECT_THAT(WhyStraggle({{0, usual}, {1, usual}}), IsEmpty());
  EXPECT_THAT(WhyStraggle({{3, slow}}), IsEmpty());
  EXPECT_THAT(WhyStraggle({{0, usual}, {1, loader}, {2, usual}}),
              ElementsAre(Pair(1, AllOf(HasSubstr("400 ms after the first"),
                                        HasSubstr("loading its data takes it 500 ms")))));
  EXPECT_THAT(WhyStraggle({{0, usual}, {2, slow}, {4, usual}}),
              ElementsAre(Pair(2, HasSubstr("backward takes it 900 ms against 400 ms"))));
}

}  // namespace
}  // namespace ringwood

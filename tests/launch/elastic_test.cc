// Stories of an elastic job, an event at a second each, and what must be done then.
#include "launch/supervision/elastic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/story.h"

namespace ringwood {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Setup {
  int spares = 0;
  int most = 10;
  bool restart_own = false;
  int min_ranks = 1;
};

// Two servers (members 0, 1) and three ranks (2, 3, 4) with the spares behind them, in training.
Supervisor Training(const Setup& setup = {}) {
  const int ranks = 3 + setup.spares;
  SupervisorOptions options{2, ranks, 5, 120, setup.restart_own};
  options.elastic =
      ElasticOptions{{2, std::vector<std::string>(2 + ranks, "localhost"), setup.most, 5, 60},
                     setup.min_ranks,
                     setup.spares,
                     60,
                     setup.restart_own};
  Supervisor supervisor(options);
  supervisor.Begin(At(0));
  EXPECT_THAT(supervisor.Ready(0, At(0)), ElementsAre(Action::kStartReducers, Action::kStartRanks));
  supervisor.Ready(1, At(0));
  return supervisor;
}

// The same after its first epoch has begun with all that are no spares.
Supervisor InAnEpoch(const Setup& setup = {}) {
  Supervisor supervisor = Training(setup);
  supervisor.TookPart({0, 1, 2, 3, 4});
  return supervisor;
}

// The members that are started again by then.
std::vector<int> Again(Supervisor* supervisor, double at) {
  if (supervisor->Tick(At(at)).empty()) return {};
  return supervisor->TakeDue();
}

// At once, which disturbs nobody.
void IsKilledAndStartedAgain(Supervisor* supervisor, int member, double at) {
  EXPECT_THAT(supervisor->Ended(member, kKilled, At(at)), IsEmpty());
  EXPECT_THAT(Again(supervisor, at), ElementsAre(member));
}

TEST(ElasticJob, TheOthersGoOnAndTheSlotIsStartedAgain) {
  Supervisor supervisor = Training();
  EXPECT_THAT(supervisor.Ended(3, kKilled, At(20)), IsEmpty());
  const std::vector<Setback> told = supervisor.TakeSetbacks();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].member, 3);
  EXPECT_THAT(told[0].reason, HasSubstr("SIGKILL"));
  EXPECT_TRUE(told[0].revival.again);
  EXPECT_EQ(supervisor.deadline(), At(20));
  EXPECT_THAT(supervisor.Tick(At(20)), Contains(Action::kStartAgain));
  EXPECT_THAT(supervisor.TakeDue(), ElementsAre(3));
  EXPECT_EQ(supervisor.deadline(), TimePoint::max());
  EXPECT_EQ(supervisor.restarts(3), 1);
  for (int rank : {2, 3}) EXPECT_THAT(supervisor.Ended(rank, kGood, At(30)), IsEmpty());
  EXPECT_THAT(supervisor.Ended(4, kGood, At(30)), Contains(Action::kStopServers));
  EndServers(&supervisor, 31);
  EXPECT_EQ(supervisor.Judge().exit_code, kExitOk);
}

TEST(ElasticJob, WhoHasFinishedIsNotStartedAgain) {
  Supervisor supervisor = Training();
  EXPECT_THAT(supervisor.Ended(2, kGood, At(20)), IsEmpty());
  EXPECT_EQ(supervisor.deadline(), TimePoint::max());
  EXPECT_THAT(supervisor.TakeSetbacks(), IsEmpty());
}

TEST(ElasticJob, BadInputIsNotStartedAgainAndTheOthersFinish) {
  Supervisor supervisor = InAnEpoch();
  EXPECT_THAT(supervisor.Ended(2, kBadInput, At(1)), IsEmpty());
  EXPECT_EQ(supervisor.deadline(), TimePoint::max());
  EXPECT_FALSE(supervisor.TakeSetbacks()[0].revival.again);
  supervisor.TookPart({0, 1, 3, 4});
  supervisor.Ended(3, kGood, At(30));
  supervisor.Ended(4, kGood, At(30));
  EndServers(&supervisor, 31);
  EXPECT_EQ(supervisor.Judge().exit_code, kExitOk);
}

TEST(ElasticJob, BadInputOfAllIsConfiguration) {
  Supervisor supervisor = Training();
  EXPECT_THAT(supervisor.Ended(2, kBadInput, At(1)), ElementsAre(Action::kEndStoppedRanks))
      << "the first epoch would wait for it";
  supervisor.Ended(3, kBadInput, At(1));
  EXPECT_THAT(supervisor.Ended(4, kBadInput, At(1)), ElementsAre(Action::kStopServers));
  EndServers(&supervisor, 2);
  EXPECT_EQ(supervisor.Judge().exit_code, kExitConfiguration);
  EXPECT_FALSE(supervisor.Judge().restart_helps);
}

TEST(ElasticJob, BadInputOfOneEndsAJobThatHasNotBegun) {
  Supervisor supervisor = Training();
  EXPECT_THAT(supervisor.Ended(3, kBadInput, At(1)), ElementsAre(Action::kEndStoppedRanks));
  for (int rank : {2, 4}) supervisor.Ended(rank, kPeerDied, At(2));
  EndServers(&supervisor, 3);
  EXPECT_EQ(supervisor.Judge().exit_code, kExitConfiguration);
  EXPECT_EQ(supervisor.Judge().culprit, 3);
}

TEST(ElasticJob, SparesAloneDoNotBeginAJob) {
  Supervisor supervisor = Training({1});
  for (int rank : {2, 3}) supervisor.Ended(rank, kBug, At(1));
  EXPECT_THAT(supervisor.Ended(4, kBug, At(1)), ElementsAre(Action::kStopRanks));
  EXPECT_THAT(supervisor.Ended(5, kTermed, At(1.1)), ElementsAre(Action::kStopServers));
  EndServers(&supervisor, 2);
  EXPECT_EQ(supervisor.Judge().exit_code, 1);
}

TEST(ElasticJob, BadInputOfOneIsNotTheExitCodeOfOthers) {
  Supervisor supervisor = InAnEpoch({0, 0});
  supervisor.Ended(2, kBadInput, At(1));
  supervisor.Ended(3, kKilled, At(30));
  supervisor.Ended(4, kKilled, At(40));
  EndServers(&supervisor, 41);
  EXPECT_EQ(supervisor.Judge().exit_code, kExitRestart);
  EXPECT_EQ(supervisor.Judge().culprit, 3);
}

TEST(ElasticJob, AProgramsOwnFailureIsStartedAgainWhileOthersRun) {
  Supervisor supervisor = Training();
  supervisor.Ended(3, kBug, At(20));
  EXPECT_THAT(Again(&supervisor, 20), IsEmpty());
  EXPECT_THAT(Again(&supervisor, 21), ElementsAre(3));
}

TEST(ElasticJob, AProgramThatFailsEverywhereEndsTheJobWithItsCode) {
  Supervisor supervisor = Training();
  supervisor.Ended(3, kBug, At(1));
  supervisor.Ended(2, kBug, At(1.1));
  EXPECT_THAT(supervisor.Ended(4, kBug, At(1.2)), ElementsAre(Action::kStopServers));
  EndServers(&supervisor, 2);
  EXPECT_EQ(supervisor.Judge().exit_code, 1);
  EXPECT_EQ(supervisor.Judge().culprit, 3);
  EXPECT_FALSE(supervisor.Judge().restart_helps);
}

TEST(ElasticJob, AProgramThatFailsEverywhereIsStartedAgainWhereThatIsAskedFor) {
  Supervisor supervisor = Training({0, 10, true});
  for (int rank : {2, 3, 4}) EXPECT_THAT(supervisor.Ended(rank, kBug, At(1)), IsEmpty());
  EXPECT_THAT(Again(&supervisor, 2), ElementsAre(2, 3, 4));
}

TEST(ElasticJob, AllRanksKilledAreStartedAgain) {
  Supervisor supervisor = Training();
  for (int rank : {2, 3, 4}) EXPECT_THAT(supervisor.Ended(rank, kKilled, At(1)), IsEmpty());
  EXPECT_THAT(Again(&supervisor, 1), ElementsAre(2, 3, 4));
}

TEST(ElasticJob, TheAttemptFailsWhenNoRankIsLeft) {
  Supervisor supervisor = InAnEpoch({0, 1});
  for (double at : {1.0, 2.0}) {
    for (int rank : {2, 3, 4}) supervisor.Ended(rank, kKilled, At(at));
    EXPECT_EQ(Again(&supervisor, at).size(), at == 1 ? 3u : 0u);
  }
  EndServers(&supervisor, 3);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitRestart);
  EXPECT_TRUE(verdict.restart_helps);
  EXPECT_EQ(verdict.culprit, 2);
}

TEST(ElasticJob, TheAttemptFailsWhenTooFewAreLeftToGoOn) {
  Supervisor supervisor = InAnEpoch({0, 1, false, 2});
  supervisor.Ended(2, kBadInput, At(20));
  EXPECT_THAT(supervisor.Ended(3, kKilled, At(20)), IsEmpty()) << "it will be back";
  EXPECT_THAT(Again(&supervisor, 20), ElementsAre(3));
  EXPECT_THAT(supervisor.Ended(3, kKilled, At(21)), ElementsAre(Action::kEndStoppedRanks));
  supervisor.Ended(4, kPeerDied, At(22));
  EndServers(&supervisor, 23);
  EXPECT_EQ(supervisor.Judge().exit_code, kExitRestart);
  EXPECT_EQ(supervisor.Judge().culprit, 3);
}

TEST(ElasticJob, ThoseThatFinishAreNotTooFew) {
  Supervisor supervisor = InAnEpoch({0, 1, false, 3});
  EXPECT_THAT(supervisor.Ended(2, kGood, At(20)), IsEmpty());
  EXPECT_THAT(supervisor.Ended(3, kKilled, At(20)), IsEmpty());
  EXPECT_THAT(supervisor.Ended(4, kGood, At(20)), ElementsAre(Action::kStopServers));
}

TEST(ElasticJob, TheAttemptFailsWhenTheCoordinatorGivesUp) {
  Supervisor supervisor = Training();
  IsKilledAndStartedAgain(&supervisor, 4, 20);
  EXPECT_THAT(supervisor.Told(4, "rank 2 (host h2) failed at step 4 of epoch 1: it died", At(140)),
              ElementsAre(Action::kEndStoppedRanks));
  EXPECT_THAT(supervisor.Ended(2, kPeerDied, At(140)), IsEmpty());
  EXPECT_THAT(supervisor.Ended(3, kPeerDied, At(140)), IsEmpty());
  EXPECT_EQ(supervisor.deadline(), At(147)) << "nobody is started again";
  EXPECT_THAT(supervisor.Tick(At(147)), ElementsAre(Action::kStopRanks));
  supervisor.Ended(4, kTermed, At(147.1));
  EndServers(&supervisor, 148);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitRestart);
  EXPECT_TRUE(verdict.restart_helps);
  EXPECT_EQ(verdict.culprit, 4);
  EXPECT_THAT(verdict.reason, HasSubstr("SIGKILL"));
}

TEST(ElasticJob, TheCoordinatorIsStartedAgainAndNoFailureAfterwards) {
  Supervisor supervisor = Training();
  IsKilledAndStartedAgain(&supervisor, 0, 20);
  EXPECT_THAT(supervisor.Ready(0, At(20.2)), IsEmpty());
  supervisor.Told(-1, "the job failed at step 4 of epoch 1: too few ranks", At(90));
  for (int rank : {2, 3, 4}) supervisor.Ended(rank, kPeerDied, At(91));
  EndServers(&supervisor, 92);
  EXPECT_EQ(supervisor.Judge().first, 2) << "the first that ended, not what came back";
}

TEST(ElasticJob, ACoordinatorWhosePortIsStillTakenIsTriedAgain) {
  Supervisor supervisor = Training();
  IsKilledAndStartedAgain(&supervisor, 0, 20);
  supervisor.Ended(0, kBadInput, At(20.1));
  EXPECT_THAT(Again(&supervisor, 22), ElementsAre(0));
}

TEST(ElasticJob, ACoordinatorThatDoesNotStayEndsTheAttempt) {
  Supervisor supervisor = Training();
  double now = 20;
  std::vector<Action> actions = supervisor.Ended(0, kKilled, At(now));
  for (int i = 0; actions.empty() && i < 100; ++i) {
    now = ToSeconds(supervisor.deadline() - At(0));
    ASSERT_THAT(Again(&supervisor, now), ElementsAre(0));
    actions = supervisor.Ended(0, kKilled, At(now += 0.1));
  }
  EXPECT_THAT(actions, ElementsAre(Action::kEndStoppedRanks));
  for (int rank : {2, 3, 4}) supervisor.Ended(rank, kPeerDied, At(now));
  supervisor.Ended(1, kGood, At(now));
  ASSERT_TRUE(supervisor.done());
  EXPECT_EQ(supervisor.Judge().culprit, 0);
  EXPECT_TRUE(supervisor.Judge().restart_helps);
}

TEST(ElasticJob, AReducerIsStartedAgainAndItsLossEndsNothing) {
  Supervisor supervisor = InAnEpoch();
  IsKilledAndStartedAgain(&supervisor, 1, 20);
  EXPECT_THAT(supervisor.Ended(1, kBadInput, At(21)), IsEmpty()) << "the others serve";
  EXPECT_EQ(supervisor.deadline(), TimePoint::max());
}

TEST(ElasticJob, SparesThatStillWaitEndWithTheOthers) {
  Supervisor supervisor = Training({1});
  supervisor.Ended(2, kGood, At(30));
  supervisor.Ended(3, kGood, At(30));
  EXPECT_THAT(supervisor.Ended(4, kGood, At(30)), ElementsAre(Action::kStopRanks));
  EXPECT_THAT(supervisor.Ended(5, kTermed, At(30.1)), ElementsAre(Action::kStopServers));
  EndServers(&supervisor, 31);
  EXPECT_EQ(supervisor.Judge().exit_code, kExitOk);
}

TEST(ElasticJob, ASpareThatTakesPartIsWaitedFor) {
  Supervisor supervisor = Training({1});
  IsKilledAndStartedAgain(&supervisor, 4, 20);
  supervisor.TookPart({0, 1, 2, 3, 5});
  supervisor.Ended(2, kGood, At(30));
  EXPECT_THAT(supervisor.Ended(3, kGood, At(30)), IsEmpty());
  EXPECT_THAT(supervisor.Ended(5, kGood, At(30)), ElementsAre(Action::kStopRanks))
      << "rank 2's second process never took part";
  supervisor.Ended(4, kTermed, At(30.1));
  EndServers(&supervisor, 31);
  EXPECT_EQ(supervisor.Judge().exit_code, kExitOk);
}

TEST(ElasticJob, WhoIsKilledWhileTheOthersFinishIsNotWaitedFor) {
  Supervisor supervisor = InAnEpoch();
  supervisor.Ended(2, kGood, At(30));
  supervisor.Ended(3, kGood, At(30));
  EXPECT_THAT(supervisor.Ended(4, kKilled, At(30)), ElementsAre(Action::kStopServers));
  EndServers(&supervisor, 31);
  EXPECT_EQ(supervisor.Judge().exit_code, kExitOk);
}

// Such as what its program does with the model when the session is over.
TEST(ElasticJob, AProgramThatFailsWhenTheOthersHaveFinishedIsTheJobsFailure) {
  for (const bool first : {false, true}) {
    Supervisor supervisor = InAnEpoch();
    supervisor.Ended(2, kGood, At(30));
    supervisor.Ended(first ? 4 : 3, first ? kBug : kGood, At(30));
    EXPECT_THAT(supervisor.Ended(first ? 3 : 4, first ? kGood : kBug, At(30.5)),
                ElementsAre(Action::kStopServers));
    EndServers(&supervisor, 31);
    EXPECT_EQ(supervisor.Judge().exit_code, 1);
    EXPECT_EQ(supervisor.Judge().culprit, 4);
  }
}

TEST(ElasticJob, WhoGivesUpWhenTheOthersHaveEndedHasNotFinished) {
  Supervisor supervisor = InAnEpoch({0, 10, false, 3});
  for (int rank : {2, 3}) supervisor.Ended(rank, kGood, At(10));
  EXPECT_THAT(supervisor.Ended(4, kPeerDied, At(130)), ElementsAre(Action::kStopServers));
  EndServers(&supervisor, 131);
  EXPECT_EQ(supervisor.Judge().exit_code, kExitRestart);
  EXPECT_TRUE(supervisor.Judge().restart_helps);
}

TEST(ElasticJob, AFailureBeforeTheNewestEpochIsNotTheJobs) {
  Supervisor supervisor = InAnEpoch();
  supervisor.Ended(4, kBug, At(20));
  supervisor.TookPart({0, 1, 2, 3});
  for (int rank : {2, 3}) supervisor.Ended(rank, kGood, At(30));
  EndServers(&supervisor, 31);
  EXPECT_EQ(supervisor.Judge().exit_code, kExitOk);
}

TEST(ElasticJob, ARankThatLeftLongAgoFinishesNothing) {
  Supervisor supervisor = InAnEpoch();
  supervisor.Ended(2, kGood, At(30));
  supervisor.TookPart({0, 1, 3, 4});
  supervisor.Ended(3, kKilled, At(40));
  EXPECT_THAT(supervisor.Ended(4, kKilled, At(40)), IsEmpty());
  EXPECT_THAT(Again(&supervisor, 40), ElementsAre(3, 4));
}

TEST(ElasticJob, WhoTakesPartAgainHasNotFailed) {
  Supervisor supervisor = Training();
  IsKilledAndStartedAgain(&supervisor, 4, 20);
  supervisor.TookPart({0, 1, 2, 3, 4});
  supervisor.Ended(3, kBug, At(500));
  supervisor.Told(-1, "the job failed at step 4 of epoch 3: too few ranks", At(501));
  for (int rank : {2, 4}) supervisor.Ended(rank, kPeerDied, At(502));
  EndServers(&supervisor, 503);
  EXPECT_EQ(supervisor.Judge().culprit, 3);
}

TEST(ElasticJob, ALostHostsRanksComeBackWhenNothingOfTheJobRunsThere) {
  Supervisor supervisor = Training();
  EXPECT_THAT(supervisor.Lost(4, At(25), At(20)), IsEmpty());
  EXPECT_THAT(Again(&supervisor, 24), IsEmpty());
  EXPECT_THAT(Again(&supervisor, 25), ElementsAre(4));
  EXPECT_THAT(supervisor.TakeSetbacks()[0].reason, HasSubstr("host"));
}

TEST(ElasticJob, ARankThatDoesNotComeBackIsEnded) {
  Supervisor supervisor = InAnEpoch();
  for (int rank : {3, 4}) supervisor.Dropped(rank, At(20));
  supervisor.TookPart({0, 1, 2});
  supervisor.TookPart({0, 1, 2, 4});  // it joined again
  EXPECT_EQ(supervisor.deadline(), At(80));
  EXPECT_THAT(supervisor.Tick(At(79)), IsEmpty());
  EXPECT_THAT(supervisor.Tick(At(80)), Contains(Action::kEndStuck));
  EXPECT_THAT(supervisor.TakeStuck(), ElementsAre(3));
  EXPECT_EQ(supervisor.deadline(), TimePoint::max()) << "once";
  supervisor.Ended(3, {137, 9, true}, At(80.1));
  EXPECT_THAT(supervisor.TakeSetbacks()[0].reason, HasSubstr("SIGSTOP"));
  EXPECT_THAT(Again(&supervisor, 80.1), ElementsAre(3));
}

TEST(ElasticJob, ARankThatWasDroppedSinceItDiedIsNotEndedTwice) {
  Supervisor supervisor = InAnEpoch();
  supervisor.Dropped(3, At(20));
  IsKilledAndStartedAgain(&supervisor, 3, 20.1);
  supervisor.Dropped(3, At(20.2));  // the line came late
  supervisor.Dropped(2, At(20.2));
  supervisor.Ended(2, kGood, At(21));
  supervisor.Tick(At(90));
  EXPECT_THAT(supervisor.TakeStuck(), IsEmpty());
}

TEST(ElasticJob, CtrlCEndsItAndNobodyComesBack) {
  Supervisor supervisor = Training();
  supervisor.Ended(3, kKilled, At(20));
  EXPECT_THAT(supervisor.Interrupt(At(20)), ElementsAre(Action::kStopRanks));
  supervisor.Ended(2, kTermed, At(20.1));
  EXPECT_THAT(supervisor.Ended(4, kTermed, At(20.1)), ElementsAre(Action::kStopServers));
  EndServers(&supervisor, 21);
  EXPECT_EQ(supervisor.Judge().exit_code, kExitInterrupted);
}

// Whatever ends how often, in whatever order: processes that always die end the attempt.
TEST(ElasticJob, EveryStoryEnds) {
  for (int story = 0; story < 1024; ++story) {
    Supervisor supervisor = Training({1, 3});
    double now = 1;
    for (int event = 0, digits = story; !supervisor.done() && event < 2000; ++event) {
      const Ending endings[] = {kKilled, kBug, kPeerDied, kGood};
      const int member = (event * 5 + story) % 6;
      supervisor.Ended(member, endings[digits % 4], At(now));
      digits = digits / 4 + 256 * (digits % 4);
      now += 0.3;
      supervisor.Tick(At(now));
      for (int due : supervisor.TakeDue()) EXPECT_LT(due, 6);
    }
    for (int i = 0; i < 5 && !supervisor.done(); ++i) supervisor.Tick(At(now += 200));
    EXPECT_TRUE(supervisor.done()) << story;
  }
}

}  // namespace
}  // namespace ringwood

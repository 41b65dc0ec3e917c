// Stories in one line each: an event at a second, and what must be done then.
#include "launch/supervision/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/story.h"

namespace ringwood {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two servers (members 0, 1) and three ranks (2, 3, 4), running.
Supervisor Running() {
  Supervisor supervisor({2, 3, 5, 120});
  EXPECT_THAT(supervisor.Begin(At(0)), ElementsAre(Action::kStartServer));
  EXPECT_THAT(supervisor.Ready(0, At(1)), ElementsAre(Action::kStartReducers));
  EXPECT_THAT(supervisor.Ready(1, At(2)), ElementsAre(Action::kStartRanks));
  return supervisor;
}

TEST(Supervisor, AGoodRunStopsTheServersLast) {
  Supervisor supervisor = Running();
  EXPECT_EQ(supervisor.deadline(), TimePoint::max()) << "training may take days";
  EXPECT_THAT(supervisor.Ended(2, kGood, At(3)), IsEmpty());
  EXPECT_THAT(supervisor.Ended(3, kGood, At(3)), IsEmpty());
  EXPECT_THAT(supervisor.Ended(4, kGood, At(4)), ElementsAre(Action::kStopServers));
  EndServers(&supervisor, 5);
  EXPECT_EQ(supervisor.Judge().exit_code, kExitOk);
}

TEST(Supervisor, AServerThatIsSuspendedWhereItIsToEndFailsOnlyAJobThatHasFailed) {
  for (const bool well : {true, false}) {
    Supervisor supervisor = Running();
    for (int rank : {2, 3, 4}) supervisor.Ended(rank, well ? kGood : kPeerDied, At(3));
    supervisor.Ended(0, {128 + SIGKILL, SIGKILL, true}, At(4));
    supervisor.Ended(1, kGood, At(4));
    ASSERT_TRUE(supervisor.done());
    EXPECT_EQ(supervisor.Judge().exit_code, well ? kExitOk : kExitRestart);
    EXPECT_EQ(supervisor.Judge().culprit, well ? -1 : 0);
  }
}

TEST(Supervisor, AServerThatIsSuspendedAfterARankHasFailedByItselfIsNotTheCause) {
  for (const Ending& ending : {kBug, kKilled}) {
    Supervisor supervisor = Running();
    supervisor.Ended(3, ending, At(3));
    for (int rank : {2, 4}) supervisor.Ended(rank, kPeerDied, At(3.1));
    supervisor.Ended(0, {128 + SIGKILL, SIGKILL, true}, At(4));
    supervisor.Ended(1, kGood, At(4));
    ASSERT_TRUE(supervisor.done());
    EXPECT_EQ(supervisor.Judge().culprit, 3);
    EXPECT_EQ(supervisor.Judge().exit_code, ending == kBug ? 1 : kExitRestart);
  }
}

TEST(Supervisor, ARankThatEndedWellAndIsAwaitedTwiceEndsTheJob) {
  Supervisor supervisor = Running();
  EXPECT_THAT(supervisor.Awaited({3, 4}, At(3)), IsEmpty());
  EXPECT_THAT(supervisor.Ended(4, kGood, At(4)), IsEmpty());
  EXPECT_THAT(supervisor.Awaited({3, 4}, At(6)), IsEmpty()) << "said before it joined, perhaps";
  EXPECT_THAT(supervisor.Awaited({3}, At(7)), IsEmpty()) << "it had";
  EXPECT_THAT(supervisor.Awaited({4}, At(8)), IsEmpty());
  EXPECT_THAT(supervisor.Awaited({4}, At(12)), ElementsAre(Action::kEndStoppedRanks));
  supervisor.Ended(2, kTermed, At(20));
  supervisor.Ended(3, kTermed, At(20));
  EndServers(&supervisor, 21);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitConfiguration);
  EXPECT_EQ(verdict.culprit, 4);
  EXPECT_THAT(verdict.reason, HasSubstr("exited with code 0, and the others wait for it to join"));
  EXPECT_FALSE(verdict.restart_helps);
}

TEST(Supervisor, AFailureGivesTheOthersTimeThenStopsThenKills) {
  Supervisor supervisor = Running();
  EXPECT_THAT(supervisor.Ended(3, kKilled, At(10)), ElementsAre(Action::kEndStoppedRanks));
  EXPECT_THAT(supervisor.Tick(At(16.9)), IsEmpty());
  EXPECT_THAT(supervisor.Tick(At(17)), ElementsAre(Action::kStopRanks));
  EXPECT_THAT(supervisor.Ended(2, kTermed, At(17.1)), IsEmpty());
  EXPECT_THAT(supervisor.Tick(At(20)), ElementsAre(Action::kKillRanks));
  EXPECT_THAT(supervisor.Ended(4, kKilled, At(21)), ElementsAre(Action::kStopServers));
  EXPECT_THAT(supervisor.Tick(At(26)), ElementsAre(Action::kKillServers));
  EndServers(&supervisor, 27);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitRestart);
  EXPECT_TRUE(verdict.restart_helps);
  EXPECT_EQ(verdict.culprit, 3);
  EXPECT_THAT(verdict.reason, HasSubstr("SIGKILL"));
}

TEST(Supervisor, NobodyToWaitForEndsAtOnce) {
  Supervisor supervisor = Running();
  supervisor.Ended(2, kBug, At(10));
  supervisor.Ended(3, kPeerDied, At(10.1));
  EXPECT_THAT(supervisor.Ended(4, kPeerDied, At(10.2)), ElementsAre(Action::kStopServers));
  EndServers(&supervisor, 11);
  EXPECT_EQ(supervisor.Judge().culprit, 2);
}

TEST(Supervisor, ARankThatOnlySaysThatAPeerDiedIsNotTheCulprit) {
  Supervisor supervisor = Running();
  supervisor.Ended(2, kPeerDied, At(10));
  supervisor.Ended(4, kBug, At(10.1));
  supervisor.Ended(3, kPeerDied, At(10.2));
  EndServers(&supervisor, 11);
  EXPECT_EQ(supervisor.Judge().culprit, 4);
}

TEST(Supervisor, AStoppedRankIsTheCulpritAndIsKilledAtOnce) {
  Supervisor supervisor = Running();
  EXPECT_THAT(supervisor.Ended(2, kPeerDied, At(10)), ElementsAre(Action::kEndStoppedRanks));
  supervisor.Ended(3, kPeerDied, At(10.1));
  EXPECT_THAT(supervisor.Ended(4, {137, 9, true}, At(10.2)), ElementsAre(Action::kStopServers));
  EndServers(&supervisor, 11);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitRestart);
  EXPECT_EQ(verdict.culprit, 4);
  EXPECT_THAT(verdict.reason, HasSubstr("stopped"));
}

TEST(Supervisor, TheCoordinatorsVerdictIsTheHeadline) {
  Supervisor supervisor = Running();
  supervisor.Told(3, "rank 1 (host h1) failed at step 4 of epoch 1: it left after step 4", At(8));
  supervisor.Told(2, "rank 0 (host h0) failed at step 4 of epoch 2: later ones do not count",
                  At(8));
  supervisor.Ended(3, kGood, At(9));
  supervisor.Ended(2, kPeerDied, At(10));
  supervisor.Ended(4, kPeerDied, At(10.1));
  EndServers(&supervisor, 11);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitRestart);
  EXPECT_EQ(verdict.culprit, 3);
  EXPECT_THAT(verdict.told, HasSubstr("it left after step 4"));
  EXPECT_EQ(verdict.reason, "exited with code 0");
  EXPECT_EQ(verdict.first, -1);
}

TEST(Supervisor, WhoEndsByOurSignalIsNotTakenForTheCause) {
  Supervisor supervisor = Running();
  supervisor.Ended(3, kKilled, At(1));  // before its first heartbeat
  EXPECT_THAT(supervisor.Tick(At(8)), ElementsAre(Action::kStopRanks));
  supervisor.Told(2, "rank 0 (host h0) failed at step 1 of epoch 1: its stream broke", At(8.1));
  for (int member : {2, 4}) supervisor.Ended(member, kTermed, At(8.2));
  EndServers(&supervisor, 9);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitRestart);
  EXPECT_EQ(verdict.culprit, 3);
  EXPECT_EQ(verdict.told, "");
  EXPECT_EQ(verdict.first, -1);
}

// A server that was asked to end says so for the whole job, and ends after the ranks.
TEST(Supervisor, NobodyFailedFirstWhereTheJobWasEndedAndTheRanksOnlyFollowed) {
  Supervisor supervisor = Running();
  supervisor.Told(-1, "the job failed at step 4 of epoch 1: the server is stopping", At(8));
  for (int member : {3, 2, 4}) supervisor.Ended(member, kPeerDied, At(9));
  EndServers(&supervisor, 10);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitRestart);
  EXPECT_TRUE(verdict.restart_helps);
  EXPECT_EQ(verdict.culprit, -1);
  EXPECT_EQ(verdict.first, 3);
  EXPECT_EQ(verdict.first_reason, "exited with code 75");
}

TEST(Supervisor, ARankThatFailsInConsequenceIsNotTakenForTheOneThatWasNamed) {
  Supervisor supervisor = Running();
  supervisor.Told(4, "rank 2 (host h2) failed at step 4 of epoch 1: its stream broke", At(8));
  supervisor.Ended(2, kBug, At(10));  // its script makes an error of its own of what it heard
  supervisor.Ended(4, kKilled, At(10.1));
  supervisor.Ended(3, kBadInput, At(10.2));
  EndServers(&supervisor, 11);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitRestart);
  EXPECT_TRUE(verdict.restart_helps);
  EXPECT_EQ(verdict.culprit, 4);
  EXPECT_EQ(verdict.first, 2);
}

TEST(Supervisor, ARankThatEndedEarlyIsTheCulpritWhateverTheOthersEndWith) {
  Supervisor supervisor = Running();
  supervisor.Told(3, "rank 1 (host h1) failed at step 4 of epoch 1: it left after step 4", At(8));
  supervisor.Ended(3, kGood, At(9));
  supervisor.Ended(2, kBadInput, At(10));
  supervisor.Ended(4, kBadInput, At(10.1));
  EndServers(&supervisor, 11);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitConfiguration);
  EXPECT_FALSE(verdict.restart_helps);
  EXPECT_EQ(verdict.culprit, 3);
  EXPECT_EQ(verdict.first, 2);
}

TEST(Supervisor, WhatScriptsMakeOfARankThatHungIsRestarted) {
  Supervisor supervisor = Running();
  supervisor.Told(4, "rank 2 (host h2) failed at step 4 of epoch 1: silent for 5.0 s", At(8));
  supervisor.Ended(2, kBug, At(10));
  supervisor.Ended(3, kBug, At(10));
  supervisor.Tick(At(17));
  supervisor.Ended(4, kTermed, At(17.1));
  EndServers(&supervisor, 18);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitRestart);
  EXPECT_TRUE(verdict.restart_helps);
  EXPECT_EQ(verdict.culprit, 4);
  EXPECT_EQ(verdict.first, 2);
}

TEST(Supervisor, ARankThatHungAndWasNamedIsTheCulprit) {
  Supervisor supervisor = Running();
  supervisor.Told(4, "rank 2 (host h2) failed at step 4 of epoch 1: silent for 5.0 s", At(8));
  supervisor.Ended(2, kPeerDied, At(10));
  supervisor.Ended(3, kPeerDied, At(10));
  EXPECT_THAT(supervisor.Tick(At(17)), ElementsAre(Action::kStopRanks));
  supervisor.Ended(4, kTermed, At(17.1));
  EndServers(&supervisor, 18);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitRestart);
  EXPECT_EQ(verdict.culprit, 4);
}

// Not even SIGKILL ends it, or its host cannot be told.
TEST(Supervisor, ARankThatWasNamedAndNeverEndsIsTheCulprit) {
  Supervisor supervisor = Running();
  supervisor.Told(4, "rank 2 (host h2) failed at step 4 of epoch 1: silent for 5.0 s", At(8));
  supervisor.Ended(2, kBug, At(10));
  supervisor.Ended(3, kBug, At(10));
  EXPECT_THAT(supervisor.Tick(At(17)), ElementsAre(Action::kStopRanks));
  EXPECT_THAT(supervisor.Tick(At(20)), ElementsAre(Action::kKillRanks));
  EXPECT_THAT(supervisor.Tick(At(23)), ElementsAre(Action::kAbandon));
  ASSERT_TRUE(supervisor.done());
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitRestart);
  EXPECT_TRUE(verdict.restart_helps);
  EXPECT_EQ(verdict.culprit, 4);
  EXPECT_EQ(verdict.reason, "did not end by itself");
  EXPECT_EQ(verdict.first, 2);
}

TEST(Supervisor, AHostThatIsAwayOrShortOfPortsIsRestartedAfterAPause) {
  for (const Status& status : {Unavailable("host h2 is gone"), Exhausted("no port is free")}) {
    Supervisor supervisor = Running();
    supervisor.Broke(status, At(3));
    for (int rank : {2, 3, 4}) supervisor.Ended(rank, kKilled, At(3.1));
    EndServers(&supervisor, 4);
    const Verdict verdict = supervisor.Judge();
    EXPECT_EQ(verdict.exit_code, kExitRestart);
    EXPECT_TRUE(verdict.restart_helps);
    EXPECT_TRUE(verdict.unreachable);
  }
}

TEST(Supervisor, TheOutputOfTheRankThatWasNamedIsOfInterestWhereItsHostIsTheCause) {
  Supervisor supervisor = Running();
  supervisor.Told(3, "rank 1 (host h2) failed at step 4 of epoch 1: silent for 5.0 s", At(8));
  supervisor.Broke(Unavailable("host h2 was silent"), At(20));
  for (int rank : {2, 3, 4}) supervisor.Ended(rank, kKilled, At(20.1));
  EndServers(&supervisor, 21);
  EXPECT_EQ(supervisor.Judge().culprit, -1);
  EXPECT_THAT(supervisor.Judge().reason, HasSubstr("host h2 was silent"));
  EXPECT_EQ(supervisor.Judge().first, 3);
}

TEST(Supervisor, BadInputIsNeverRestarted) {
  Supervisor supervisor = Running();
  supervisor.Ended(2, kPeerDied, At(10));
  supervisor.Ended(3, kBadInput, At(10.1));
  supervisor.Ended(4, kPeerDied, At(10.2));
  EndServers(&supervisor, 11);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitConfiguration);
  EXPECT_FALSE(verdict.restart_helps);
  EXPECT_EQ(verdict.culprit, 3);
}

TEST(Supervisor, ADeadServerIsAFailureEvenWithCodeZero) {
  for (const Ending& ending : {kGood, kKilled}) {
    Supervisor supervisor = Running();
    EXPECT_THAT(supervisor.Ended(1, ending, At(10)), ElementsAre(Action::kEndStoppedRanks));
    for (int rank : {2, 3, 4}) supervisor.Ended(rank, kPeerDied, At(11));
    supervisor.Ended(0, kGood, At(12));
    ASSERT_TRUE(supervisor.done());
    EXPECT_EQ(supervisor.Judge().culprit, 1);
    EXPECT_EQ(supervisor.Judge().exit_code, kExitRestart);
  }
}

TEST(Supervisor, AServerThatRefusesItsConfigurationEndsTheRunBeforeAnyRank) {
  Supervisor supervisor({1, 3, 5, 120});
  supervisor.Begin(At(0));
  supervisor.Ended(0, kBadInput, At(0.1));
  ASSERT_TRUE(supervisor.done());
  EXPECT_EQ(supervisor.Judge().exit_code, kExitConfiguration);
}

TEST(Supervisor, AServerThatCannotStartNowIsTriedAgainAfterAPause) {
  Supervisor supervisor({1, 3, 5, 120});
  supervisor.Begin(At(0));
  supervisor.Ended(0, kPeerDied, At(0.1));
  ASSERT_TRUE(supervisor.done());
  EXPECT_TRUE(supervisor.Judge().restart_helps);
  EXPECT_TRUE(supervisor.Judge().unreachable);
}

TEST(Supervisor, AServerThatIsNeverReadyEndsTheRun) {
  Supervisor supervisor({1, 3, 5, 120});
  supervisor.Begin(At(0));
  EXPECT_THAT(supervisor.Tick(At(119)), IsEmpty());
  EXPECT_THAT(supervisor.Tick(At(120)), ElementsAre(Action::kStopServers));
  EXPECT_THAT(supervisor.Tick(At(125)), ElementsAre(Action::kKillServers));
  EXPECT_THAT(supervisor.Tick(At(128)), ElementsAre(Action::kAbandon));
  ASSERT_TRUE(supervisor.done());
  EXPECT_THAT(supervisor.Judge().reason, HasSubstr("--join-timeout"));
}

TEST(Supervisor, ServersThatAreNeverReadyAreNamedWithTheirHosts) {
  SupervisorOptions options{3, 3, 5, 120};
  options.server_names = {"server 0 (host h1)", "server 1 (host h2)", "server 2 (host h3)"};
  Supervisor supervisor(options);
  supervisor.Begin(At(0));
  supervisor.Ready(0, At(1));
  supervisor.Ready(1, At(1));
  supervisor.Tick(At(121));
  for (int server = 0; server < 3; ++server) supervisor.Ended(server, kGood, At(122));
  ASSERT_TRUE(supervisor.done());
  EXPECT_THAT(supervisor.Judge().reason,
              HasSubstr("not ready within 120 s (--join-timeout): server 2 (host h3); "));
}

TEST(Supervisor, CtrlCStopsRanksThenServers) {
  Supervisor supervisor = Running();
  EXPECT_THAT(supervisor.Interrupt(At(10)), ElementsAre(Action::kStopRanks));
  supervisor.Ended(2, kTermed, At(10.1));
  supervisor.Ended(3, kTermed, At(10.1));
  EXPECT_THAT(supervisor.Ended(4, kTermed, At(10.2)), ElementsAre(Action::kStopServers));
  EndServers(&supervisor, 11);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitInterrupted);
  EXPECT_FALSE(verdict.restart_helps);
}

TEST(Supervisor, AfterASigtermTheRanksHaveTheGraceForACheckpointAndThen75IsTheCode) {
  Supervisor supervisor({.servers = 1, .ranks = 2, .grace_seconds = 20});
  supervisor.Begin(At(0));
  supervisor.Ready(0, At(0.5));
  EXPECT_THAT(supervisor.Interrupt(At(10), true), ElementsAre(Action::kStopRanks));
  EXPECT_THAT(supervisor.Tick(At(29)), IsEmpty());
  supervisor.Ended(1, {75, 0, false}, At(29));
  EXPECT_THAT(supervisor.Tick(At(30)), ElementsAre(Action::kKillRanks));  // it took too long
  EXPECT_THAT(supervisor.Ended(2, kKilled, At(30.1)), ElementsAre(Action::kStopServers));
  supervisor.Ended(0, kTermed, At(30.2));
  ASSERT_TRUE(supervisor.done());
  EXPECT_EQ(supervisor.Judge().exit_code, kExitRestart);
  EXPECT_FALSE(supervisor.Judge().restart_helps);
}

TEST(Supervisor, AfterASigtermThatNoRankAnswersWithACheckpointTheCodeIsThatOfAnInterrupt) {
  Supervisor supervisor({.servers = 1, .ranks = 1, .grace_seconds = 20});
  supervisor.Begin(At(0));
  supervisor.Ready(0, At(0.5));
  supervisor.Interrupt(At(10), true);
  supervisor.Ended(1, kTermed, At(10.1));
  supervisor.Ended(0, kTermed, At(10.2));
  EXPECT_EQ(supervisor.Judge().exit_code, kExitInterrupted);
}

TEST(Supervisor, TheSecondCtrlCKills) {
  Supervisor supervisor = Running();
  supervisor.Interrupt(At(10));
  EXPECT_THAT(supervisor.Interrupt(At(10.5)),
              ElementsAre(Action::kKillServers, Action::kKillRanks));
}

TEST(Supervisor, ACtrlCBeforeTheRanksEndsToo) {
  Supervisor supervisor({1, 3, 5, 120});
  supervisor.Begin(At(0));
  EXPECT_THAT(supervisor.Interrupt(At(1)), ElementsAre(Action::kStopRanks, Action::kStopServers));
  supervisor.Ended(0, kTermed, At(1.1));
  ASSERT_TRUE(supervisor.done());
  EXPECT_EQ(supervisor.Judge().exit_code, kExitInterrupted);
}

TEST(Supervisor, AMissingCommandIsConfigurationAndItsConsequencesAreNot) {
  Supervisor supervisor = Running();
  supervisor.Broke(NotFound("cannot start \"pyton\""), At(3));
  for (int rank : {2, 3, 4}) supervisor.Ended(rank, kKilled, At(3.1));
  EndServers(&supervisor, 4);
  const Verdict verdict = supervisor.Judge();
  EXPECT_EQ(verdict.exit_code, kExitConfiguration);
  EXPECT_THAT(verdict.reason, HasSubstr("pyton"));
}

// Whatever happens, in whatever order, the attempt ends once time passes.
TEST(Supervisor, EveryStoryEnds) {
  for (int story = 0; story < 4096; ++story) {
    Supervisor supervisor({1, 2, 5, 120});
    supervisor.Begin(At(0));
    double now = 0;
    for (int digits = story, i = 0; i < 6; ++i, digits /= 4) {
      now += 0.5;
      switch (digits % 4) {
        case 0:
          supervisor.Ready(0, At(now));
          break;
        case 1:
          supervisor.Ended(1 + i % 2, i % 3 == 0 ? kGood : kBug, At(now));
          break;
        case 2:
          supervisor.Interrupt(At(now));
          break;
        case 3:
          supervisor.Broke(Unavailable("a host is gone"), At(now));
          break;
      }
    }
    if (supervisor.deadline() == TimePoint::max() && !supervisor.done()) {
      supervisor.Ended(1, kGood, At(now));  // training: it ends when the ranks do
      supervisor.Ended(2, kGood, At(now));
    }
    for (int i = 0; i < 5 && !supervisor.done(); ++i) supervisor.Tick(At(now += 200));
    EXPECT_TRUE(supervisor.done()) << story;
  }
}

}  // namespace
}  // namespace ringwood

// Who of many that fail is to blame, and whether a restart helps.
#include "launch/supervision/inquest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/story.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

// Of a job with one server, member 0.
class Attempted {
 public:
  explicit Attempted(Inquest::Options options = {}) : inquest_(options) {}

  // By itself. Ranks that end with 0 have not failed.
  Attempted& Ended(int member, const Ending& ending) {
    inquest_.Ended(member, ending);
    if (member == 0 || ending != kGood) inquest_.Failed(member, ending, Describe(ending));
    return *this;
  }
  Attempted& WasEnded(int member, const Ending& ending) {
    inquest_.Ended(member, ending);
    return *this;
  }
  Attempted& Told(int member) {
    inquest_.Told(member, "rank N failed at step 4 of epoch 1");
    return *this;
  }
  Inquest* operator->() { return &inquest_; }

 private:
  Inquest inquest_;
};

// One ends like this after another said that somebody died.
Verdict EndedBy(const Ending& ending, bool restart_on_failure = false) {
  return Attempted({.restart_on_failure = restart_on_failure})
      .Ended(1, kPeerDied)
      .Ended(2, ending)
      ->Judge();
}

TEST(Inquest, NothingWentWrong) {
  const Verdict verdict = Attempted().Ended(1, kGood)->Judge();
  EXPECT_EQ(verdict.exit_code, kExitOk);
  EXPECT_EQ(verdict.culprit, -1);
}

TEST(Inquest, ACodeOfTheProgramsOwnIsTheJobsAndIsNotRestarted) {
  for (int code : {1, 2, 74, 76, 77, 79, 125, 128, 255}) {
    const Verdict verdict = EndedBy({code, 0, false});
    EXPECT_EQ(verdict.exit_code, code);
    EXPECT_FALSE(verdict.restart_helps) << code;
    EXPECT_EQ(verdict.culprit, 2);
    EXPECT_EQ(verdict.first, -1) << "who ended before it only followed";
  }
}

TEST(Inquest, RestartsCanBeAskedForWhereTheProgramFails) {
  const Verdict verdict = EndedBy(kBug, true);
  EXPECT_EQ(verdict.exit_code, 1);
  EXPECT_TRUE(verdict.restart_helps);
  EXPECT_FALSE(EndedBy(kBadInput, true).restart_helps);
}

TEST(Inquest, SignalsAreRestartedAlsoWhereAShellReportsThem) {
  for (const Ending& ending : {kKilled, Ending{139, 0, false}, Ending{129, 0, false}}) {
    const Verdict verdict = EndedBy(ending);
    EXPECT_EQ(verdict.exit_code, kExitRestart) << ending.code;
    EXPECT_TRUE(verdict.restart_helps) << ending.code;
  }
}

TEST(Inquest, ACommandThatAShellCannotStartIsConfiguration) {
  for (int code : {126, 127}) {
    const Verdict verdict = EndedBy({code, 0, false});
    EXPECT_EQ(verdict.exit_code, kExitConfiguration) << code;
    EXPECT_FALSE(verdict.restart_helps) << code;
  }
}

TEST(Inquest, AServersCodeOfItsOwnIsRestarted) {
  for (const Ending& ending : {kGood, kBug, kKilled}) {
    EXPECT_EQ(Attempted().Ended(0, ending)->Judge().exit_code, kExitRestart) << ending.code;
  }
  EXPECT_EQ(Attempted().Ended(0, kBadInput)->Judge().exit_code, kExitConfiguration);
}

// It hung, and had to be killed.
TEST(Inquest, WhomTheCoordinatorNamesIsTheCulpritThoughOthersFailedBefore) {
  const Verdict verdict =
      Attempted().Told(3).Ended(1, kBug).Ended(2, kPeerDied).WasEnded(3, kTermed)->Judge();
  EXPECT_EQ(verdict.exit_code, kExitRestart);
  EXPECT_TRUE(verdict.restart_helps);
  EXPECT_EQ(verdict.culprit, 3);
  EXPECT_EQ(verdict.first, 1);
  EXPECT_THAT(verdict.told, HasSubstr("step 4"));
}

TEST(Inquest, WhoWasNamedAndHasNotEndedIsTheCulprit) {
  Attempted attempt;
  attempt.Told(3).Ended(3, kKilled)->Back(3);
  attempt->StartedAgain(3);
  const Verdict verdict = attempt.Ended(1, kBug)->Judge();
  EXPECT_EQ(verdict.culprit, 3);
  EXPECT_EQ(verdict.reason, "did not end by itself");
  EXPECT_EQ(verdict.exit_code, kExitRestart);
}

TEST(Inquest, TheFirstVerdictOfTheCoordinatorCounts) {
  Attempted attempt;
  EXPECT_FALSE(attempt->Told(1, ""));
  EXPECT_TRUE(attempt->Told(2, "rank 1 failed"));
  EXPECT_FALSE(attempt->Told(3, "rank 2 failed"));
  EXPECT_EQ(attempt->told(), "rank 1 failed");
  EXPECT_EQ(attempt.Ended(1, kPeerDied)->Judge().culprit, 2);
}

TEST(Inquest, WhatIsBackIsNoCause) {
  Attempted attempt({.elastic = true});
  attempt.Ended(1, kBug).Ended(2, kKilled)->Back(1);
  EXPECT_FALSE(attempt->HasFailed(1));
  EXPECT_TRUE(attempt->HasFailed(2));
  EXPECT_EQ(attempt->Judge().culprit, 2);
  EXPECT_EQ(attempt->Judge().first, -1);
}

TEST(Inquest, AWrongConfigurationIsTheCauseUnlessTheJobWentOnWithoutIt) {
  for (const bool elastic : {false, true}) {
    Attempted attempt({.elastic = elastic});
    attempt.Ended(1, kBadInput).Ended(2, kKilled);
    EXPECT_EQ(attempt->Judge().culprit, elastic ? 2 : 1);
    EXPECT_EQ(attempt->Judge().exit_code, elastic ? kExitRestart : kExitConfiguration);
  }
}

TEST(Inquest, WhatBrokeFirstIsTheCauseOfTheEndsThatFollow) {
  Attempted first;
  first->Broke(Unavailable("host h2 is gone"));
  first->Broke(NotFound("only the first counts"));
  first.Ended(1, kBadInput);
  EXPECT_EQ(first->Judge().exit_code, kExitRestart);
  EXPECT_TRUE(first->Judge().unreachable);
  EXPECT_THAT(first->Judge().reason, HasSubstr("h2"));

  Attempted later;
  later.Ended(1, kBadInput)->Broke(Unavailable("host h2 is gone"));
  EXPECT_EQ(later->Judge().exit_code, kExitConfiguration);
  EXPECT_EQ(later->Judge().culprit, 1);
}

}  // namespace
}  // namespace ringwood

#include "server/coordinator/patience/straggler_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/at.h"

namespace ringwood {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "rr.e": rank 0 and 1 are ready, 2 is not, 3 is exempt.
std::vector<StragglerWatch::Worker> Workers(const std::string& text) {
  std::vector<StragglerWatch::Worker> workers;
  for (const char c : text) workers.push_back({c == 'r', c == 'e'});
  return workers;
}

TEST(StragglerWatch, WhoIsNotReadyAGraceAfterTheOthersIsLate) {
  StragglerWatch watch(Seconds(2));
  EXPECT_THAT(watch.Late(1, Workers("...."), 1, At(0)), IsEmpty());
  EXPECT_THAT(watch.Late(1, Workers("r..."), 1, At(50)), IsEmpty()) << "less than half";
  EXPECT_THAT(watch.Late(1, Workers("r.r."), 1, At(51)), IsEmpty());
  EXPECT_THAT(watch.Late(1, Workers("r.rr"), 1, At(53)), IsEmpty());
  EXPECT_THAT(watch.Late(1, Workers("r.rr"), 1, At(53.1)), ElementsAre(1));
  EXPECT_EQ(ToSeconds(watch.Waited(At(54))), 3);
}

TEST(StragglerWatch, EachRoundHasAGraceOfItsOwn) {
  StragglerWatch watch(Seconds(2));
  watch.Late(1, Workers("rr."), 1, At(0));
  EXPECT_THAT(watch.Late(2, Workers("rr."), 1, At(5)), IsEmpty());
  EXPECT_THAT(watch.Late(2, Workers("rr."), 1, At(7.1)), ElementsAre(2));
}

TEST(StragglerWatch, NobodyIsLateWhereTooFewWouldBeLeft) {
  StragglerWatch watch(Seconds(2));
  for (double at = 0; at < 10; ++at) {
    EXPECT_THAT(watch.Late(1, Workers("rr.."), 3, At(at)), IsEmpty());
  }
  EXPECT_THAT(watch.Late(1, Workers("rrr."), 3, At(10)), IsEmpty()) << "enough only now";
  EXPECT_THAT(watch.Late(1, Workers("rrr."), 3, At(13)), ElementsAre(3));
}

TEST(StragglerWatch, WhoIsExemptIsNotLateAndNothingIsWonWhileItIsWaitedFor) {
  StragglerWatch watch(Seconds(2));
  watch.Late(1, Workers("rr.e"), 1, At(0));
  EXPECT_THAT(watch.Late(1, Workers("rr.e"), 1, At(9)), IsEmpty());
  EXPECT_THAT(watch.Late(1, Workers("rr.r"), 1, At(9)), ElementsAre(2));
}

TEST(StragglerWatch, WithoutAGraceNobodyIsLate) {
  StragglerWatch watch(Seconds(0));
  watch.Late(1, Workers("rr."), 1, At(0));
  EXPECT_THAT(watch.Late(1, Workers("rr."), 1, At(1e6)), IsEmpty());
}

TEST(StragglerWatch, TimeInWhichTheCoordinatorStoodStillDoesNotCount) {
  StragglerWatch watch(Seconds(2));
  watch.Late(1, Workers("rr."), 1, At(0));
  watch.Forgive(Seconds(10));
  EXPECT_THAT(watch.Late(1, Workers("rr."), 1, At(11)), IsEmpty());
  EXPECT_THAT(watch.Late(1, Workers("rr."), 1, At(13)), ElementsAre(2));
}

}  // namespace
}  // namespace ringwood

#include "server/coordinator/cut_off.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringwood {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CutOff, WhoeverIsComplainedOfStaysApart) {
  EXPECT_THAT(CutOff(4, {}), IsEmpty());
  EXPECT_THAT(CutOff(4, {{3, 1}}), ElementsAre(1));
  EXPECT_THAT(CutOff(4, {{1, 3}}), ElementsAre(3));
  EXPECT_THAT(CutOff(2, {{0, 1}, {1, 0}}), ElementsAre(1));
}

TEST(CutOff, WhoHearsNobodyStaysApart) {
  EXPECT_THAT(CutOff(4, {{2, 2}}), ElementsAre(2));
  EXPECT_THAT(CutOff(4, {{2, 2}, {3, 2}, {2, 1}}), ElementsAre(2));
  // Nobody hears anybody: one of them goes on.
  EXPECT_THAT(CutOff(3, {{0, 0}, {1, 1}, {2, 2}}), ElementsAre(1, 2));
  EXPECT_THAT(CutOff(1, {{0, 0}}), IsEmpty());
}

TEST(CutOff, AsFewAsPossible) {
  // Rank 1 neither hears nor reaches three others: it is rank 1, not the three.
  EXPECT_THAT(CutOff(5, {{1, 0}, {1, 2}, {4, 1}}), ElementsAre(1));
  // Two halves.
  EXPECT_THAT(CutOff(4, {{0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 0}, {2, 1}, {3, 0}, {3, 1}}),
              ElementsAre(2, 3));
}

}  // namespace
}  // namespace ringwood

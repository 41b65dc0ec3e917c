#include "plan/density_changes.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

Group Sparse(uint32_t tensor, double density, const std::string& reason) {
  Group group;
  group.route = "tree";
  group.tensors = {tensor};
  group.density = density;
  group.k = EntriesOf(density, 1000);
  group.reason = reason;
  return group;
}

TEST(DensityChanges, TheLargestComeFirstWithTheNewReason) {
  std::vector<TensorSpec> table;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) table.push_back({name, 1000});
  Plan before, after;
  const double old[] = {0.01, 0.01, 0.1, 0.01, 0.01}, now[] = {0.02, 0.01, 0.01, 0.011, 0.012};
  for (uint32_t t = 0; t < 5; ++t) {
    before.groups.push_back(Sparse(t, old[t], "before"));
    after.groups.push_back(Sparse(t, now[t], "hides"));
  }
  Group ring;
  ring.route = "ring";
  ring.tensors = {5};
  before.groups.push_back(ring);
  after.groups.push_back(Sparse(5, 0.5, "new"));  // a change of route is another matter
  EXPECT_EQ(DensityChanges(before, after, table),
            "densities: c 0.1 → 0.01 (hides), a 0.01 → 0.02 (hides), e 0.01 → 0.012 (hides) and 1 "
            "more");
  EXPECT_EQ(DensityChanges(before, before, table), "");
  EXPECT_EQ(InformationOf(before.groups, table), 10 + 10 + 100 + 10 + 10 + 1000);
}

}  // namespace
}  // namespace ringwood

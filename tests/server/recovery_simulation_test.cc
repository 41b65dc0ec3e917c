// Recovery of an elastic job in random worlds: the real Membership between modelled workers,
// reducers, disks and a network, from one seed each. A seed that fails prints its number and its
// trace; RINGWOOD_SEED plays it again.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/server/simulation/cluster.h"

namespace ringwood::simulation {
namespace {

constexpr uint64_t kEvents = 1000;

Shape ShapeOf(uint64_t seed) {
  const int workers = 2 + static_cast<int>(seed % 4);
  return {workers,
          static_cast<int>(seed / 4 % 3),
          static_cast<int>(seed / 12 % 3),
          seed / 36 % 3 == 0 ? 2 : 1,
          seed / 2 % 3 == 0 ? 0.0 : 6.0,
          seed % 5 == 3 ? 1.5 : 0.0};
}

// What was promised and not kept; empty: all was.
std::string Violation(uint64_t seed, Mistake mistake = Mistake::kNone, Counts* counts = nullptr) {
  Cluster cluster(seed, ShapeOf(seed), mistake, false);
  cluster.Run(kEvents);
  if (counts != nullptr) *counts += cluster.Counted();
  return cluster.violation();
}

void Replay(uint64_t seed) {
  Cluster cluster(seed, ShapeOf(seed), Mistake::kNone, true);
  cluster.Run(kEvents);
  EXPECT_EQ(cluster.violation(), "") << "seed " << seed;
}

// Seeds first to last, or those that RINGWOOD_SEED names: one, with its trace, or A-B.
void Simulate(uint64_t first, uint64_t last) {
  if (const char* named = std::getenv("RINGWOOD_SEED")) {
    char* rest = nullptr;
    first = std::strtoull(named, &rest, 10);
    if (*rest != '-') return Replay(first);
    last = std::strtoull(rest + 1, nullptr, 10);
  }
  Counts counts;
  for (uint64_t seed = first; seed <= last; ++seed) {
    if (Violation(seed, Mistake::kNone, &counts).empty()) continue;
    Replay(seed);
    FAIL() << "seed " << seed;
  }
  std::printf(
      "%lu events, %lu commits, %lu epochs, %lu of them rollbacks, %lu coordinators; %lu processes "
      "re-attached, %lu rolled a round forward, %lu received their state, %lu left, %lu heard of a "
      "straggler; "
      "%.1f s at most from the last fault to a commit\n",
      counts.events, counts.commits, counts.epochs, counts.rollbacks, counts.coordinators,
      counts.reattached, counts.forwarded, counts.received, counts.left, counts.late,
      counts.slowest);
  const uint64_t seeds = last - first + 1;
  EXPECT_GT(counts.commits, 5 * seeds);
  EXPECT_GT(counts.epochs, 2 * seeds);
  EXPECT_GT(counts.coordinators, 2 * seeds);
  EXPECT_GT(counts.reattached, seeds / 4);
  EXPECT_GT(counts.forwarded, seeds / 4);
  EXPECT_GT(counts.received, seeds / 4);
  EXPECT_GT(counts.left, seeds / 20);
  EXPECT_GT(counts.late, seeds / 20);
}

TEST(RecoverySimulation, KeepsItsPromisesInRandomWorlds) { Simulate(1, 300); }

TEST(RecoverySimulationLong, KeepsItsPromisesInRandomWorlds) { Simulate(1001, 11000); }

// A mistake in a process around Membership is found in one of so many worlds.
class RecoverySimulationFinds : public testing::TestWithParam<NamedMistake> {};

TEST_P(RecoverySimulationFinds, TheMistake) {
  constexpr uint64_t kWorlds = 3000;
  for (uint64_t seed = 1; seed <= kWorlds; ++seed) {
    const std::string violation = Violation(seed, GetParam().mistake);
    if (violation.empty()) continue;
    std::printf("seed %lu: %s\n", seed, violation.c_str());
    return;
  }
  FAIL() << "no world of " << kWorlds << " shows it";
}

INSTANTIATE_TEST_SUITE_P(Each, RecoverySimulationFinds, testing::ValuesIn(kMistakes),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ringwood::simulation

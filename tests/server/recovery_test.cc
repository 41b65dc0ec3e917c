// The decision by itself, then in every small world: processes, rounds and epochs.
#include "server/coordinator/gathering/recovery.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_set>

namespace ringwood {
namespace {

v1::EpochRecord RecordAfter(uint64_t epoch, uint64_t base_epoch, uint64_t base_step) {
  v1::EpochRecord record;
  record.set_epoch(epoch);
  record.set_base_epoch(base_epoch);
  record.set_base_step(base_step);
  record.set_origin(1);
  return record;
}

v1::Held Has(uint64_t epoch, uint64_t round, bool prepared = false) {
  v1::Held held;
  held.set_epoch(epoch);
  held.set_round(round);
  held.set_prepared(prepared);
  return held;
}

Returned Survivor(const v1::Held& held) { return {true, held}; }
Returned Stranger(const v1::Held& held) { return {false, held}; }
const Returned kNew;

void Expect(const Recovery& recovery, uint64_t epoch, uint64_t step,
            const std::vector<size_t>& holders) {
  EXPECT_TRUE(recovery.from_members) << recovery.why;
  EXPECT_EQ(recovery.base_epoch, epoch) << recovery.why;
  EXPECT_EQ(recovery.base_step, step) << recovery.why;
  EXPECT_EQ(recovery.holders, holders) << recovery.why;
}

const v1::EpochRecord kLast = RecordAfter(5, 4, 10);

TEST(Recovery, WhatAllPreparedIsRolledForward) {
  Expect(Recover(kLast, {Survivor(Has(5, 12, true)), Survivor(Has(5, 12, true))}), 5, 13, {0, 1});
  // A new process has no say.
  Expect(Recover(kLast, {Survivor(Has(5, 12, true)), kNew}), 5, 13, {0});
}

TEST(Recovery, WhatOneDidNotPrepareIsExchangedAgain) {
  Expect(Recover(kLast, {Survivor(Has(5, 12, true)), Survivor(Has(5, 12))}), 5, 12, {0, 1});
}

TEST(Recovery, ResultsThatDifferAreExchangedAgain) {
  v1::Held other = Has(5, 12, true);
  other.set_digest(9);
  Expect(Recover(kLast, {Survivor(Has(5, 12, true)), Survivor(other)}), 5, 12, {0, 1});
}

TEST(Recovery, WhatOneAppliedTheOthersApply) {
  Expect(Recover(kLast, {Survivor(Has(5, 12)), Survivor(Has(5, 11, true))}), 5, 12, {0, 1});
  // Without the result of 12 it has to be given the state.
  Expect(Recover(kLast, {Survivor(Has(5, 12)), Survivor(Has(5, 11))}), 5, 12, {0});
}

TEST(Recovery, ABaseKeepsItsName) {
  Expect(Recover(kLast, {Survivor(Has(5, 10)), Survivor(Has(5, 10, true))}), 4, 10, {0, 1});
}

TEST(Recovery, WhoWasNotToldOfTheLastEpochMayHaveItsBase) {
  // By applying it, as the other has.
  Expect(Recover(kLast, {Survivor(Has(5, 10)), Survivor(Has(4, 9, true))}), 4, 10, {0, 1});
  // What it prepared in epoch 3 is another update of round 10.
  Expect(Recover(kLast, {Survivor(Has(5, 10)), Survivor(Has(3, 9, true))}), 4, 10, {0});
  // It did not vote in epoch 5, so its round 11 was not committed there.
  Expect(Recover(kLast, {Survivor(Has(5, 10, true)), Survivor(Has(4, 10))}), 4, 10, {0, 1});
}

TEST(Recovery, NobodyWasToldOfTheLastEpoch) {
  Expect(Recover(kLast, {Survivor(Has(4, 9, true)), Survivor(Has(4, 10)), Survivor(Has(4, 8))}), 4,
         10, {0, 1});
  // Twice in a row: epoch 5 began from the base that epoch 6 begins from.
  const v1::EpochRecord next = RecordAfter(6, 4, 10);
  Expect(Recover(next, {Survivor(Has(4, 10)), Survivor(Has(5, 10)), Survivor(Has(5, 9))}), 4, 10,
         {0, 1});
}

TEST(Recovery, WhoWasOutOfTheLastEpochCannotSayThatItDidNotBegin) {
  EXPECT_FALSE(Recover(kLast, {Stranger(Has(4, 10)), kNew}).from_members);
  // A member of it that never heard of it can: its vote was needed.
  Expect(Recover(kLast, {Stranger(Has(4, 10)), {true, std::nullopt}}), 4, 10, {0});
}

TEST(Recovery, AHistoryThatWasGivenUpIsNoBase) {
  v1::EpochRecord last = RecordAfter(7, 3, 40);  // epoch 6 began from the checkpoint of (3, 40)
  last.set_origin(6);
  Expect(Recover(last, {Survivor(Has(7, 40)), Stranger(Has(5, 40)), Survivor(Has(6, 40))}), 3, 40,
         {0, 2});
}

TEST(Recovery, WhoReceivesTheStateVotesButHoldsNothing) {
  v1::Held receiving = Has(5, 12, true);
  receiving.set_receiving(true);
  Expect(Recover(kLast, {Survivor(Has(5, 12, true)), Survivor(receiving)}), 5, 13, {0});
  Expect(Recover(kLast, {Survivor(Has(5, 11, true)), Survivor(receiving)}), 5, 12, {0});
  EXPECT_FALSE(Recover(kLast, {Survivor(receiving), kNew}).from_members);
}

TEST(Recovery, NobodyHasAnything) {
  EXPECT_FALSE(Recover(kLast, {kNew, kNew}).from_members);
  EXPECT_FALSE(Recover(RecordAfter(0, 0, 0), {kNew}).from_members);
  EXPECT_FALSE(Recover(kLast, {{true, std::nullopt}}).from_members);
  // A disk that has forgotten: whoever knows more may be of it or not.
  EXPECT_FALSE(Recover(kLast, {Survivor(Has(5, 10)), Stranger(Has(6, 11))}).from_members);
}

TEST(Recovery, TheBeginningOfAJobIsABaseToo) {
  Expect(Recover(RecordAfter(1, 0, 0), {Survivor(Has(1, 0)), Survivor(Has(1, 0, true))}), 0, 0,
         {0, 1});
}

// All worlds. A process prepares a round at any time (more than is possible); a round may commit
// when all members of its epoch prepared it; a commit arrives at any time until its receiver has
// joined again; the coordinator gathers anyone who lives, decides, and tells some or none of them.
constexpr int kMostProcesses = 3;
constexpr uint64_t kRounds = 2, kMostEpochs = 4;

struct Size {
  int processes;
  uint8_t epochs;
  uint8_t members;  // of the first epoch, as bits
};

struct ModelProcess {
  bool alive = true, joined = false, prepared = false, receiving = false;
  uint8_t epoch = 0, round = 0;               // active in, applied
  std::array<uint8_t, kRounds> updates = {};  // by round - 1: of which epoch the one applied is
};

struct ModelWorld {
  std::array<ModelProcess, kMostProcesses> processes;
  uint8_t epoch = 1, members = 0, base_epoch = 0, base = 0, holders = 0;  // on disk; as bits
  std::array<uint8_t, kRounds> history = {};          // the updates up to the base
  std::array<uint8_t, kMostEpochs + 1> commits = {};  // by epoch: the newest round
  std::array<uint8_t, kRounds> applied = {};          // by anybody, ever

  // Bytes alone, without padding.
  std::string Key() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
  bool IsMember(int p) const { return members >> p & 1; }
};

// Every move of `world`, as the worlds after it.
class Moves {
 public:
  Moves(const ModelWorld& world, const Size& size) : world_(world), size_(size) {
    for (int p = 0; p < size_.processes; ++p) {
      if (world.processes[p].alive) Move(p);
    }
    CommitNext();
    for (uint8_t chosen = 1; world.epoch < size_.epochs && chosen < 1 << size_.processes;
         ++chosen) {
      Gather(chosen);
    }
  }
  std::vector<ModelWorld> next;

 private:
  template <typename Change>
  void Add(Change change) {
    next.push_back(world_);
    change(next.back());
  }

  static void Apply(ModelWorld& world, int p, uint8_t epoch) {
    ModelProcess& process = world.processes[p];
    process.prepared = false;
    const uint8_t round = process.round++;
    process.updates[round] = epoch;
    if (world.applied[round] == 0) world.applied[round] = epoch;
    EXPECT_EQ(world.applied[round], epoch) << "two updates of round " << round + 1;
  }

  void Move(int p) {
    const ModelProcess& process = world_.processes[p];
    Add([p](ModelWorld& world) { world.processes[p].alive = false; });
    if (process.joined) {
      if (world_.IsMember(p) && process.epoch < world_.epoch) Begin(p);
      return;
    }
    if (process.epoch == 0) return;
    if (process.receiving) Add([p](ModelWorld& world) { world.processes[p].receiving = false; });
    if (!process.prepared && process.round < kRounds) {
      Add([p](ModelWorld& world) { world.processes[p].prepared = true; });
    }
    if (process.prepared && world_.commits[process.epoch] > process.round) {
      Add([p](ModelWorld& world) { Apply(world, p, world.processes[p].epoch); });
    }
  }

  // It is told of the epoch that is on disk.
  void Begin(int p) {
    Add([p](ModelWorld& world) {
      ModelProcess& process = world.processes[p];
      if (!(world.holders >> p & 1)) {
        process.receiving = true;
        process.round = world.base;
        process.updates = world.history;
      } else if (process.round < world.base) {
        Apply(world, p, process.epoch);  // what it prepared there
      }
      process.prepared = process.joined = false;
      process.epoch = world.epoch;
      EXPECT_EQ(process.round, world.base);
      EXPECT_EQ(process.updates, world.history) << "it does not have the base";
    });
  }

  void CommitNext() {
    const uint8_t last = std::max(world_.base, world_.commits[world_.epoch]);
    for (int p = 0; p < size_.processes; ++p) {
      const ModelProcess& process = world_.processes[p];
      const bool voted = process.epoch == world_.epoch && process.round == last && process.prepared;
      if (world_.IsMember(p) && !voted) return;
    }
    Add([last](ModelWorld& world) { world.commits[world.epoch] = last + 1; });
  }

  void Gather(uint8_t chosen) {
    std::vector<Returned> workers;
    std::vector<int> slots;
    for (int p = 0; p < size_.processes; ++p) {
      if (!(chosen >> p & 1)) continue;
      const ModelProcess& process = world_.processes[p];
      if (!process.alive) return;
      Returned worker{world_.IsMember(p), std::nullopt};
      if (process.epoch != 0) {
        worker.held = Has(process.epoch, process.round, process.prepared);
        worker.held->set_receiving(process.receiving);
      }
      workers.push_back(worker);
      slots.push_back(p);
    }
    const Recovery recovery =
        Recover(RecordAfter(world_.epoch, world_.base_epoch, world_.base), workers);
    if (!recovery.from_members) return;  // a declared rollback
    Add([&](ModelWorld& world) {
      for (uint64_t step = world.base; step < recovery.base_step; ++step) {
        world.history[step] = world.epoch;
      }
      world.holders = 0;
      for (const size_t holder : recovery.holders) {
        world.holders |= 1 << slots[holder];
        EXPECT_FALSE(world.processes[slots[holder]].receiving);
      }
      world.members = chosen;
      world.base_epoch = recovery.base_epoch;
      world.base = recovery.base_step;
      ++world.epoch;
      for (const int p : slots) world.processes[p].joined = true;
      for (uint64_t step = recovery.base_step; step < kRounds; ++step) {
        EXPECT_EQ(world.applied[step], 0) << "round " << step + 1 << " was applied";
      }
    });
  }

  const ModelWorld& world_;
  const Size& size_;
};

TEST(Recovery, NoTwoUpdatesOfARoundInAnyWorld) {
  for (const Size& size : {Size{3, 3, 0b011}, Size{3, 3, 0b111}, Size{2, 4, 0b11}}) {
    ModelWorld begin;
    begin.members = size.members;
    for (int p = 0; p < size.processes; ++p) begin.processes[p].epoch = begin.IsMember(p) ? 1 : 0;
    std::vector<ModelWorld> open = {begin};
    std::unordered_set<std::string> seen = {begin.Key()};
    bool again = false, rolled = false;
    while (!open.empty() && !testing::Test::HasFailure()) {
      const ModelWorld world = open.back();
      open.pop_back();
      again |= world.applied[0] > 1;
      rolled |= world.base_epoch == 2;
      for (const ModelWorld& next : Moves(world, size).next) {
        if (seen.insert(next.Key()).second) open.push_back(next);
      }
    }
    EXPECT_TRUE(again && rolled) << "a search that finds nothing proves nothing";
    std::printf("%zu worlds\n", seen.size());
  }
}

}  // namespace
}  // namespace ringwood

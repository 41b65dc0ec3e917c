// Which checkpoints stay: the decision in all kinds of histories, and by hand in stores.
#include "server/store/record/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "base/random.h"
#include "server/store/pins.h"
#include "server/store/store_directory.h"
#include "server/store/view/pin.h"
#include "server/store/view/prune.h"
#include "tests/server/checkpoints/saved.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Retention, KeepsTwoOfEachJob) {
  const std::vector<Kept> complete = {{{1, 10}, 7}, {{1, 20}, 7}, {{2, 5}, 8},
                                      {{2, 10}, 8}, {{2, 15}, 8}, {{1, 30}, 7}};
  EXPECT_THAT(Superfluous(complete, {}), ElementsAre(CheckpointId{2, 5}, CheckpointId{1, 10}));
  EXPECT_THAT(Superfluous(complete, {.newest = 3}), IsEmpty());
  EXPECT_THAT(Superfluous(complete, {.newest = 0}),
              ElementsAre(CheckpointId{2, 5}, CheckpointId{1, 10}))
      << "never below two";
}

TEST(Retention, WhatIsBadDoesNotCount) {
  const std::vector<Kept> complete = {
      {{1, 10}, 7}, {{1, 20}, 7}, {{1, 30}, 7}, {{1, 40}, 7, true}, {{1, 50}, 7}};
  EXPECT_THAT(Superfluous(complete, {}), ElementsAre(CheckpointId{1, 20}, CheckpointId{1, 10}));
}

TEST(Retention, NothingGoesForWhatWasNotReadBack) {
  const auto unread = [](const CheckpointId& id) { return Kept{id, 7, false, false, {}, true}; };
  std::vector<Kept> complete = {{{1, 10}, 7}, {{1, 20}, 7}, unread({1, 30}), unread({1, 40})};
  EXPECT_THAT(Superfluous(complete, {}), IsEmpty());
  complete[2].unread = false;
  EXPECT_THAT(Superfluous(complete, {}), ElementsAre(CheckpointId{1, 10}));
  complete[2].bad = complete[2].unread = true;
  EXPECT_THAT(Superfluous(complete, {}), IsEmpty());
  complete[3].unread = false;
  EXPECT_THAT(Superfluous(complete, {}), ElementsAre(CheckpointId{1, 10}))
      << "the newest that was, and the one before";
}

TEST(Retention, OnADiskThatCannotBeReadTheNewestTwoStayBesideTheGoodOnes) {
  std::vector<Kept> complete = {{{1, 10}, 7}, {{1, 20}, 7}};
  for (uint64_t step = 30; step <= 70; step += 10) {
    complete.push_back({{1, step}, 7, step % 20 == 0, false, {}, true});
  }
  EXPECT_THAT(Superfluous(complete, {}),
              ElementsAre(CheckpointId{1, 50}, CheckpointId{1, 40}, CheckpointId{1, 30}));
}

TEST(Retention, WhatIsPinnedStays) {
  const std::vector<Kept> complete = {{{1, 10}, 7, false, true},
                                      {{1, 20}, 7, true, true},
                                      {{1, 30}, 7},
                                      {{1, 40}, 7},
                                      {{1, 50}, 7}};
  EXPECT_THAT(Superfluous(complete, {}), ElementsAre(CheckpointId{1, 30}));
}

TEST(Retention, OneOfEveryHundredStepsStays) {
  const auto saved = [](std::vector<uint64_t> steps) {
    std::vector<Kept> complete;
    for (const uint64_t step : steps) complete.push_back({{1, step}, 7});
    return complete;
  };
  const auto steps = [](const std::vector<CheckpointId>& ids) {
    std::vector<uint64_t> steps;
    for (const CheckpointId& id : ids) steps.push_back(id.step);
    return steps;
  };
  const Retention every{.every = 100};
  EXPECT_THAT(steps(Superfluous(saved({50, 100, 150, 200, 250, 300, 350}), every)),
              ElementsAre(250, 150, 50));
  EXPECT_THAT(steps(Superfluous(saved({30, 110, 140, 230, 290, 470, 480, 490}), every)),
              ElementsAre(290, 140, 30))
      << "also where no checkpoint is at a multiple";
  std::vector<Kept> again = saved({100, 150, 200, 250});
  again.push_back({{2, 100}, 7});  // went back, and on from there
  again.push_back({{2, 150}, 7});
  again.push_back({{2, 160}, 7});
  EXPECT_THAT(Superfluous(again, every),
              ElementsAre(CheckpointId{1, 250}, CheckpointId{1, 150}, CheckpointId{1, 100}))
      << "of a step that was done twice the later one";
}

// Saves and prunes in turn, as a server does.
class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {
    retention_ = {static_cast<size_t>(random_.Below(5)),
                  random_.Below(2) * (1 + random_.Below(50))};
  }

  void Save() {
    const uint64_t job = random_.Below(3);
    if (random_.Below(10) == 0) ++epoch_, step_[job] -= random_.Below(step_[job] + 1);  // went back
    step_[job] += 1 + random_.Below(20);
    if (std::ranges::any_of(kept_, [&](const Kept& kept) {
          return kept.id == CheckpointId{epoch_, step_[job]};
        })) {
      return;  // a step of this epoch that another job of the test has
    }
    kept_.push_back({{epoch_, step_[job]}, job, false, random_.Below(12) == 0});
    if (random_.Below(8) == 0) kept_[random_.Below(kept_.size())].bad = true;
    Check(Superfluous(kept_, retention_));
  }

 private:
  void Check(const std::vector<CheckpointId>& superfluous) {
    const std::set<CheckpointId> gone(superfluous.begin(), superfluous.end());
    ASSERT_EQ(gone.size(), superfluous.size());
    const std::vector<Kept> before = kept_;
    std::erase_if(kept_, [&](const Kept& kept) { return gone.contains(kept.id); });
    ASSERT_EQ(before.size() - kept_.size(), gone.size());
    for (uint64_t job = 0; job < 3; ++job) {
      const auto good_before = Good(before, job), good = Good(kept_, job);
      const size_t newest = std::max<size_t>(retention_.newest, 2);
      for (size_t i = 0; i < std::min(newest, good_before.size()); ++i) {
        ASSERT_LT(i, good.size());
        EXPECT_EQ(good[i], good_before[i]) << "the newest good ones";
      }
      EXPECT_EQ(Multiples(before, job), Multiples(kept_, job));
    }
    for (const Kept& kept : before) EXPECT_FALSE(kept.pinned && gone.contains(kept.id));
    for (const Kept& kept : kept_) EXPECT_TRUE(HasReason(kept)) << kept.id.step;
  }

  static std::vector<CheckpointId> Good(const std::vector<Kept>& list, uint64_t job) {
    std::vector<CheckpointId> good;
    for (const Kept& kept : list) {
      if (kept.job == job && !kept.bad) good.push_back(kept.id);
    }
    std::ranges::sort(good, std::greater());
    return good;
  }

  std::set<uint64_t> Multiples(const std::vector<Kept>& list, uint64_t job) const {
    std::set<uint64_t> multiples;
    for (const CheckpointId& id : Good(list, job)) {
      if (retention_.every != 0 && id.step >= retention_.every) {
        multiples.insert(id.step / retention_.every);
      }
    }
    return multiples;
  }

  bool HasReason(const Kept& kept) const {
    const auto good = Good(kept_, kept.job);
    const size_t newest = std::max<size_t>(retention_.newest, 2);
    if (kept.pinned || good.size() <= newest || kept.id >= good[newest - 1]) return true;
    return !kept.bad && std::ranges::none_of(good, [&](const CheckpointId& other) {
      return other.step / retention_.every == kept.id.step / retention_.every &&
             (other.step < kept.id.step || (other.step == kept.id.step && other > kept.id));
    });
  }

  Random random_;
  Retention retention_;
  uint64_t epoch_ = 1;
  std::map<uint64_t, uint64_t> step_;
  std::vector<Kept> kept_;
};

TEST(Retention, InEveryHistoryWhatIsPromisedStaysAndNothingElse) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    History history(seed);
    for (int i = 0; i < 40; ++i) history.Save();
    if (HasFailure()) return;
  }
}

class PruneTest : public testing::Test {
 protected:
  PruneTest() {
    std::string pattern = testing::TempDir() + "/ringwood-prune-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    store_ = directory_ + "/store";
    EXPECT_TRUE(PrepareStore(store_).ok());
  }
  ~PruneTest() override { fs::remove_all(directory_); }

  // With everything kept, as by a server that was told so.
  void Save(const std::vector<uint64_t>& steps) {
    auto store = CheckpointStore::Open(store_ + "/checkpoints");
    ASSERT_TRUE(store.ok()) << store.status();
    (*store)->Keep({.newest = 100});
    for (const uint64_t step : steps) {
      const std::string weights = "weights of " + std::to_string(step);
      ASSERT_TRUE(SaveItems(store->get(), {.step = step}, {{"model/w", {}, weights}}).ok());
    }
  }

  std::vector<uint64_t> Steps() const {
    const auto list = ListCheckpoints(store_);
    return list.ok() ? StepsOf(*list) : std::vector<uint64_t>();
  }

  static std::vector<uint64_t> StepsOf(const std::vector<CheckpointSummary>& list) {
    std::vector<uint64_t> steps;
    for (const CheckpointSummary& each : list) steps.push_back(each.step);
    return steps;
  }

  std::string directory_, store_;
};

TEST_F(PruneTest, APinHoldsUntilItIsTakenAway) {
  Save({10, 20, 30, 40, 50});
  ASSERT_EQ(*PinCheckpoint(store_, {0, 20}, "before the change"), (CheckpointId{1, 20}));
  EXPECT_TRUE(ListCheckpoints(store_)->at(3).pinned);
  EXPECT_EQ(ListCheckpoints(store_)->at(3).label, "before the change");
  const auto would = PruneStore(store_, {}, true, {});
  ASSERT_TRUE(would.ok()) << would.status();
  EXPECT_THAT(StepsOf(would->removed), ElementsAre(30, 10));
  EXPECT_THAT(Steps(), ElementsAre(50, 40, 30, 20, 10)) << "a dry run changes nothing";
  const auto done = PruneStore(store_, {}, false, {});
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_THAT(StepsOf(done->removed), ElementsAre(30, 10));
  EXPECT_THAT(Steps(), ElementsAre(50, 40, 20));
  EXPECT_EQ(UnpinCheckpoint(store_, {0, 40}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*UnpinCheckpoint(store_, {}), (CheckpointId{1, 20}));
  ASSERT_TRUE(PruneStore(store_, {}, false, {}).ok());
  EXPECT_THAT(Steps(), ElementsAre(50, 40));
}

TEST_F(PruneTest, AServerHonoursThePinsThatAreMadeBesideIt) {
  Save({10});
  auto server = CheckpointStore::Open(store_ + "/checkpoints");
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_TRUE(PinCheckpoint(store_, {}, "").ok());
  for (const uint64_t step : {20, 30, 40, 50}) {
    ASSERT_TRUE(SaveItems(server->get(), {.step = step}, {{"w", {}, "w"}}).ok());
  }
  EXPECT_THAT(Steps(), ElementsAre(50, 40, 10));
  const Status used = PruneStore(store_, {}, false, {}).status();
  EXPECT_EQ(used.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(used), HasSubstr("is in use by another process"));
  EXPECT_TRUE(PruneStore(store_, {}, true, {}).ok()) << "only to see";
}

TEST_F(PruneTest, WhilePinsChangeNothingIsRemoved) {
  Save({10, 20, 30});
  auto server = CheckpointStore::Open(store_ + "/checkpoints");
  ASSERT_TRUE(server.ok()) << server.status();
  {
    const auto held = PinLock::Take(store_ + "/checkpoints", Duration::zero());
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_EQ((*server)->Prune().status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(Steps(), ElementsAre(30, 20, 10));
  }
  EXPECT_THAT(*(*server)->Prune(), ElementsAre(CheckpointId{1, 10}));
}

TEST_F(PruneTest, DamagedOnesDoNotCountAndAreNamed) {
  Save({10, 20, 30, 40});
  {  // behind the store's back, so that only the hash knows
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), store_ + "/checkpoints", &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), ChunkKey({1, 40}, 0, 0), "Weights of 40").ok());
  }
  const auto pruned = PruneStore(store_, {}, true, {});
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_THAT(StepsOf(pruned->damaged), ElementsAre(40));
  EXPECT_THAT(StepsOf(pruned->removed), ElementsAre(10)) << "30 and 20 are the good ones";
  ASSERT_TRUE(PruneStore(store_, {}, false, {}).ok());
  EXPECT_THAT(Steps(), ElementsAre(40, 30, 20));
}

TEST_F(PruneTest, WhatIsNoPinIsLeftAlone) {
  Save({10});
  const std::string pins = store_ + "/checkpoints/pins";
  std::ofstream(pins + "/README") << "not ours";
  std::ofstream(pins + "/1-10.new") << "of a crash";
  std::ofstream(pins + "/1-10") << "two\nlines \033[2J";
  const auto found = ReadPins(store_ + "/checkpoints");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, (std::map<CheckpointId, std::string>{{{1, 10}, "two\\nlines \\x1b[2J"}}));
  EXPECT_THAT(Message(PinCheckpoint(store_, {0, 11}, "").status()), HasSubstr("step 11"));
  EXPECT_EQ(PinCheckpoint(store_, {}, "a\nb").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringwood

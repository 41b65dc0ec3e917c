#include "server/updates/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace ringwood {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<uint64_t> StepsOf(const std::vector<LoggedUpdate>& rounds) {
  std::vector<uint64_t> steps;
  for (const LoggedUpdate& round : rounds) steps.push_back(round.step);
  return steps;
}

TEST(Chain, ACheckpointLeadsToTheLastRound) {
  Chain chain;
  EXPECT_FALSE(chain.last());
  EXPECT_FALSE(chain.Add({1, 1, 1, 8}));
  chain.Begin({1}, 0);
  for (uint64_t step = 1; step <= 5; ++step) EXPECT_TRUE(chain.Add({1, step, step, 8}));
  EXPECT_EQ(chain.last(), 5u);
  EXPECT_EQ(chain.bytes(), 40u);
  EXPECT_THAT(StepsOf(chain.After({1, 3})), ElementsAre(4, 5));
  EXPECT_THAT(chain.After({1, 5}), IsEmpty());
  EXPECT_THAT(chain.After({1, 6}), IsEmpty());
  EXPECT_FALSE(chain.Add({1, 7, 6, 8}));  // a gap
  EXPECT_TRUE(chain.Add({2, 4, 6, 8}));   // 4 was exchanged again, so 5 never was
  EXPECT_THAT(StepsOf(chain.After({1, 3})), ElementsAre(4));
}

TEST(Chain, AHistoryThatReplayedGoesOn) {
  Chain chain;
  chain.Begin({1}, 0);
  for (uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(chain.Add({1, step, step, 8}));
  chain.Begin({2, {1, 3}, 5}, 6);
  ASSERT_TRUE(chain.Add({2, 6, 7, 8}));
  EXPECT_THAT(StepsOf(chain.After({1, 3})), ElementsAre(4, 5, 6));
  EXPECT_THAT(StepsOf(chain.After({2, 5})), ElementsAre(6));
  EXPECT_THAT(StepsOf(chain.Path()), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Chain, AHistoryThatDidNotDropsWhatFollowedItsCheckpoint) {
  Chain chain;
  chain.Begin({1}, 0);
  for (uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(chain.Add({1, step, step, 8}));
  chain.Begin({2, {1, 3}, 3}, 6);
  EXPECT_THAT(StepsOf(chain.Path()), ElementsAre(1, 2, 3));
  EXPECT_THAT(chain.After({1, 4}), IsEmpty());  // of what was given up
  ASSERT_TRUE(chain.Add({2, 4, 7, 8}));
  EXPECT_THAT(StepsOf(chain.After({1, 2})), ElementsAre(3, 4));
  EXPECT_THAT(chain.After({1, 5}), IsEmpty());
  EXPECT_THAT(StepsOf(chain.After({2, 3})), ElementsAre(4));
}

TEST(Chain, AfterAGapOnlyLaterCheckpointsLeadOn) {
  Chain chain;
  chain.Begin({1}, 0);
  for (uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(chain.Add({1, step, step, 8}));
  chain.Begin({1, {1, 9}, 9, true}, 6);
  ASSERT_TRUE(chain.Add({1, 10, 7, 8}));
  EXPECT_THAT(StepsOf(chain.After({1, 3})), ElementsAre(4, 5));
  EXPECT_THAT(chain.After({1, 7}), IsEmpty());
  EXPECT_THAT(StepsOf(chain.After({1, 9})), ElementsAre(10));
  EXPECT_THAT(StepsOf(chain.Path()), ElementsAre(10));
}

// Random jobs: rounds are logged, exchanged again, lost to gaps; checkpoints are saved; all die and
// start again from some checkpoint with all, some or none of the rounds that lead on from it. A
// state is the list of the updates that made it. What the chain says must always make a state that
// was the log's at some time, and never one that was given up.
class RandomJob {
 public:
  explicit RandomJob(uint64_t seed) : random_(seed) { Start({}, {}, 0); }

  void Act() {
    switch (random_.Below(12)) {
      case 0:
        return Save();
      case 1:
        return random_.Below(4) == 0 ? Die() : Save();
      case 2:
        return Again();
      case 3:
        if (random_.Below(4) == 0) return Lose();
        [[fallthrough]];
      default:
        return Log();
    }
  }

  void Check() {
    for (const auto& [id, state] : checkpoints_) {
      const std::vector<uint64_t> reached = Reached(id);
      const bool extends = reached.size() > state.size();
      // Every state that the chain reaches beyond a checkpoint is one that was logged and not given
      // up since.
      EXPECT_TRUE(!extends || logged_.contains(reached)) << "step " << id.step;
    }
    Chain again;
    for (const auto& entry : entries_) entry(&again);
    for (const auto& [id, state] : checkpoints_) EXPECT_EQ(again.After(id), chain_.After(id));
    EXPECT_EQ(again.Path(), chain_.Path());
  }

 private:
  using State = std::vector<uint64_t>;
  using Entry = std::function<void(Chain*)>;

  void Write(Entry entry) {
    entry(&chain_);
    entries_.push_back(std::move(entry));
    ++sequence_;
  }

  void Start(const CheckpointId& from, State state, uint64_t step) {
    origin_ = ++epoch_;
    Write([b = Beginning{origin_, from, step}, s = sequence_](Chain* c) { c->Begin(b, s); });
    state_ = std::move(state);
    complete_ = true;
    // What was logged beyond this state was given up.
    std::erase_if(logged_, [&](const auto& known) {
      return known.first.size() > state_.size() ||
             !std::equal(known.first.begin(), known.first.end(), state_.begin());
    });
  }

  void Log() {
    const uint64_t update = ++updates_;
    state_.push_back(update);
    if (!complete_) return;
    const LoggedUpdate round{epoch_, state_.size(), sequence_, 1};
    Write([round](Chain* c) { EXPECT_TRUE(c->Add(round)); });
    names_[round.sequence] = update;
    logged_[state_] = true;
  }

  // The epoch ends under the last round, which is exchanged again in the next.
  void Again() {
    if (state_.size() <= start_or_gap() || state_.empty()) return;
    ++epoch_;
    std::erase_if(logged_, [&](const auto& known) { return known.first.size() >= state_.size(); });
    std::erase_if(checkpoints_, [&](const auto& saved) { return saved.second == state_; });
    state_.pop_back();
    Log();
  }

  // Rounds that cannot be logged; then the log begins anew where a checkpoint is saved.
  void Lose() {
    complete_ = false;
    for (uint64_t i = random_.Below(3); i-- > 0;) Log();
    Log();
    Save();
    complete_ = true;
    gap_ = state_.size();
    const Beginning again{origin_, {epoch_, state_.size()}, state_.size(), true};
    Write([again, s = sequence_](Chain* c) { c->Begin(again, s); });
  }

  void Save() { checkpoints_[{epoch_, state_.size()}] = state_; }

  void Die() {
    if (checkpoints_.empty()) return;
    auto chosen = checkpoints_.begin();
    std::advance(chosen, random_.Below(checkpoints_.size()));
    const CheckpointId id = chosen->first;
    State state = chosen->second;
    const State reached = Reached(id);
    if (reached.size() > state.size()) {
      state.assign(reached.begin(), reached.begin() + state.size() +
                                        random_.Below(reached.size() - state.size() + 1));
    }
    gap_ = 0;
    Start(id, state, state.size());
    start_ = state.size();
    // Those that were saved of states which are given up are never continued: the store's newest
    // is taken. Here some are, so they stay.
  }

  State Reached(const CheckpointId& id) {
    State state = checkpoints_.at(id);
    for (const LoggedUpdate& round : chain_.After(id)) state.push_back(names_.at(round.sequence));
    return state;
  }

  uint64_t start_or_gap() const { return std::max(start_, gap_); }

  Random random_;
  Chain chain_;
  std::vector<Entry> entries_;
  std::map<CheckpointId, State> checkpoints_;
  std::map<uint64_t, uint64_t> names_;  // of updates, by their place in the log
  std::map<State, bool> logged_;
  State state_;
  uint64_t epoch_ = 0, origin_ = 0, sequence_ = 0, updates_ = 0, start_ = 0, gap_ = 0;
  bool complete_ = true;
};

TEST(Chain, OfRandomJobsLeadsOnlyToStatesThatWere) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job(seed);
    for (int i = 0; i < 120; ++i) job.Act();
    job.Check();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Chain, ForgetsWhatNoCheckpointNeeds) {
  Chain chain;
  chain.Begin({1}, 0);
  for (uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(chain.Add({1, step, step, 8}));
  chain.Begin({2, {1, 3}, 5}, 6);
  for (uint64_t step = 6; step <= 9; ++step) ASSERT_TRUE(chain.Add({2, step, step + 1, 8}));
  const std::vector<LoggedUpdate> before = chain.After({1, 4});
  EXPECT_EQ(chain.FirstNeeded({{1, 4}, {2, 7}}), 4u);
  chain.Forget(4);
  EXPECT_EQ(chain.After({1, 4}), before);
  EXPECT_THAT(chain.After({1, 2}), IsEmpty());
  EXPECT_EQ(chain.first()->sequence, 0u);
  EXPECT_EQ(chain.first()->beginning.step, 3u);
  EXPECT_EQ(chain.FirstNeeded({{2, 7}}), 8u);
  chain.Forget(8);
  EXPECT_THAT(StepsOf(chain.After({2, 7})), ElementsAre(8, 9));
  EXPECT_EQ(chain.first()->sequence, 6u);
  EXPECT_EQ(chain.last(), 9u);
  EXPECT_TRUE(chain.Add({2, 10, 11, 8}));
}

}  // namespace
}  // namespace ringwood

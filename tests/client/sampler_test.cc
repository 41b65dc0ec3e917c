#include "client/sampler.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"
#include "client/permutation.h"

namespace ringwood {
namespace {

using Samples = std::vector<uint64_t>;

Samples ShareOf(const Sampler& sampler, int rank, int ahead = 0) {
  const auto share = sampler.Share(rank, ahead);
  EXPECT_TRUE(share.ok()) << Message(share.status());
  return share.ok() && share->has_value() ? **share : Samples{};
}

Sampler Made(const SamplerOptions& options) {
  auto made = Sampler::Make(options);
  EXPECT_TRUE(made.ok()) << Message(made.status());
  return *made;
}

TEST(Permutation, HitsEveryNumberOnce) {
  for (uint64_t size : {1, 2, 3, 4, 5, 7, 16, 17, 100, 1000, 4097}) {
    const Permutation order(size, size * 31);
    std::set<uint64_t> hit;
    for (uint64_t i = 0; i < size; ++i) hit.insert(order(i));
    EXPECT_EQ(hit.size(), size);
    EXPECT_LT(*hit.rbegin(), size);
  }
}

TEST(Permutation, SpreadsTheFirstPositionOverAllNumbersFromKeyToKey) {
  constexpr uint64_t kSize = 10;
  constexpr int kKeys = 10000;
  std::vector<int> counts(kSize);
  for (uint64_t key = 0; key < kKeys; ++key) ++counts[Permutation(kSize, key)(0)];
  for (const int count : counts) {
    EXPECT_GT(count, kKeys / kSize * 8 / 10);
    EXPECT_LT(count, kKeys / kSize * 12 / 10);
  }
}

TEST(Sampler, DividesABatchInOrderAndTheLastOneToo) {
  Sampler sampler = Made({.samples = 10, .batch = 7, .world = 3, .in_order = true});
  EXPECT_EQ(ShareOf(sampler, 0), (Samples{0, 1}));
  EXPECT_EQ(ShareOf(sampler, 1), (Samples{2, 3}));
  EXPECT_EQ(ShareOf(sampler, 2), (Samples{4, 5, 6}));
  const std::vector<int> all = {0, 1, 2};
  ASSERT_TRUE(sampler.Committed(all, all).ok());
  EXPECT_EQ(ShareOf(sampler, 2), (Samples{9}));
  EXPECT_EQ(sampler.pass(), 0u);
  ASSERT_TRUE(sampler.Committed(all, all).ok());
  EXPECT_EQ(sampler.pass(), 1u);
  EXPECT_EQ(ShareOf(sampler, 0), (Samples{0, 1}));
}

TEST(Sampler, WhatARankDidNotContributeComesAtOnce) {
  Sampler sampler = Made({.samples = 12, .batch = 6, .world = 3, .in_order = true});
  const std::vector<int> left = {0, 2};
  ASSERT_TRUE(sampler.Committed(left, left).ok());  // rank 1 died with 2 and 3
  EXPECT_EQ(ShareOf(sampler, 0), (Samples{2, 3, 6}));
  EXPECT_EQ(ShareOf(sampler, 1), Samples{});
  EXPECT_EQ(ShareOf(sampler, 2), (Samples{7, 8, 9}));
}

TEST(Sampler, ANewMemberHasItsFirstShareInTheStepAfterTheOneItTookPartIn) {
  Sampler sampler = Made({.samples = 100, .batch = 4, .world = 2, .in_order = true});
  const std::vector<int> members = {0, 1, 5}, contributors = {0, 1};
  ASSERT_TRUE(sampler.Committed(members, contributors).ok());
  EXPECT_EQ(ShareOf(sampler, 5), (Samples{6, 7}));
}

TEST(Sampler, APassThatLostItsLastShareGoesOn) {
  Sampler sampler = Made({.samples = 4, .batch = 4, .world = 2, .in_order = true});
  const std::vector<int> both = {0, 1}, first = {0};
  ASSERT_TRUE(sampler.Committed(both, first).ok());
  EXPECT_EQ(sampler.pass(), 0u);
  EXPECT_EQ(ShareOf(sampler, 0), (Samples{2}));
  EXPECT_EQ(ShareOf(sampler, 1), (Samples{3}));
}

TEST(Sampler, ALoaderFurtherAheadThanDeclaredIsRefusedAndTheEndOfThePassIsNone) {
  const Sampler sampler = Made({.samples = 4, .batch = 4, .ahead = 2});
  const auto end = sampler.Share(0, 1);
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(end->has_value());
  const auto beyond = sampler.Share(0, 3);
  ASSERT_FALSE(beyond.ok());
  EXPECT_NE(Message(beyond.status()).find("ahead"), std::string::npos);
}

TEST(Sampler, RefusesOptionsAndRanksThatMakeNoSense) {
  EXPECT_FALSE(Sampler::Make({.samples = 0, .batch = 1}).ok());
  EXPECT_FALSE(Sampler::Make({.samples = 1, .batch = 0}).ok());
  EXPECT_FALSE(Sampler::Make({.samples = 1, .batch = 1, .world = 0}).ok());
  EXPECT_FALSE(Sampler::Make({.samples = 1, .batch = 1, .ahead = -1}).ok());
  Sampler sampler = Made({.samples = 9, .batch = 3});
  const std::string before = sampler.State();
  const std::vector<int> twice = {0, 0}, none, one = {1}, zero = {0};
  EXPECT_FALSE(sampler.Committed(twice, zero).ok());
  EXPECT_FALSE(sampler.Committed(none, none).ok());
  EXPECT_FALSE(sampler.Committed(zero, one).ok());
  EXPECT_EQ(sampler.Share(-1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(sampler.State(), before);
}

TEST(Sampler, AStateOfOtherOptionsIsNamedAndADamagedOneRefused) {
  Sampler saved = Made({.samples = 100, .batch = 8, .seed = 3, .world = 4, .ahead = 2});
  const std::vector<int> all = {0, 1, 2, 3}, some = {0, 3};
  ASSERT_TRUE(saved.Committed(all, some).ok());
  const std::string state = saved.State();
  Sampler other = Made({.samples = 100, .batch = 8, .seed = 4, .world = 4, .ahead = 2});
  EXPECT_NE(Message(other.Restore(state)).find("seed = 3"), std::string::npos);
  Sampler same = Made({.samples = 100, .batch = 8, .seed = 3, .ahead = 2});
  const std::string before = same.State();
  for (size_t length = 0; length < state.size(); ++length) {
    EXPECT_FALSE(same.Restore(state.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(same.Restore(state + '\0').ok());
  EXPECT_EQ(same.State(), before);
  ASSERT_TRUE(same.Restore(state).ok());
  EXPECT_EQ(same.State(), state);
}

// Bytes that are accepted are a state that goes on: each pass is used once, whatever was changed.
TEST(Sampler, AChangedStateIsRefusedOrWorks) {
  Sampler saved = Made({.samples = 40, .batch = 8, .world = 4, .ahead = 1});
  const std::vector<int> all = {0, 1, 2, 3}, some = {0, 3};
  ASSERT_TRUE(saved.Committed(all, some).ok());
  const std::string state = saved.State();
  for (size_t i = 0; i < state.size(); ++i) {
    for (int change = 1; change < 256; ++change) {
      std::string bytes = state;
      bytes[i] = static_cast<char>(bytes[i] ^ change);
      Sampler sampler = Made({.samples = 40, .batch = 8, .world = 4, .ahead = 1});
      if (!sampler.Restore(bytes).ok()) continue;
      for (int step = 0; step < 12; ++step) {
        for (const int rank : all) {
          for (const uint64_t sample : ShareOf(sampler, rank)) EXPECT_LT(sample, 40u);
        }
        ASSERT_TRUE(sampler.Committed(all, all).ok());
      }
    }
  }
}

// A job of ranks that die, join, are late, exchange a step again with fewer, and go back to a
// checkpoint; every rank has a sampler of its own. Loaders run ahead of the commit.
class RandomJob {
 public:
  explicit RandomJob(uint64_t seed) : random_(seed) {
    options_.samples = 1 + random_.Below(60);
    options_.batch = 1 + random_.Below(12);
    options_.seed = seed;
    options_.ahead = static_cast<int>(random_.Below(4));
    options_.world = 1 + static_cast<int>(random_.Below(6));
    for (int rank = 0; rank < options_.world; ++rank) ranks_.emplace(rank, Made(options_));
    Save();
  }

  // Until the second pass is over; steps in which nobody contributes move nothing.
  void Run() {
    for (int step = 0; ranks_.begin()->second.pass() < 2; ++step) {
      ASSERT_LT(step, 5000) << "the pass does not end";
      const uint64_t event = random_.Below(20);
      if (event == 0) Restart();
      if (event == 1) Save();
      Step();
      if (::testing::Test::HasFailure()) return;
    }
  }

 private:
  struct Checkpoint {
    std::string state;
    std::map<uint64_t, std::map<uint64_t, int>> used;
  };

  void Save() { saved_ = {ranks_.begin()->second.State(), used_}; }

  // From the checkpoint, with any number of ranks.
  void Restart() {
    const int world = 1 + static_cast<int>(random_.Below(6));
    ranks_.clear();
    handed_.clear();
    used_ = saved_.used;
    for (int rank = 0; rank < world; ++rank) {
      const auto place = ranks_.emplace(rank, Made(options_)).first;
      ASSERT_TRUE(place->second.Restore(saved_.state, world).ok());
    }
  }

  // What a loader was given earlier is what the step has now.
  Samples HandOut(int rank, const Sampler& sampler) {
    std::deque<Samples>& queue = handed_[rank];
    const auto room = static_cast<size_t>(options_.ahead) + 1;
    while (queue.size() < room) {
      const auto share = sampler.Share(rank, static_cast<int>(queue.size()));
      EXPECT_TRUE(share.ok()) << Message(share.status());
      if (!share.ok() || !share->has_value()) break;
      queue.push_back(**share);
    }
    EXPECT_FALSE(queue.empty());
    const Samples now = ShareOf(sampler, rank);
    if (queue.empty()) return now;
    EXPECT_EQ(queue.front(), now);
    queue.pop_front();
    return now;
  }

  void Step() {
    std::map<int, Samples> shares;
    for (const auto& [rank, sampler] : ranks_) shares[rank] = HandOut(rank, sampler);
    const std::string state = ranks_.begin()->second.State();
    // Some die before the commit: it is exchanged again without them. One at least goes on.
    for (auto it = ranks_.begin(); it != ranks_.end();) {
      const bool dies = ranks_.size() > 1 && random_.Below(10) == 0;
      if (dies) handed_.erase(it->first);
      it = dies ? ranks_.erase(it) : std::next(it);
    }
    for (uint64_t joins = random_.Below(12) == 0 ? 1 + random_.Below(2) : 0; joins > 0; --joins) {
      const int slot = static_cast<int>(random_.Below(8));
      if (ranks_.contains(slot)) continue;
      auto place = ranks_.emplace(slot, Made(options_)).first;
      ASSERT_TRUE(place->second.Restore(state).ok());
      handed_.erase(slot);
      HandOut(slot, place->second);  // its loader runs too
      shares.erase(slot);            // and its weight is 0 while it gets the state
    }
    std::vector<int> members, contributors;
    for (const auto& [rank, sampler] : ranks_) members.push_back(rank);
    for (const int rank : members) {
      const bool late = random_.Below(15) == 0;
      if (shares.contains(rank) && !shares[rank].empty() && !late) contributors.push_back(rank);
    }
    const uint64_t pass = ranks_.begin()->second.pass();
    for (const int rank : contributors) {
      for (const uint64_t sample : shares[rank]) EXPECT_EQ(++used_[pass][sample], 1);
    }
    for (auto& [rank, sampler] : ranks_) {
      ASSERT_TRUE(sampler.Committed(members, contributors).ok());
      EXPECT_EQ(sampler.State(), ranks_.begin()->second.State());
    }
    const uint64_t now = ranks_.begin()->second.pass();
    if (now == pass) return;
    EXPECT_EQ(used_[pass].size(), options_.samples);
    handed_.clear();  // loaders begin anew
  }

  Random random_;
  SamplerOptions options_;
  std::map<int, Sampler> ranks_;
  std::map<int, std::deque<Samples>> handed_;         // rank -> of the steps to come
  std::map<uint64_t, std::map<uint64_t, int>> used_;  // pass -> sample -> in committed steps
  Checkpoint saved_;
};

TEST(Sampler, EverySampleOfAPassIsUsedOnceWhateverHappens) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    RandomJob(seed).Run();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ringwood

#include "client/tensor_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringwood {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A dense exchange that has rounded something away.
class Rounding : public Exchange {
 public:
  explicit Rounding(std::vector<float> error, std::vector<BlockReach> reach = {})
      : error_(std::move(error)), reach_(std::move(reach)) {}
  void Pack(float, std::function<void(Status)>) override {}
  void Start(Transport*, uint64_t, std::function<void(Status)>) override {}
  void Apply(double) override {}
  void Abort() override {}
  uint64_t digest() const override { return 0; }
  uint64_t sent_bytes() const override { return 0; }
  bool non_finite() const override { return false; }
  bool keeps_error() const override { return true; }
  StatusOr<std::span<const float>> error(size_t) const override { return std::span(error_); }
  StatusOr<std::span<const BlockReach>> reach(size_t) const override { return std::span(reach_); }

 private:
  const std::vector<float> error_;
  const std::vector<BlockReach> reach_;
};

// A checkpoint whose shared items these are, and these are the ranks' own.
class SavedItems : public StoreClient {
 public:
  using Own = std::map<std::string, std::vector<float>>;
  explicit SavedItems(std::map<std::string, std::vector<BlockReach>> items, Own of_rank_0 = {},
                      Own of_rank_1 = {})
      : items_(std::move(items)), own_{std::move(of_rank_0), std::move(of_rank_1)} {}
  Status Save(const StripeName&, const Arena&, Duration, const Sent&) override {
    return Internal("not saved");
  }
  Status Await(const CheckpointName&, Duration) override { return Internal("not saved"); }
  StatusOr<std::vector<CheckpointItem>> Items(const CheckpointName&, uint32_t rank) override {
    std::vector<CheckpointItem> items;
    for (const auto& [name, reach] : items_) {
      if (rank == 0) items.push_back({name, true, reach.size() * sizeof(BlockReach)});
    }
    if (rank >= own_.size()) return items;
    for (const auto& [name, values] : own_[rank]) {
      items.push_back({name, false, values.size() * sizeof(float)});
    }
    return items;
  }
  Status Load(const CheckpointName&, uint32_t rank, const std::string& name, bool shared,
              std::span<std::byte> out) override {
    std::ranges::copy(shared ? std::as_bytes(std::span(items_.at(name)))
                             : std::as_bytes(std::span(own_.at(rank).at(name))),
                      out.begin());
    return OkStatus();
  }
  void Cancel() override {}

 private:
  const std::map<std::string, std::vector<BlockReach>> items_;
  const std::vector<Own> own_;
};

class States : public ::testing::Test {
 protected:
  States() {
    options_.world = 2;
    Tensor tensor;
    tensor.spec = {"w", 3, "auto", 0.5};
    tensor.data = memory_;
    table_.Add(tensor);
    EXPECT_TRUE(states_.Begin(nullptr, 0, 1).ok());
  }

  static Plan Of(const std::string& route) {
    Plan plan;
    Group group;
    group.route = route;
    group.density = 0.5;
    group.tensors = {0};
    plan.groups = {group};
    return plan;
  }
  std::vector<float> Residual() {
    std::vector<float> out(3);
    EXPECT_TRUE(states_.ReadResidual(0, out).ok());
    return out;
  }

  SessionOptions options_;
  TensorTable table_{options_};
  TensorStates states_{options_, table_};
  float memory_[3] = {};
};

TEST_F(States, WhatADenseExchangeRoundedAwayGoesOnWithTheNextPlan) {
  for (const std::string route : {"ring", "tree"}) {
    const Rounding exchange({1, -2, 0.5});
    states_.Prepare(Of("ring"));
    states_.Hand({{&exchange, nullptr, 0}});
    EXPECT_THAT(Residual(), ElementsAre(1, -2, 0.5));
    ASSERT_TRUE(states_.TakeBack().ok());
    states_.Prepare(Of(route));
    EXPECT_THAT(Residual(), ElementsAre(1, -2, 0.5)) << route;
    ASSERT_NE(states_.of(0), nullptr);
    if (SparseTensor* const state = states_.of(0); route == "tree") {
      std::ranges::fill(state->mutable_residual(), 0.0f);  // as its exchange does
    }
    states_.Committed(1);  // a dense round has sent all of it
    EXPECT_EQ(states_.of(0) == nullptr, route == "ring");
    EXPECT_THAT(Residual(), Each(0.0f)) << route;
  }
}

TEST_F(States, ACheckpointHasTheResidualWhereverItIs) {
  const Rounding exchange({1, -2, 0.5});
  states_.Prepare(Of("ring"));
  states_.Hand({{&exchange, nullptr, 0}});
  std::vector<Item> items;
  std::vector<std::unique_ptr<SparseTensor>> copies;
  ASSERT_TRUE(states_.AppendItems(&items, &copies).ok());
  ASSERT_TRUE(states_.TakeBack().ok());
  ASSERT_TRUE(states_.AppendItems(&items, &copies).ok());
  ASSERT_THAT(items, SizeIs(2));
  EXPECT_EQ(items[0].name, items[1].name);
  EXPECT_TRUE(std::ranges::equal(items[0].data, items[1].data));
}

TEST_F(States, WhatBlocksReachIsSavedAndGoesOnWithTheNextPlanUntilItIsForgotten) {
  const Rounding exchange({1, -2, 0.5}, {0x3f80});
  states_.Prepare(Of("ring"));
  EXPECT_THAT(states_.reach(0), SizeIs(0));
  states_.Hand({{&exchange, nullptr, 0}});
  for (const bool taken : {false, true}) {
    if (taken) {
      ASSERT_TRUE(states_.TakeBack().ok());
    }
    std::vector<Item> items;
    std::vector<std::unique_ptr<SparseTensor>> copies;
    ASSERT_TRUE(states_.AppendItems(&items, &copies).ok());
    ASSERT_THAT(items, SizeIs(2));
    EXPECT_EQ(items[0].name, "ringwood/reach/w");
    EXPECT_TRUE(items[0].shared);
    EXPECT_THAT(items[0].data, SizeIs(sizeof(BlockReach)));
  }
  EXPECT_THAT(states_.reach(0), ElementsAre(0x3f80));
  states_.ForgetReaches();
  EXPECT_THAT(states_.reach(0), SizeIs(0));
}

TEST_F(States, WhatBlocksOfAnotherSizeReachedIsLearnedAnew) {
  const std::vector<BlockReach> blocks(LatticeBlocks(3), 0x3f80);
  for (const size_t saved : {blocks.size(), blocks.size() / kPackBlocks}) {
    SavedItems store({{"ringwood/reach/w", {blocks.begin(), blocks.begin() + saved}}});
    Restore from(&store, {}, 0);
    TensorStates resumed(options_, table_);
    const Status begun = resumed.Begin(&from, 0, 1);
    ASSERT_TRUE(begun.ok()) << begun;
    EXPECT_THAT(resumed.reach(0), SizeIs(saved == blocks.size() ? saved : 0));
  }
}

// The epoch in which a job resumes may end before its ranks have agreed: then they begin again.
TEST_F(States, WhatAnAttemptToResumeTookIsNotTakenTwice) {
  SavedItems store({}, {{"an item", {0}}}, {{"ringwood/residual/w", {1, -2, 3}}});
  Restore from(&store, {}, 0);
  TensorStates resumed(options_, table_);
  for (int attempt = 0; attempt < 2; ++attempt) ASSERT_TRUE(resumed.Begin(&from, 0, 1).ok());
  EXPECT_THAT(resumed.of(0)->residual(), ElementsAre(1, -2, 3));
}

TEST_F(States, ATensorThatHadAnotherShapeIsRefusedWithAWayOut) {
  SavedItems store({}, {{"ringwood/residual/w", {1, -2}}});
  Restore from(&store, {1, 4}, 0);
  const Status begun = TensorStates(options_, table_).Begin(&from, 0, 1);
  EXPECT_EQ(begun.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(begun), HasSubstr("'ringwood/residual/w' of the checkpoint of step 4 has 8 "
                                        "bytes, not 12: it had another shape"));
  EXPECT_THAT(Message(begun), HasSubstr("without --resume"));
}

TEST_F(States, AVelocityIsDroppedWithAWordWhereThereIsNoMomentumAnyMore) {
  SavedItems store({}, {{"ringwood/residual/w", {1, -2, 3}}, {"ringwood/momentum/w", {4, 5, 6}}});
  for (const double momentum : {0.0, 0.9}) {
    options_.momentum = momentum;
    Restore from(&store, {}, 0);
    TensorStates resumed(options_, table_);
    testing::internal::CaptureStderr();
    const Status begun = resumed.Begin(&from, 0, 1);
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(begun.ok()) << begun;
    EXPECT_THAT(resumed.of(0)->residual(), ElementsAre(1, -2, 3));
    if (momentum > 0) {
      EXPECT_THAT(resumed.of(0)->mutable_momentum(), ElementsAre(4, 5, 6));
      EXPECT_EQ(said, "");
    } else {
      EXPECT_THAT(resumed.of(0)->mutable_momentum(), SizeIs(0));
      EXPECT_THAT(said,
                  HasSubstr("a velocity of w, without momentum correction now: it is dropped"));
    }
  }
}

TEST_F(States, ACheckpointIsRefusedBetweenReadyAndTheEndOfTheStep) {
  states_.Prepare(Of("tree"));
  std::vector<float> gradient = {1, 2, 3};
  states_.of(0)->Accumulate(gradient, 1);
  std::vector<Item> items;
  std::vector<std::unique_ptr<SparseTensor>> copies;
  EXPECT_EQ(states_.AppendItems(&items, &copies).code(), StatusCode::kFailedPrecondition);
  states_.of(0)->Abort();
  EXPECT_TRUE(states_.AppendItems(&items, &copies).ok());
}

}  // namespace
}  // namespace ringwood

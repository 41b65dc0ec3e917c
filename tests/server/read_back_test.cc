// Between the manifest of a checkpoint and the end of its read-back: what is kept, who gets it, and
// what a process finds that comes after.
#include "server/store/read_back.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "server/store/store_directory.h"
#include "server/store/view/prune.h"
#include "server/store/view/store_view.h"
#include "tests/server/checkpoints/faulty_disk.h"
#include "tests/server/checkpoints/small_checkpoints.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReadBackTest : public testing::Test {
 protected:
  ReadBackTest() : folder_(MakeMemoryFolder()), place_(folder_ + "/disk/checkpoints") {
    fs::create_directories(place_);
    disk_ = FaultyDisk::Make(folder_ + "/disk");
    Open();
  }
  ~ReadBackTest() override {
    Close();
    fs::remove_all(folder_);
  }

  void Open() {
    auto opened = CheckpointStore::Open(place_, {}, disk_->env());
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    collector_ = std::make_unique<StripeCollector>(
        store_.get(), [] { return int64_t{1}; }, nullptr,
        [this](const CheckpointId& id) { told_.push_back(id); });
    collector_->SetEpoch(RecordOf(1));
  }
  void Close() {
    collector_.reset();
    store_.reset();
  }
  void Settle(uint64_t step) { collector_->Settle({1, step}, store_->ReadBack({1, step})); }
  void SaveAndSettle(uint64_t step) {
    ASSERT_TRUE(SaveAll(collector_.get(), {1, step}).ok());
    Settle(step);
  }
  std::vector<uint64_t> Steps() {
    std::vector<uint64_t> steps;
    const auto complete = store_->reader().Complete();
    for (const CheckpointId& id : *complete) steps.push_back(id.step);
    return steps;
  }

  // Flips a bit of a chunk that this step alone has, in its file. (RocksDB looks at the first block
  // when the store is opened.)
  void Damage(uint64_t step) {
    const std::string chunk = StateOf({1, step}).substr(4 * PieceOf({1, step}), 100);
    int found = 0;
    for (const auto& entry : fs::directory_iterator(place_)) {
      if (entry.path().extension() != ".sst") continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      const size_t at = bytes.find(chunk);
      if (at == std::string::npos) continue;
      file.clear();
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(bytes[at] ^ 1));
      ++found;
    }
    ASSERT_EQ(found, 1);
  }

  const std::string folder_;
  std::string place_;  // of the store's database
  std::shared_ptr<FaultyDisk> disk_;
  std::unique_ptr<CheckpointStore> store_;
  std::unique_ptr<StripeCollector> collector_;
  std::vector<CheckpointId> told_;
};

TEST_F(ReadBackTest, OlderOnesGoWhenTheNewOneWasReadBack) {
  for (uint64_t step = 1; step <= 2; ++step) SaveAndSettle(step);
  ASSERT_TRUE(SaveAll(collector_.get(), {1, 3}).ok());
  EXPECT_THAT(Steps(), ElementsAre(3, 2, 1));
  EXPECT_THAT(*store_->Newest(kJob, 2), ElementsAre(CheckpointId{1, 2}, CheckpointId{1, 1}));
  EXPECT_THAT(*store_->Unread(), ElementsAre(CheckpointId{1, 3}));
  Settle(3);
  EXPECT_THAT(Steps(), ElementsAre(3, 2));
  EXPECT_THAT(*store_->Unread(), IsEmpty());
  EXPECT_THAT(told_, ElementsAre(CheckpointId{1, 1}, CheckpointId{1, 2}, CheckpointId{1, 3}));
}

TEST_F(ReadBackTest, TheNextOneIsToldWhenTheOneBeforeWasReadBack) {
  ASSERT_TRUE(SaveAll(collector_.get(), {1, 1}).ok());
  EXPECT_FALSE(SaveAll(collector_.get(), {1, 2}).ok());
  EXPECT_EQ(collector_->Outcome(1, 2), std::nullopt);
  EXPECT_EQ(collector_->Outcome(1, 1), OkStatus());
  Settle(1);
  EXPECT_EQ(collector_->Outcome(1, 2), OkStatus());
}

TEST_F(ReadBackTest, OneThatIsDamagedIsNeverUsedAndTakesNoneOfTheOthers) {
  for (uint64_t step = 1; step <= 2; ++step) SaveAndSettle(step);
  ASSERT_TRUE(SaveAll(collector_.get(), {1, 3}).ok());
  Damage(3);
  Settle(3);
  ASSERT_TRUE(collector_->Outcome(1, 3).has_value());
  EXPECT_EQ(collector_->Outcome(1, 3)->code(), StatusCode::kDataLoss);
  EXPECT_THAT(Message(*collector_->Outcome(1, 3)), HasSubstr("read back"));
  EXPECT_THAT(Steps(), ElementsAre(3, 2, 1));
  EXPECT_EQ((*store_->NewestGood(kJob))->step, 2u);
  SaveAndSettle(4);
  EXPECT_THAT(Steps(), ElementsAre(4, 3, 2)) << "the good ones are 4 and 2";
  SaveAndSettle(5);
  EXPECT_THAT(Steps(), ElementsAre(5, 4));
  EXPECT_EQ(*LoadAll(store_->reader(), {1, 5}), StateOf({1, 5}));
}

TEST_F(ReadBackTest, AProcessThatEndsBeforeLeavesTheMark) {
  for (uint64_t step = 1; step <= 2; ++step) SaveAndSettle(step);
  ASSERT_TRUE(SaveAll(collector_.get(), {1, 3}).ok());
  Close();
  Open();
  EXPECT_THAT(*store_->Unread(), ElementsAre(CheckpointId{1, 3}));
  const auto list = Summarize(store_->reader());
  ASSERT_EQ(list->size(), 3u);
  for (const CheckpointSummary& one : *list) {
    EXPECT_TRUE(one.complete);
    EXPECT_EQ(one.unread, one.step == 3);
  }
  ASSERT_TRUE(SaveAll(collector_.get(), {1, 4}).ok());
  EXPECT_THAT(Steps(), ElementsAre(4, 3, 2, 1)) << "nothing goes for 3 and 4";
  Settle(4);
  EXPECT_THAT(Steps(), ElementsAre(4, 3, 2));
  const uint64_t before = disk_->reads();
  EXPECT_EQ((*store_->NewestGood(kJob))->step, 4u) << "known";
  EXPECT_EQ(disk_->reads(), before);
  collector_->Settle({1, 3}, OkStatus());  // of another process: not ours to settle
  EXPECT_THAT(*store_->Unread(), ElementsAre(CheckpointId{1, 3}));
  store_->Settle({1, 3}, store_->ReadBack({1, 3}));
  EXPECT_THAT(Steps(), ElementsAre(4, 3));
}

TEST_F(ReadBackTest, AResumeReadsBackWhatNobodyHasAndFallsBack) {
  const uint64_t first = kLargeFrom;
  for (uint64_t step = first; step < first + 2; ++step) SaveAndSettle(step);
  ASSERT_TRUE(SaveAll(collector_.get(), {1, first + 2}).ok());
  Close();
  Damage(first + 2);
  Open();
  EXPECT_EQ((*store_->NewestGood(kJob))->step, first + 1);
  ASSERT_TRUE(SaveAll(collector_.get(), {1, first + 3}).ok());
  Settle(first + 3);
  EXPECT_THAT(Steps(), ElementsAre(first + 3, first + 2, first + 1)) << "two of them are good";
}

TEST_F(ReadBackTest, WhatAResumeFoundGoodIsMarkedNoMore) {
  ASSERT_TRUE(SaveAll(collector_.get(), {1, 1}).ok());
  Close();
  Open();
  EXPECT_EQ((*store_->NewestGood(kJob))->step, 1u);
  EXPECT_THAT(*store_->Unread(), IsEmpty());
  SaveAndSettle(2);
  Close();
  Open();
  EXPECT_THAT(*store_->Unread(), IsEmpty());
}

TEST_F(ReadBackTest, RetentionByHandReadsBackFirst) {
  Close();
  ASSERT_TRUE(PrepareStore(folder_ + "/disk/store").ok());
  place_ = folder_ + "/disk/store/checkpoints";
  Open();
  for (uint64_t step = 1; step <= 2; ++step) SaveAndSettle(step);
  ASSERT_TRUE(SaveAll(collector_.get(), {1, 3}).ok());
  Close();
  const auto pruned = PruneStore(folder_ + "/disk/store", {}, false, {});
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  ASSERT_EQ(pruned->removed.size(), 1u);
  EXPECT_EQ(pruned->removed[0].step, 1u);
  EXPECT_THAT(pruned->damaged, IsEmpty());
}

// RocksDB may merge tables, and then they are no stripes any more.
TEST_F(ReadBackTest, ChunksInMergedTablesAreComparedOneByOne) {
  const uint64_t step = kLargeFrom;
  ASSERT_TRUE(SaveAll(collector_.get(), {1, step}).ok());
  Close();
  {
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), place_, &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    rocksdb::CompactRangeOptions all;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    ASSERT_TRUE(db->CompactRange(all, nullptr, nullptr).ok());
    EXPECT_THAT(TablesOf(db.get(), {1, step}), IsEmpty());
  }
  Open();
  EXPECT_EQ(store_->ReadBack({1, step}), OkStatus());
  Close();
  Damage(step);
  Open();
  EXPECT_EQ(store_->ReadBack({1, step}).code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace ringwood

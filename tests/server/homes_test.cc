// Chunks that checkpoints share: the decisions in random histories, and stores on a disk.
#include "server/store/record/homes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/random.h"
#include "server/store/portable/checkpoint_export.h"
#include "server/store/portable/checkpoint_import.h"
#include "server/store/record/manifest_rows.h"
#include "server/store/record/sealed.h"
#include "server/store/store_directory.h"
#include "server/store/view/prune.h"
#include "tests/server/checkpoints/saved.h"
#include "tests/server/checkpoints/small_checkpoints.h"
#include "tests/server/checkpoints/stripe.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kOther = 8;  // a job

TEST(Homes, TheNewestTwoOfAJobShareNothing) {
  const CheckpointId a{1, 10}, b{1, 20}, c{1, 30}, d{1, 40};
  EXPECT_EQ(BaseOf(kJob, {}), std::nullopt);
  EXPECT_EQ(BaseOf(kJob, {{a, kJob}}), std::nullopt) << "the second one is written in full";
  EXPECT_EQ(BaseOf(kJob, {{a, kJob}, {b, kJob}}), a);
  EXPECT_EQ(BaseOf(kJob, {{b, kJob}, {c, kJob, false, false, {a}}}), b);
  EXPECT_EQ(BaseOf(kJob, {{a, kJob}, {b, kJob}, {c, kJob, true, false, {a}}}), a)
      << "what is bad is no base, and not the newest good one";
  EXPECT_EQ(BaseOf(kJob, {{c, kJob, false, false, {a}}, {d, kJob, false, false, {a}}}),
            std::nullopt);
  const Kept unread{b, kJob, false, false, {}, true};
  EXPECT_EQ(BaseOf(kJob, {{a, kJob}, unread}), std::nullopt) << "nobody knows which will be good";
  EXPECT_EQ(BaseOf(kJob, {unread, {c, kJob, false, false, {a}}}), std::nullopt);
  EXPECT_EQ(BaseOf(kOther, {{a, kJob}, {b, kJob}}), b) << "a new job may begin from any";
  EXPECT_EQ(BaseOf(kJob, {{a, kJob}, {b, kOther}, {c, kOther}}), c);
}

TEST(Homes, WhatNobodyHasGoes) {
  const CheckpointId a{1, 10}, b{1, 20}, c{1, 30}, d{1, 40};
  EXPECT_THAT(Unneeded({d, c, b, a}, {{d, kJob, false, false, {b}}, {c, kJob}}), ElementsAre(a));
  EXPECT_THAT(Unneeded({b, a}, {}), ElementsAre(b, a));
}

v1::CheckpointManifest ManifestOf(const CheckpointId& id,
                                  const std::vector<std::pair<char, CheckpointId>>& chunks) {
  Stripe stripe(1);
  stripe[0].set_name("w");
  stripe[0].set_scope(v1::SCOPE_SHARED);
  HomeSizes homes;
  for (const auto& [content, home] : chunks) {
    v1::StoredChunk* const chunk = stripe[0].add_chunks();
    chunk->set_offset(stripe[0].bytes());
    chunk->set_bytes(10);
    chunk->set_digest(static_cast<uint64_t>(content));
    chunk->set_sequence(static_cast<uint32_t>(content));
    stripe[0].set_bytes(stripe[0].bytes() + 10);
    if (home == id) continue;
    chunk->set_home_epoch(home.epoch);
    chunk->set_home_step(home.step);
    homes[home] = 40;
  }
  auto manifest = Assemble({{0, stripe}}, homes);
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  manifest->set_epoch(id.epoch);
  manifest->set_step(id.step);
  return *std::move(manifest);
}

TEST(Homes, AManifestListsThem) {
  const CheckpointId a{1, 10}, b{1, 20}, c{1, 30};
  auto manifest = ManifestOf(c, {{'x', b}, {'y', c}, {'z', a}, {'x', b}});
  EXPECT_THAT(HomesOf(manifest), ElementsAre(a, b));
  EXPECT_EQ(StoredBytes(manifest), 10u);
  EXPECT_EQ(manifest.bytes(), 40u);
  const auto rows = RowsOf(manifest);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_TRUE(WholeManifest(rows->head, "", "it").ok());
  auto changed = rows->head;
  changed.mutable_homes(0)->set_step(11);
  EXPECT_EQ(WholeManifest(changed, "", "it").status().code(), StatusCode::kDataLoss);
  changed = rows->head;
  changed.mutable_homes()->RemoveLast();
  EXPECT_EQ(WholeManifest(changed, "", "it").status().code(), StatusCode::kDataLoss);
  Stripe strange(1);
  strange[0].set_bytes(1);
  strange[0].add_chunks()->set_bytes(1);
  strange[0].mutable_chunks(0)->set_home_step(7);
  EXPECT_EQ(Assemble({{0, strange}}).status().code(), StatusCode::kInvalidArgument);
}

TEST(Homes, OneThatIsHardlyUsedAnyMoreIsLeft) {
  const CheckpointId a{1, 10}, b{1, 20}, c{1, 30};  // homes have four chunks here
  const ChunkIndex index(ManifestOf(c, {{'p', a}, {'q', a}, {'r', b}, {'r', b}, {'s', c}}));
  EXPECT_EQ(index.base(), c);
  EXPECT_EQ(index.homes(), (HomeSizes{{a, 40}, {c, 10}}));
  ASSERT_NE(index.Find('p', 10), nullptr);
  EXPECT_EQ(*index.Find('p', 10), (ChunkPlace{a, 0, 'p'}));
  EXPECT_EQ(index.Find('s', 10)->home, c);
  EXPECT_EQ(index.Find('r', 10), nullptr);
  EXPECT_EQ(index.Find('p', 9), nullptr) << "another length";
}

// A store as values: saves, prunes and crashes at random; what a complete checkpoint has is there.
class SharedHistory {
 public:
  explicit SharedHistory(uint64_t seed) : random_(seed) {
    retention_ = {static_cast<size_t>(random_.Below(4)), random_.Below(2) * 30};
    for (auto& content : contents_) content = random_.Next();
  }

  void Step() {
    Save();
    Prune();
    Check();
  }

 private:
  using Contents = std::map<ChunkPlace, uint64_t>;

  void Save() {
    const uint64_t job = random_.Below(10) == 0 ? kOther : kJob;
    const CheckpointId id{1, step_ += 1 + random_.Below(20)};
    for (auto& content : contents_) {
      if (random_.Below(4) == 0) content = random_.Next();
    }
    const std::optional<CheckpointId> base = BaseOf(job, complete_);
    const auto index =
        base ? std::optional<ChunkIndex>(std::in_place, manifests_.at(*base)) : std::nullopt;
    Stripe stripe(1);
    stripe[0].set_bytes(contents_.size());
    for (size_t i = 0; i < contents_.size(); ++i) {
      v1::StoredChunk* const chunk = stripe[0].add_chunks();
      chunk->set_offset(i);
      chunk->set_bytes(1);
      chunk->set_digest(contents_[i]);
      const ChunkPlace* const place = index ? index->Find(contents_[i], 1) : nullptr;
      chunk->set_sequence(place != nullptr ? place->sequence : static_cast<uint32_t>(i));
      if (place != nullptr) {
        chunk->set_home_epoch(place->home.epoch);
        chunk->set_home_step(place->home.step);
      } else {
        disk_[{id, 0, static_cast<uint32_t>(i)}] = contents_[i];
      }
    }
    if (random_.Below(8) == 0) return;  // it crashes before the manifest
    auto manifest = Assemble({{0, stripe}}, index ? index->homes() : HomeSizes());
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    manifest->set_epoch(id.epoch);
    manifest->set_step(id.step);
    const Kept made{id, job, false, random_.Below(12) == 0, HomesOf(*manifest)};
    CheckThatItSharesNothing(made);
    complete_.push_back(made);
    manifests_[id] = *std::move(manifest);
    saved_[id] = contents_;
    if (random_.Below(10) == 0) complete_[random_.Below(complete_.size())].bad = true;
  }

  void Prune() {
    for (const CheckpointId& id : Superfluous(complete_, retention_)) {
      std::erase_if(complete_, [&](const Kept& kept) { return kept.id == id; });
      manifests_.erase(id);
      if (random_.Below(8) == 0) return;  // it crashes between
    }
    std::set<CheckpointId> present;
    for (const auto& [place, content] : disk_) present.insert(place.home);
    for (const CheckpointId& id : Unneeded({present.begin(), present.end()}, complete_)) {
      std::erase_if(disk_, [&](const auto& chunk) { return chunk.first.home == id; });
    }
    for (const Kept& kept : complete_) {
      uint64_t stored = 0;
      for (const v1::HomeCheckpoint& home : manifests_.at(kept.id).homes()) {
        stored += home.stored_bytes();
      }
      EXPECT_LE(stored, 2 * contents_.size()) << "homes hold at most twice what a checkpoint has";
    }
    EXPECT_LE(disk_.size(), 3 * contents_.size() * complete_.size());
  }

  void Check() {
    for (const Kept& kept : complete_) {
      const v1::CheckpointManifest& manifest = manifests_.at(kept.id);
      for (int i = 0; i < manifest.items(0).chunks_size(); ++i) {
        const auto chunk = disk_.find(PlaceOf(kept.id, manifest.items(0).chunks(i)));
        ASSERT_NE(chunk, disk_.end()) << "a reference to nothing";
        ASSERT_EQ(chunk->second, saved_.at(kept.id)[static_cast<size_t>(i)]);
      }
    }
  }

  // With the one that is the newest good one of its job so far.
  void CheckThatItSharesNothing(const Kept& made) {
    const Kept* newest = nullptr;
    for (const Kept& kept : complete_) {
      if (kept.job == made.job && !kept.bad && (newest == nullptr || kept.id > newest->id)) {
        newest = &kept;
      }
    }
    if (newest == nullptr) return;
    for (const CheckpointId& home : made.homes) {
      EXPECT_NE(home, newest->id);
      EXPECT_EQ(std::ranges::count(newest->homes, home), 0);
    }
  }

  Random random_;
  Retention retention_;
  std::array<uint64_t, 12> contents_{};
  std::map<CheckpointId, std::array<uint64_t, 12>> saved_;
  uint64_t step_ = 0;
  Contents disk_;
  std::vector<Kept> complete_;
  std::map<CheckpointId, v1::CheckpointManifest> manifests_;
};

TEST(Homes, NoReferenceDanglesInAnyHistory) {
  for (uint64_t seed = 1; seed <= 300 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    SharedHistory history(seed);
    for (int i = 0; i < 40 && !testing::Test::HasFailure(); ++i) history.Step();
  }
}

// A store whose checkpoints have one item that never changes and one that always does.
class SharedChunks : public testing::Test {
 protected:
  SharedChunks() : folder_(MakeMemoryFolder()), store_(folder_ + "/store") {}
  ~SharedChunks() override { fs::remove_all(folder_); }

  void SetUp() override { ASSERT_TRUE(PrepareStore(store_).ok()); }

  StatusOr<std::unique_ptr<CheckpointStore>> Open() const {
    return CheckpointStore::Open(store_ + "/checkpoints");
  }

  std::unique_ptr<rocksdb::DB> OpenRaw() const {
    rocksdb::DB* raw = nullptr;
    const auto opened = rocksdb::DB::Open(rocksdb::Options(), store_ + "/checkpoints", &raw);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    return std::unique_ptr<rocksdb::DB>(raw);
  }

  static std::string Bytes(uint64_t seed, size_t count) {
    Random random(seed);
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.Next());
    return bytes;
  }
  static std::vector<SavedItem> ItemsAt(uint64_t step, size_t frozen = 400'000) {
    return {{"frozen", {}, Bytes(1, frozen)},
            {"moving", {}, Bytes(1000 + step, 200'000)},
            {"own", {}, Bytes(2, 70'000), 1}};
  }

  Status Save(CheckpointStore* store, uint64_t step) {
    return SaveItems(store, {.step = step}, ItemsAt(step));
  }

  static void ExpectWhole(const CheckpointReader& reader, uint64_t step) {
    const auto manifest = reader.Manifest({1, step});
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    ASSERT_TRUE(reader.Verify(*manifest).ok()) << reader.Verify(*manifest);
    for (const SavedItem& saved : ItemsAt(step)) {
      std::string bytes;
      for (const v1::StoredItem& item : manifest->items()) {
        if (item.name() != saved.name) continue;
        for (const v1::StoredChunk& chunk : item.chunks()) {
          bytes += *reader.Chunk({1, step}, item, chunk);
        }
      }
      EXPECT_EQ(bytes, saved.bytes) << saved.name;
    }
  }

  std::map<uint64_t, uint64_t> StoredBySteps() const {
    std::map<uint64_t, uint64_t> stored;
    const auto list = ListCheckpoints(store_);
    EXPECT_TRUE(list.ok()) << list.status();
    for (const CheckpointSummary& each : *list) stored[each.step] = each.stored_bytes;
    return stored;
  }

  const std::string folder_, store_;
};

TEST_F(SharedChunks, AreWrittenTwiceHoweverManyCheckpointsHaveThem) {
  {
    auto store = Open();
    ASSERT_TRUE(store.ok()) << store.status();
    (*store)->Keep({.newest = 10});
    for (const uint64_t step : {10, 20, 30, 40, 50}) ASSERT_TRUE(Save(store->get(), step).ok());
    for (const uint64_t step : {10, 20, 30, 40, 50}) ExpectWhole((*store)->reader(), step);
  }
  EXPECT_EQ(StoredBySteps(),
            (std::map<uint64_t, uint64_t>{
                {10, 670'000}, {20, 670'000}, {30, 200'000}, {40, 200'000}, {50, 200'000}}));
  EXPECT_THAT(HomesOf(*ShowCheckpoint(store_, {1, 50})), ElementsAre(CheckpointId{1, 10}))
      << "the home itself, not step 30";
  EXPECT_THAT(HomesOf(*ShowCheckpoint(store_, {1, 40})), ElementsAre(CheckpointId{1, 20}));
  uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(store_)) {
    if (entry.path().extension() == ".sst") bytes += entry.file_size();
  }
  EXPECT_LT(bytes, 2'100'000u) << "of 3.35 MB";
}

TEST_F(SharedChunks, StayWhenTheirCheckpointGoesAndGoWithTheLastThatHasThem) {
  auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  for (const uint64_t step : {10, 20, 30, 40, 50}) ASSERT_TRUE(Save(store->get(), step).ok());
  EXPECT_THAT(*(*store)->reader().Complete(),
              ElementsAre(CheckpointId{1, 50}, CheckpointId{1, 40}));
  EXPECT_THAT(*(*store)->reader().WithChunks(),
              ElementsAre(CheckpointId{1, 50}, CheckpointId{1, 40}, CheckpointId{1, 20},
                          CheckpointId{1, 10}));
  EXPECT_EQ(StoredBySteps().size(), 2u) << "a home that is no checkpoint is not listed";
  store->reset();
  store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  ExpectWhole((*store)->reader(), 40);
  ExpectWhole((*store)->reader(), 50);
  // From here on nothing of before is used.
  for (const uint64_t step : {60, 70, 80}) {
    ASSERT_TRUE(SaveItems(store->get(), {.step = step}, {{"new", {}, Bytes(step, 90'000)}}).ok());
  }
  EXPECT_THAT(*(*store)->reader().WithChunks(),
              ElementsAre(CheckpointId{1, 80}, CheckpointId{1, 70}));
}

TEST_F(SharedChunks, OfACheckpointThatIsBeingMadeStay) {
  auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  for (const uint64_t step : {10, 20}) ASSERT_TRUE(Save(store->get(), step).ok());
  const SavedWorld late{.step = 30, .world = 1};
  StripeCollector collector(store->get(), [] { return int64_t{1}; });
  collector.SetEpoch(RecordOf(late));
  std::unique_ptr<StripeCollector::Incoming> incoming;
  for (const v1::SaveChunk& chunk : ChunksOf(late, 0, {{"frozen", {}, Bytes(1, 400'000)}})) {
    if (incoming == nullptr) incoming = *collector.Begin(chunk);
    ASSERT_TRUE(WriteChunk(incoming.get(), chunk).ok());
  }
  (*store)->Drop({1, 10});  // its base
  ASSERT_TRUE(KeepStripe(incoming.get()).ok());
  EXPECT_TRUE(VerifyCheckpoint(store_, {1, 30}).ok());
  EXPECT_EQ(StoredBySteps()[30], 0u) << "all of it lies with step 10";
}

// A byte of a home is flipped on the disk: one of the newest two is good, and the next checkpoint
// does not take the damaged chunk.
TEST_F(SharedChunks, ThatAreDamagedAreInOneOfTwoAndAreWrittenAgain) {
  {
    auto store = Open();
    ASSERT_TRUE(store.ok()) << store.status();
    for (const uint64_t step : {10, 20, 30, 40}) ASSERT_TRUE(Save(store->get(), step).ok());
  }
  {
    const auto db = OpenRaw();
    std::string bytes;
    ASSERT_TRUE(db->Get(rocksdb::ReadOptions(), ChunkKey({1, 10}, 0, 0), &bytes).ok());
    bytes[5] ^= 1;
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), ChunkKey({1, 10}, 0, 0), bytes).ok());
  }
  EXPECT_EQ(VerifyCheckpoint(store_, {1, 30}).code(), StatusCode::kDataLoss);
  EXPECT_TRUE(VerifyCheckpoint(store_, {1, 40}).ok());
  auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  (*store)->Keep({.newest = 10});
  ASSERT_TRUE(Save(store->get(), 50).ok());
  ExpectWhole((*store)->reader(), 50);
  EXPECT_GT(StoredBySteps()[50], 200'000u) << "the chunk is there again";
  EXPECT_THAT(HomesOf(*ShowCheckpoint(store_, {1, 50})), ElementsAre(CheckpointId{1, 10}));
}

// Their manifests have a SHA-256 of each chunk, the oldest nothing else.
TEST_F(SharedChunks, OfOlderVersionsAreCheckedByWhatTheyHave) {
  {
    auto store = Open();
    ASSERT_TRUE(store.ok()) << store.status();
    for (const uint64_t step : {10, 20}) ASSERT_TRUE(Save(store->get(), step).ok());
  }
  const std::string damaged = ChunkKey({1, 20}, 1, 0);
  {
    const auto db = OpenRaw();
    for (const uint64_t step : {10, 20}) {
      v1::CheckpointManifest manifest = *CheckpointReader(db.get(), "it").Manifest({1, step});
      for (v1::StoredItem& item : *manifest.mutable_items()) {
        for (v1::StoredChunk& chunk : *item.mutable_chunks()) {
          std::string bytes;
          const std::string key = ChunkKey({1, step}, chunk.rank(), chunk.sequence());
          ASSERT_TRUE(db->Get(rocksdb::ReadOptions(), key, &bytes).ok());
          chunk.set_sha256(Sha256(bytes));
          chunk.clear_digest();
        }
      }
      ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), ManifestKey({1, step}), Seal(manifest)).ok());
    }
    std::string bytes;
    ASSERT_TRUE(db->Get(rocksdb::ReadOptions(), damaged, &bytes).ok());
    bytes.back() ^= 4;
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), damaged, bytes).ok());
  }
  EXPECT_TRUE(VerifyCheckpoint(store_, {1, 10}).ok()) << VerifyCheckpoint(store_, {1, 10});
  EXPECT_EQ(VerifyCheckpoint(store_, {1, 20}).code(), StatusCode::kDataLoss);
  auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(Save(store->get(), 30).ok());
  EXPECT_EQ(StoredBySteps()[30], 670'000u) << "nothing of theirs is taken";
}

TEST_F(SharedChunks, AreExportedAndComeFromImportsToo) {
  {
    auto store = Open();
    ASSERT_TRUE(store.ok()) << store.status();
    for (const uint64_t step : {10, 20, 30}) ASSERT_TRUE(Save(store->get(), step).ok());
  }
  const auto view = StoreView::Open(store_);
  ASSERT_TRUE(view.ok()) << view.status();
  const auto manifest = view->reader().Find({1, 30});
  const auto plan = PlanExport(*manifest, {{"frozen", "moving"}, std::nullopt});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::string file = folder_ + "/exported";
  ASSERT_TRUE(ExportCheckpoint(view->reader(), *manifest, *plan, file, {}).ok());
  ASSERT_TRUE(ImportCheckpoint({.store = store_, .file = file, .job = 9, .step = 1}, {}).ok());
  const auto again = ImportCheckpoint({.store = store_, .file = file, .job = 9, .step = 2}, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(again->homes(), IsEmpty()) << "the newest two share nothing";
  const auto third = ImportCheckpoint({.store = store_, .file = file, .job = 9, .step = 3}, {});
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(third->homes_size(), 1);
  EXPECT_LT(third->stored_bytes(), 1000u) << "nothing has changed";
  EXPECT_TRUE(VerifyCheckpoint(store_, {third->epoch(), 3}).ok());
}

TEST_F(SharedChunks, AStoreOfTheFormatBeforeContinuesAndIsKeptFromOlderVersions) {
  std::ofstream(store_ + "/FORMAT") << "ringwood-store 1\n";
  EXPECT_TRUE(CheckStore(store_).ok());
  ASSERT_TRUE(PrepareStore(store_).ok());
  std::ifstream file(store_ + "/FORMAT");
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "ringwood-store 2");
  ASSERT_TRUE(MarkDivided(store_).ok());
  ASSERT_TRUE(PrepareStore(store_).ok());
  std::ifstream divided(store_ + "/FORMAT");
  std::getline(divided, line);
  EXPECT_EQ(line, "ringwood-store 3") << "it stays one of several stores";
  std::ofstream(store_ + "/FORMAT") << "ringwood-store 4\n";
  EXPECT_EQ(PrepareStore(store_).code(), Refused("").code());
}

}  // namespace
}  // namespace ringwood

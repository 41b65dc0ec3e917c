// What a store keeps, whom it lets in, and how long it waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "base/digest.h"
#include "jobs/store_quota.h"
#include "server/calls/turnstile.h"
#include "server/store/database.h"
#include "server/store/service/stripe_collector.h"
#include "server/store/store_directory.h"
#include "server/store/view/pin.h"
#include "server/store/view/store_view.h"
#include "tests/server/checkpoints/stripe.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    std::string pattern = testing::TempDir() + "/ringwood-store-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    store_ = directory_ + "/store";
  }
  ~StoreTest() override { fs::remove_all(directory_); }
  std::string directory_, store_;
};

v1::EpochRecord Alone(uint64_t epoch, uint64_t job) {
  v1::EpochRecord record;
  record.set_epoch(epoch);
  record.set_job(job);
  record.set_world(1);
  record.add_members()->set_incarnation(1);
  return record;
}

v1::EpochRecord Together(int world) {
  v1::EpochRecord record = Alone(1, 7);
  record.set_world(static_cast<uint32_t>(world));
  for (int rank = 1; rank < world; ++rank) record.add_members()->set_incarnation(1);
  return record;
}

v1::SaveChunk Weights(uint64_t epoch, uint64_t step, uint32_t world, const std::string& data) {
  v1::SaveChunk chunk;
  chunk.set_epoch(epoch);
  chunk.set_step(step);
  chunk.set_world(world);
  chunk.set_incarnation(1);
  chunk.set_item("weights");
  chunk.set_scope(v1::SCOPE_SHARED);
  chunk.set_item_bytes(data.size());
  chunk.set_data(data);
  chunk.set_checksum(Digest(std::as_bytes(std::span(data))));
  return chunk;
}

// One rank's checkpoint of one item.
Status SaveAlone(StripeCollector* collector, uint64_t epoch, uint64_t step,
                 const std::string& data) {
  const v1::SaveChunk chunk = Weights(epoch, step, 1, data);
  RW_ASSIGN_OR_RETURN(auto incoming, collector->Begin(chunk));
  RW_RETURN_IF_ERROR(WriteChunk(incoming.get(), chunk));
  RW_RETURN_IF_ERROR(KeepStripe(incoming.get()).status());
  return collector->Outcome(epoch, step).value_or(Internal("not complete"));
}

StripeCollector CollectorOf(const std::unique_ptr<CheckpointStore>& store) {
  return StripeCollector(store.get(), [] { return int64_t{1}; });
}

StatusOr<std::string> LoadWeights(const CheckpointStore& store, const CheckpointId& id) {
  RW_ASSIGN_OR_RETURN(const auto manifest, store.reader().Find(id));
  return store.reader().Chunk({manifest.epoch(), manifest.step()}, manifest.items(0),
                              manifest.items(0).chunks(0));
}

// Replaces a chunk behind the store's back, so that only the hash knows.
void Damage(const std::string& directory, const CheckpointId& id) {
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), directory, &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::string bytes;
  ASSERT_TRUE(db->Get(rocksdb::ReadOptions(), ChunkKey(id, 0, 0), &bytes).ok());
  bytes[0] ^= 1;
  ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), ChunkKey(id, 0, 0), bytes).ok());
}

TEST_F(StoreTest, ADamagedCheckpointDoesNotPushOutAGoodOne) {
  {
    auto store = CheckpointStore::Open(store_);
    ASSERT_TRUE(store.ok()) << store.status();
    StripeCollector collector = CollectorOf(*store);
    collector.SetEpoch(Alone(1, 7));
    ASSERT_TRUE(SaveAlone(&collector, 1, 10, "ten").ok());
    ASSERT_TRUE(SaveAlone(&collector, 1, 20, "twenty").ok());
  }
  Damage(store_, {1, 20});
  auto store = CheckpointStore::Open(store_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->NewestGood(7)->value().step, 10u);
  StripeCollector collector = CollectorOf(*store);
  collector.SetEpoch(Alone(2, 7));
  ASSERT_TRUE(SaveAlone(&collector, 2, 15, "fifteen").ok());
  EXPECT_EQ(*LoadWeights(**store, {1, 10}), "ten") << "the only good one before it";
  ASSERT_TRUE(SaveAlone(&collector, 2, 25, "twenty-five").ok());
  EXPECT_THAT(*(*store)->reader().Complete(),
              ElementsAre(CheckpointId{2, 25}, CheckpointId{2, 15}));
}

TEST_F(StoreTest, ACheckpointBeyondTheQuotaFailsAndTheOneBeforeStays) {
  auto store = CheckpointStore::Open(store_);
  ASSERT_TRUE(store.ok()) << store.status();
  StoreQuota quota(store_, BytesBelow(store_) + (256 << 10));
  StripeCollector collector(
      store->get(), [] { return int64_t{1}; }, &quota);
  collector.SetEpoch(Alone(1, 7));
  ASSERT_TRUE(SaveAlone(&collector, 1, 10, "ten").ok());
  const Status refused = SaveAlone(&collector, 1, 20, std::string(257 << 10, 'x'));
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(refused), HasSubstr("may take"));
  EXPECT_EQ(*LoadWeights(**store, {1, 10}), "ten");
  ASSERT_TRUE(SaveAlone(&collector, 1, 30, "thirty").ok()) << "what failed takes no place";
}

TEST_F(StoreTest, ADroppedCheckpointIsNoCheckpoint) {
  auto store = CheckpointStore::Open(store_);
  ASSERT_TRUE(store.ok()) << store.status();
  StripeCollector collector = CollectorOf(*store);
  collector.SetEpoch(Alone(1, 7));
  ASSERT_TRUE(SaveAlone(&collector, 1, 10, "ten").ok());
  (*store)->Drop({1, 10});
  EXPECT_THAT(*(*store)->reader().Complete(), ElementsAre());
}

// A new one, with a checkpoint of each of the epochs 1 and 2, at these steps.
std::unique_ptr<CheckpointStore> StoreOfTwoEpochs(const std::string& directory, uint64_t first,
                                                  uint64_t second) {
  EXPECT_TRUE(PrepareStore(directory).ok());
  auto store = CheckpointStore::Open(directory + "/checkpoints");
  EXPECT_TRUE(store.ok()) << store.status();
  StripeCollector collector = CollectorOf(*store);
  for (const auto& [epoch, step] :
       {std::pair(uint64_t{1}, first), std::pair(uint64_t{2}, second)}) {
    collector.SetEpoch(Alone(epoch, 7));
    EXPECT_TRUE(SaveAlone(&collector, epoch, step, "of epoch " + std::to_string(epoch)).ok());
  }
  return *std::move(store);
}

TEST_F(StoreTest, AStepOfTwoEpochsIsTwoCheckpoints) {
  {
    const auto store = StoreOfTwoEpochs(store_, 100, 100);
    EXPECT_EQ(*LoadWeights(*store, {1, 100}), "of epoch 1");
    EXPECT_EQ(*LoadWeights(*store, {2, 100}), "of epoch 2");
    EXPECT_EQ(*LoadWeights(*store, {0, 100}), "of epoch 2");
    EXPECT_EQ(LoadWeights(*store, {3, 100}).status().code(), StatusCode::kNotFound);
  }
  Damage(store_ + "/checkpoints", {1, 100});
  EXPECT_TRUE(VerifyCheckpoint(store_, {2, 100}).ok());
  EXPECT_EQ(VerifyCheckpoint(store_, {1, 100}).code(), StatusCode::kDataLoss);
}

// An imported model is of step 0, if nothing else is said.
TEST_F(StoreTest, StepZeroIsAStepAndNotTheNewest) {
  const auto store = StoreOfTwoEpochs(store_, 0, 50);
  const CheckpointReader& reader = store->reader();
  WantedCheckpoint wanted;
  EXPECT_EQ(*reader.Resolve(wanted), (CheckpointId{2, 50}));
  wanted.epoch = 1;
  EXPECT_EQ(*reader.Resolve(wanted), (CheckpointId{1, 0}));
  wanted = {};
  wanted.step = 0;
  EXPECT_EQ(*reader.Resolve(wanted), (CheckpointId{1, 0}));
  wanted.epoch = 2;
  EXPECT_EQ(Message(reader.Resolve(wanted).status()),
            "the checkpoint store " + store_ +
                "/checkpoints has no complete checkpoint of step 0 of epoch 2");
  for (const CheckpointId& id : {CheckpointId{1, 0}, CheckpointId{2, 50}}) {
    ASSERT_TRUE(PinCheckpoint(store_, id, "").ok());
  }
  wanted.epoch = 0;
  EXPECT_EQ(*UnpinCheckpoint(store_, wanted), (CheckpointId{1, 0}));
  EXPECT_EQ(*UnpinCheckpoint(store_, {}), (CheckpointId{2, 50}));
}

TEST_F(StoreTest, ADamagedManifestIsListedAsSuch) {
  ASSERT_TRUE(PrepareStore(store_).ok());
  {
    auto store = CheckpointStore::Open(store_ + "/checkpoints");
    ASSERT_TRUE(store.ok()) << store.status();
    StripeCollector collector = CollectorOf(*store);
    collector.SetEpoch(Alone(1, 7));
    ASSERT_TRUE(SaveAlone(&collector, 1, 10, "ten").ok());
  }
  {
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), store_ + "/checkpoints", &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), ManifestKey({1, 10}), "no manifest").ok());
  }
  const auto list = ListCheckpoints(store_);
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->size(), 1u);
  EXPECT_TRUE((*list)[0].damaged);
  EXPECT_FALSE((*list)[0].complete);
  EXPECT_THAT((*list)[0].problem, HasSubstr("damaged"));
}

TEST_F(StoreTest, EachIsReadOnceAndFarReadsTellHowFar) {
  {
    auto store = CheckpointStore::Open(store_);
    ASSERT_TRUE(store.ok()) << store.status();
    StripeCollector collector = CollectorOf(*store);
    collector.SetEpoch(Alone(1, 7));
    ASSERT_TRUE(SaveAlone(&collector, 1, 10, "ten").ok());
  }
  auto store = CheckpointStore::Open(store_);
  ASSERT_TRUE(store.ok()) << store.status();
  int told = 0;
  const auto progress = [&](const CheckpointId& id, uint64_t done, uint64_t all) {
    EXPECT_EQ(id, (CheckpointId{1, 10}));
    EXPECT_EQ(done, 3u);
    EXPECT_EQ(all, 3u);
    return ++told == 1 ? Unavailable("stopping") : OkStatus();
  };
  EXPECT_EQ((*store)->NewestGood(0, progress).status(), Unavailable("stopping"));
  EXPECT_TRUE((*store)->NewestGood(0, progress)->has_value());
  EXPECT_TRUE((*store)->NewestGood(7, progress)->has_value());
  EXPECT_EQ(told, 2) << "the third question was answered from memory";
  (*store)->Distrust({1, 10}, Corrupt("a load found it damaged"));
  EXPECT_FALSE((*store)->NewestGood(7, progress)->has_value());
}

TEST_F(StoreTest, ASmallCheckpointTakesLittleRoom) {
  ASSERT_TRUE(PrepareStore(store_).ok());
  auto store = CheckpointStore::Open(store_ + "/checkpoints");
  ASSERT_TRUE(store.ok()) << store.status();
  StripeCollector collector = CollectorOf(*store);
  collector.SetEpoch(Alone(1, 7));
  for (uint64_t step = 1; step <= 5; ++step) {
    ASSERT_TRUE(SaveAlone(&collector, 1, step, std::string(300'000, 'w')).ok());
  }
  uint64_t blocks = 0;
  for (const auto& entry : fs::recursive_directory_iterator(store_)) {
    struct stat about {};
    ASSERT_EQ(lstat(entry.path().c_str(), &about), 0);
    blocks += static_cast<uint64_t>(about.st_blocks);
  }
  EXPECT_LT(512 * blocks, 4'000'000u) << "two checkpoints of 300,000 bytes";
}

TEST_F(StoreTest, ACheckpointThatNobodyBringsOnFailsWithTheRanksThatAreMissing) {
  auto store = CheckpointStore::Open(store_);
  ASSERT_TRUE(store.ok()) << store.status();
  StripeCollector collector = CollectorOf(*store);
  collector.SetEpoch(Together(3));
  const v1::SaveChunk chunk = Weights(1, 10, 3, "mine");
  auto incoming = collector.Begin(chunk);
  ASSERT_TRUE(incoming.ok()) << incoming.status();
  ASSERT_TRUE(WriteChunk(incoming->get(), chunk).ok());
  ASSERT_TRUE(KeepStripe(incoming->get()).ok());
  EXPECT_FALSE(collector.GiveUp(Now()));
  EXPECT_FALSE(collector.Outcome(1, 10).has_value());
  EXPECT_TRUE(collector.GiveUp(Now() + Seconds(StripeCollector::kPatienceSeconds + 1)));
  EXPECT_THAT(Message(collector.Outcome(1, 10).value()), HasSubstr("stripe of rank 1, 2"));
}

TEST_F(StoreTest, ACheckpointThatARankMissedFailsWhenItBringsTheNext) {
  auto store = CheckpointStore::Open(store_);
  ASSERT_TRUE(store.ok()) << store.status();
  StripeCollector collector = CollectorOf(*store);
  collector.SetEpoch(Together(2));
  const auto bring = [&](uint64_t step, uint32_t rank) {
    v1::SaveChunk chunk = Weights(1, step, 2, "mine");
    chunk.set_rank(rank);
    chunk.set_scope(v1::SCOPE_OWN);
    auto incoming = collector.Begin(chunk);
    ASSERT_TRUE(incoming.ok()) << incoming.status();
    ASSERT_TRUE(WriteChunk(incoming->get(), chunk).ok());
    ASSERT_TRUE(KeepStripe(incoming->get()).ok());
  };
  bring(10, 0);
  EXPECT_FALSE(collector.Outcome(1, 10).has_value());
  bring(20, 1);
  EXPECT_THAT(Message(collector.Outcome(1, 10).value()),
              HasSubstr("rank 1 brought nothing, and now saves step 20"));
  EXPECT_FALSE(collector.Outcome(1, 20).has_value());
  bring(20, 0);
  EXPECT_EQ(collector.Outcome(1, 20), OkStatus());
}

TEST_F(StoreTest, IsForItsOwnerOnly) {
  const mode_t before = umask(0);
  const Status prepared = PrepareStore(store_);
  umask(before);
  ASSERT_TRUE(prepared.ok()) << prepared;
  for (const char* folder : {"", "/coordinator", "/checkpoints"}) {
    EXPECT_EQ(fs::status(store_ + folder).permissions(), fs::perms::owner_all) << folder;
  }
  ASSERT_EQ(chmod(store_.c_str(), 0755), 0);  // as stores of older versions are
  ASSERT_TRUE(PrepareStore(store_).ok());
  EXPECT_EQ(fs::status(store_).permissions(), fs::perms::owner_all);
}

TEST_F(StoreTest, FollowsNoLinkOfAnotherUsersMaking) {
  ASSERT_TRUE(PrepareStore(store_).ok());
  const std::string target = directory_ + "/target";
  std::ofstream(target) << "precious";
  fs::create_symlink(target, store_ + "/checkpoints/NEWEST.new");
  ASSERT_TRUE(WriteWitness(store_ + "/checkpoints", "newest").ok());
  std::string kept;
  std::getline(std::ifstream(target), kept);
  EXPECT_EQ(kept, "precious");
  EXPECT_EQ(ReadWitness(store_ + "/checkpoints"), "newest");
}

TEST_F(StoreTest, RefusesFoldersThatOthersWriteTo) {
  ASSERT_TRUE(PrepareStore(store_).ok());
  ASSERT_EQ(chmod((store_ + "/checkpoints").c_str(), 0777), 0);
  EXPECT_THAT(Message(PrepareStore(store_)), HasSubstr("can be written to by other users"));
  ASSERT_EQ(chmod((store_ + "/checkpoints").c_str(), 0700), 0);
  EXPECT_TRUE(PrepareStore(store_).ok());
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  for (const char* end : {"", "/", "//", "/.", "/checkpoints/.."}) {
    EXPECT_THAT(Message(PrepareStore(store_ + end)), HasSubstr("could replace the store in it"))
        << end;
  }
  ASSERT_EQ(chmod(directory_.c_str(), 0700), 0);
  if (geteuid() != 0) GTEST_SKIP() << "giving a folder away needs root";
  ASSERT_EQ(chown((store_ + "/coordinator").c_str(), 12345, 12345), 0);
  const Status foreign = PrepareStore(store_);
  EXPECT_EQ(foreign.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(foreign), HasSubstr("belongs to user 12345"));
}

TEST_F(StoreTest, ReadsNeitherPipesNorDevices) {
  ASSERT_TRUE(PrepareStore(store_).ok());
  fs::create_symlink("/dev/zero", store_ + "/coordinator/NEWEST");
  EXPECT_EQ(ReadWitness(store_ + "/coordinator"), "");
  std::ofstream(store_ + "/checkpoints/NEWEST") << std::string(1 << 20, 'x');
  EXPECT_EQ(ReadWitness(store_ + "/checkpoints"), "");
  fs::remove(store_ + "/FORMAT");
  ASSERT_EQ(mkfifo((store_ + "/FORMAT").c_str(), 0600), 0);
  EXPECT_THAT(Message(CheckStore(store_)), HasSubstr("not a small regular file"));
}

TEST_F(StoreTest, WaitsForOneThatStillHoldsTheLockWhereItIsTold) {
  const rocksdb::Options options = SafeOptions();
  auto first = OpenDatabase(options, store_, "the database", Duration::zero());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(OpenDatabase(options, store_, "the database", Duration::zero()).status().code(),
            StatusCode::kFailedPrecondition);
  const Status late = OpenDatabase(options, store_, "the database", Seconds(0.3)).status();
  EXPECT_EQ(late.code(), StatusCode::kUnavailable) << late;
  const Status given_up =
      OpenDatabase(options, store_, "the database", {Seconds(600), [] { return true; }}).status();
  EXPECT_THAT(Message(given_up), HasSubstr("this server ends: it waits no longer for the data"));
  auto second = std::async(std::launch::async, [&] {
    return OpenDatabase(options, store_, "the database", Seconds(60)).status();
  });
  first->reset();
  EXPECT_TRUE(second.get().ok());
}

TEST(Turnstile, LetsSoManyInAndTheOthersInTurn) {
  std::vector<uint64_t> went;
  Turnstile turnstile(2, 3);
  const auto enter = [&](uint64_t id) {
    return turnstile.Enter(id, [&went, id] { went.push_back(id); });
  };
  for (uint64_t id : {1, 2, 3, 4, 5}) EXPECT_TRUE(enter(id));
  EXPECT_FALSE(enter(6)) << "three wait already";
  EXPECT_THAT(went, ElementsAre(1, 2));
  EXPECT_TRUE(turnstile.Cancel(4));
  EXPECT_FALSE(turnstile.Cancel(1)) << "it is inside";
  turnstile.Leave(4);  // never was inside
  EXPECT_THAT(went, ElementsAre(1, 2));
  turnstile.Leave(2);
  EXPECT_THAT(went, ElementsAre(1, 2, 3));
  turnstile.Leave(1);
  turnstile.Leave(3);
  EXPECT_THAT(went, ElementsAre(1, 2, 3, 5));
}

}  // namespace
}  // namespace ringwood

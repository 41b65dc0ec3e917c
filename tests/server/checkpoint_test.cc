// Durable means durable: checkpoints under processes that are killed, files that are cut or
// flipped, disks that are full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "base/digest.h"
#include "base/random.h"
#include "server/coordinator/coord_store.h"
#include "server/store/checkpoint_reader.h"
#include "server/store/service/stripe_collector.h"
#include "tests/server/checkpoints/stripe.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    std::string pattern = testing::TempDir() + "/ringwood-store-XXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~CheckpointTest() override { fs::remove_all(directory_); }
  std::string directory_;
};

v1::EpochRecord Record(uint64_t epoch, uint32_t world = 2, uint64_t job = 5) {
  v1::EpochRecord record;
  record.set_epoch(epoch);
  record.set_job(job);
  record.set_world(world);
  for (uint32_t rank = 0; rank < world; ++rank) {
    v1::RecordedMember* member = record.add_members();
    member->set_role(v1::ROLE_WORKER);
    member->set_rank(rank);
    member->set_incarnation(100 + rank);
  }
  return record;
}

v1::SaveChunk Chunk(uint64_t epoch, uint64_t step, uint32_t rank, const std::string& item,
                    v1::Scope scope, uint64_t item_bytes, uint64_t offset,
                    const std::string& data) {
  v1::SaveChunk chunk;
  chunk.set_epoch(epoch);
  chunk.set_step(step);
  chunk.set_rank(rank);
  chunk.set_world(2);
  chunk.set_incarnation(100 + rank);
  chunk.set_item(item);
  chunk.set_scope(scope);
  chunk.set_item_bytes(item_bytes);
  chunk.set_offset(offset);
  chunk.set_data(data);
  chunk.set_checksum(Digest(std::as_bytes(std::span(data))));
  return chunk;
}

// The state at a step, for any size: what a load must give back.
std::string StateAt(uint64_t step, size_t bytes) {
  Random random(step);
  std::string state(bytes, '\0');
  for (char& byte : state) byte = static_cast<char>(random.Next());
  return state;
}

Status SaveRank(StripeCollector* collector, uint64_t epoch, uint64_t step, uint32_t rank,
                const std::string& state) {
  const size_t half = state.size() / 2;
  const size_t from = rank == 0 ? 0 : half, to = rank == 0 ? half : state.size();
  constexpr size_t kPiece = 64 << 10;
  std::unique_ptr<StripeCollector::Incoming> incoming;
  for (size_t at = from; at < to; at += kPiece) {
    const auto chunk = Chunk(epoch, step, rank, "weights", v1::SCOPE_SHARED, state.size(), at,
                             state.substr(at, std::min(kPiece, to - at)));
    if (incoming == nullptr) {
      auto begun = collector->Begin(chunk);
      if (!begun.ok()) return begun.status();
      incoming = *std::move(begun);
    }
    RW_RETURN_IF_ERROR(WriteChunk(incoming.get(), chunk));
  }
  const std::string own = "own of " + std::to_string(rank);
  RW_RETURN_IF_ERROR(WriteChunk(
      incoming.get(), Chunk(epoch, step, rank, "residual", v1::SCOPE_OWN, own.size(), 0, own)));
  return KeepStripe(incoming.get()).status();
}

Status Save(StripeCollector* collector, uint64_t epoch, uint64_t step, size_t bytes) {
  const std::string state = StateAt(step, bytes);
  RW_RETURN_IF_ERROR(SaveRank(collector, epoch, step, 0, state));
  RW_RETURN_IF_ERROR(SaveRank(collector, epoch, step, 1, state));
  return collector->Outcome(0, step).value_or(Internal("not complete"));
}

// All chunks are of checkpoints that can be read, or of their homes.
void ExpectNoPart(const CheckpointReader& reader) {
  const auto complete = reader.Complete(), present = reader.WithChunks();
  ASSERT_TRUE(complete.ok() && present.ok());
  std::set<CheckpointId> known(complete->begin(), complete->end());
  for (const CheckpointId& id : *complete) {
    const auto manifest = reader.Manifest(id);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    for (const CheckpointId& home : HomesOf(*manifest)) known.insert(home);
  }
  for (const CheckpointId& id : *present) EXPECT_TRUE(known.contains(id)) << id.step;
}

StatusOr<std::string> Load(const CheckpointStore& store, uint64_t step) {
  RW_ASSIGN_OR_RETURN(const auto manifest, store.reader().Find({0, step}));
  std::string state;
  for (const v1::StoredItem& item : manifest.items()) {
    if (item.name() != "weights") continue;
    for (const v1::StoredChunk& chunk : item.chunks()) {
      RW_ASSIGN_OR_RETURN(const std::string bytes,
                          store.reader().Chunk({manifest.epoch(), manifest.step()}, item, chunk));
      state += bytes;
    }
  }
  return state;
}

StripeCollector MakeCollector(CheckpointStore* store) {
  return StripeCollector(store, [] { return int64_t{1}; });
}

TEST_F(CheckpointTest, AnotherEpochsProcessCannotSave) {
  auto store = CheckpointStore::Open(directory_);
  ASSERT_TRUE(store.ok()) << store.status();
  StripeCollector collector = MakeCollector(store->get());
  EXPECT_EQ(Save(&collector, 1, 10, 1000).code(), StatusCode::kUnavailable) << "before any epoch";
  collector.SetEpoch(Record(3));
  EXPECT_EQ(Save(&collector, 2, 10, 1000).code(), StatusCode::kAborted);
  auto impostor = Chunk(3, 10, 0, "weights", v1::SCOPE_SHARED, 1, 0, "x");
  impostor.set_incarnation(9);
  EXPECT_EQ(collector.Begin(impostor).status().code(), StatusCode::kAborted);
  EXPECT_TRUE(Save(&collector, 3, 10, 1000).ok());
  collector.Fence();
  EXPECT_EQ(Save(&collector, 3, 20, 1000).code(), StatusCode::kUnavailable);
}

// Ranks that had not heard of it bring their stripes once more.
TEST_F(CheckpointTest, WhatAStoreThatWasStartedAgainHasIsCompleteAndStays) {
  auto store = CheckpointStore::Open(directory_);
  ASSERT_TRUE(store.ok()) << store.status();
  StripeCollector before = MakeCollector(store->get()), after = MakeCollector(store->get());
  before.SetEpoch(Record(3));
  ASSERT_TRUE(Save(&before, 3, 10, 1000).ok());
  after.SetEpoch(Record(3));
  EXPECT_EQ(SaveRank(&after, 3, 10, 1, StateAt(10, 1000)).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(after.Outcome(3, 10), OkStatus());
  after.Fence();
  EXPECT_EQ(*Load(**store, 10), StateAt(10, 1000));
}

// Ranks 0 and 1 of epoch 3, and the epoch after it: of these processes, which go on from there.
v1::EpochRecord NextEpoch(const std::vector<uint64_t>& incarnations) {
  v1::EpochRecord record = Record(4, static_cast<uint32_t>(incarnations.size()));
  record.set_origin(3);
  for (size_t rank = 0; rank < incarnations.size(); ++rank) {
    record.mutable_members(static_cast<int>(rank))->set_incarnation(incarnations[rank]);
  }
  return record;
}

TEST_F(CheckpointTest, OneThatIsUnderWayOutlivesItsEpochWhileNobodyIsGoneWhosePartIsMissing) {
  struct Case {
    std::string name;
    std::vector<uint64_t> next;
    std::vector<uint32_t> before, after;  // ranks that bring their parts in and after epoch 3
    bool complete;
  };
  const Case cases[] = {
      {"a process has come", {100, 101, 200}, {0}, {1}, true},
      {"ranks have other numbers", {101, 100}, {1}, {0}, true},
      {"all parts come later", {100, 101, 200}, {}, {0, 1}, true},
      {"the part of who is gone was there", {100}, {1}, {0}, true},
      {"the part of who is gone is missing", {100}, {0}, {}, false},
      {"another process has the rank of who is gone", {100, 200}, {0}, {}, false},
      {"who is gone brings its part, after all", {100}, {}, {1}, false},
  };
  auto store = CheckpointStore::Open(directory_);
  ASSERT_TRUE(store.ok()) << store.status();
  uint64_t step = 10;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    StripeCollector collector = MakeCollector(store->get());
    collector.SetEpoch(Record(3));
    const std::string state = StateAt(++step, 1000);
    for (const uint32_t rank : one.before) {
      ASSERT_TRUE(SaveRank(&collector, 3, step, rank, state).ok());
    }
    collector.SetEpoch(NextEpoch(one.next));
    for (const uint32_t rank : one.after) {
      EXPECT_EQ(SaveRank(&collector, 3, step, rank, state).ok(), one.complete);
    }
    const auto outcome = collector.Outcome(3, step);
    ASSERT_TRUE(outcome.has_value()) << "nobody waits for what cannot come";
    EXPECT_EQ(outcome->ok(), one.complete) << *outcome;
    EXPECT_EQ(Load(**store, step).ok(), one.complete);
    if (one.complete) {
      EXPECT_EQ(*Load(**store, step), state);
    }
  }
}

TEST_F(CheckpointTest, AHistoryThatWasGivenUpBringsNothingMore) {
  auto store = CheckpointStore::Open(directory_);
  ASSERT_TRUE(store.ok()) << store.status();
  const std::string state = StateAt(10, 1000);
  v1::EpochRecord anew = NextEpoch({100, 101});
  anew.set_origin(4);
  v1::EpochRecord other = NextEpoch({100, 101});
  other.set_job(6);
  for (const v1::EpochRecord& next : {anew, other}) {
    StripeCollector collector = MakeCollector(store->get());
    collector.SetEpoch(Record(3));
    ASSERT_TRUE(SaveRank(&collector, 3, 10, 0, state).ok());
    collector.SetEpoch(next);
    EXPECT_EQ(collector.Outcome(3, 10)->code(), StatusCode::kAborted);
    EXPECT_EQ(SaveRank(&collector, 3, 11, 1, state).code(), StatusCode::kAborted);
  }
}

TEST_F(CheckpointTest, AnEpochsCheckpointThatSomebodyDoesNotBeginEndsWithTheNextOne) {
  auto store = CheckpointStore::Open(directory_);
  ASSERT_TRUE(store.ok()) << store.status();
  StripeCollector collector = MakeCollector(store->get());
  collector.SetEpoch(Record(3));
  ASSERT_TRUE(SaveRank(&collector, 3, 10, 0, StateAt(10, 1000)).ok());
  collector.SetEpoch(NextEpoch({101, 100}));
  EXPECT_EQ(collector.Outcome(3, 10), std::nullopt);
  // The process that was rank 1 and is rank 0 now.
  auto chunk = Chunk(4, 12, 0, "weights", v1::SCOPE_SHARED, 1, 0, "x");
  chunk.set_incarnation(101);
  ASSERT_TRUE(collector.Begin(chunk).ok());
  EXPECT_THAT(Message(*collector.Outcome(3, 10)), testing::HasSubstr("rank 1 brought nothing"));
}

TEST_F(CheckpointTest, StripesWithGapsOverlapsOrDamageMakeNoCheckpoint) {
  auto store = CheckpointStore::Open(directory_);
  ASSERT_TRUE(store.ok()) << store.status();
  StripeCollector collector = MakeCollector(store->get());
  collector.SetEpoch(Record(1, 1));
  uint64_t step = 0;
  auto attempt = [&](std::vector<v1::SaveChunk> chunks) -> Status {
    ++step;
    for (v1::SaveChunk& chunk : chunks) chunk.set_step(step), chunk.set_world(1);
    RW_ASSIGN_OR_RETURN(auto incoming, collector.Begin(chunks.front()));
    for (const v1::SaveChunk& chunk : chunks) RW_RETURN_IF_ERROR(WriteChunk(incoming.get(), chunk));
    RW_RETURN_IF_ERROR(KeepStripe(incoming.get()).status());
    return *collector.Outcome(0, step);
  };
  const auto shared = v1::SCOPE_SHARED;
  EXPECT_TRUE(
      attempt({Chunk(1, 0, 0, "w", shared, 4, 2, "cd"), Chunk(1, 0, 0, "w", shared, 4, 0, "ab")})
          .ok());
  EXPECT_FALSE(attempt({Chunk(1, 0, 0, "w", shared, 4, 0, "ab")}).ok()) << "ends early";
  EXPECT_FALSE(attempt({Chunk(1, 0, 0, "w", shared, 4, 2, "cd")}).ok()) << "gap";
  const Status overlap =
      attempt({Chunk(1, 0, 0, "w", shared, 4, 0, "abc"), Chunk(1, 0, 0, "w", shared, 4, 2, "cd")});
  EXPECT_THAT(Message(overlap),
              testing::HasSubstr("overlap at byte 3: do all ranks give the same"));
  EXPECT_FALSE(attempt({Chunk(1, 0, 0, "w", shared, 4, 3, "cd")}).ok()) << "outside";
  EXPECT_FALSE(attempt({Chunk(1, 0, 0, "w", shared, 4, ~0ull, "cd")}).ok()) << "wraps around";
  EXPECT_FALSE(attempt({Chunk(1, 0, 0, "", shared, 4, 0, "abcd")}).ok()) << "no name";
  auto typed = Chunk(1, 0, 0, "w", shared, 4, 0, "abcd");
  typed.set_dtype("F32");
  typed.add_shape(2);
  EXPECT_FALSE(attempt({typed}).ok()) << "a type that does not fit";
  auto damaged = Chunk(1, 0, 0, "w", shared, 4, 0, "abcd");
  damaged.set_data("abXd");
  EXPECT_EQ(attempt({damaged}).code(), StatusCode::kDataLoss);
  EXPECT_EQ(store->get()->reader().Complete()->size(), 1u);
}

v1::StoredItem PartOf(const std::string& dtype, uint64_t offset) {
  v1::StoredItem item;
  item.set_name("w");
  item.set_scope(v1::SCOPE_SHARED);
  item.set_bytes(8);
  item.set_dtype(dtype);
  item.add_shape(dtype == "F32" ? 2 : 4);
  item.add_chunks()->set_bytes(4);
  item.mutable_chunks(0)->set_offset(offset);
  return item;
}

TEST(Manifest, AnItemIsOfOneTypeOnAllRanks) {
  const auto whole = Assemble({{0, {PartOf("F32", 0)}}, {1, {PartOf("F32", 4)}}});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(TensorTypeOf(whole->items(0)), (TensorType{"F32", {2}}));
  const auto mixed = Assemble({{0, {PartOf("F32", 0)}}, {1, {PartOf("F16", 4)}}});
  EXPECT_EQ(Message(mixed.status()), "item \"w\" is F16 [4] on rank 1 and F32 [2] on another");
}

constexpr size_t kBytesOfWriter = 400'000;

// Not a test of its own: the process that the next one kills. Saves step after step and reports
// each that it was told is complete.
TEST(CheckpointWriter, DISABLED_SavesUntilItIsKilled) {
  const char* job = getenv("RINGWOOD_TEST_WRITER");
  if (job == nullptr) GTEST_SKIP();
  std::istringstream words(job);
  std::string directory;
  uint64_t epoch = 0, step = 0;
  int reports = -1;
  words >> directory >> epoch >> step >> reports;
  auto store = CheckpointStore::Open(directory);
  ASSERT_TRUE(store.ok()) << store.status();
  StripeCollector collector = MakeCollector(store->get());
  collector.SetEpoch(Record(epoch));
  for (;; ++step) {
    ASSERT_TRUE(Save(&collector, epoch, step, kBytesOfWriter).ok());
    ASSERT_EQ(write(reports, &step, sizeof step), static_cast<ssize_t>(sizeof step));
  }
}

TEST_F(CheckpointTest, AKilledWriterLeavesTheNewestCompleteOneAndNoPart) {
  constexpr int kKills = 25;
  Random random(7);
  uint64_t newest = 0, survived = 0;
  for (int kill_number = 0; kill_number < kKills; ++kill_number) {
    int reports[2];
    ASSERT_EQ(pipe(reports), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {  // a fresh program: RocksDB's threads do not come along in a fork
      const std::string job = directory_ + " " + std::to_string(kill_number + 1) + " " +
                              std::to_string(newest + 1) + " " + std::to_string(reports[1]);
      setenv("RINGWOOD_TEST_WRITER", job.c_str(), 1);
      execl("/proc/self/exe", "writer", "--gtest_also_run_disabled_tests",
            "--gtest_filter=CheckpointWriter.DISABLED_SavesUntilItIsKilled", nullptr);
      _exit(1);
    }
    close(reports[1]);
    uint64_t told = newest;
    const uint64_t wanted = newest + random.Below(3);  // dies while it writes one after this
    while (told < wanted && read(reports[0], &told, sizeof told) == sizeof told) {
    }
    usleep(static_cast<useconds_t>(random.Below(60'000)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << status;
    while (read(reports[0], &told, sizeof told) == sizeof told) {
    }
    close(reports[0]);
    auto store = CheckpointStore::Open(directory_);
    ASSERT_TRUE(store.ok()) << store.status();
    auto base = (*store)->NewestGood(0);
    ASSERT_TRUE(base.ok()) << base.status();
    const uint64_t found = base->has_value() ? (*base)->step : 0;
    ASSERT_GE(found, told) << "a checkpoint that was reported complete is gone";
    if (found > 0) {
      auto loaded = Load(**store, found);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      ASSERT_EQ(*loaded, StateAt(found, kBytesOfWriter));
    }
    ExpectNoPart((*store)->reader());
    survived += found > newest;
    newest = std::max(newest, found);
  }
  EXPECT_GT(survived, 5u) << "most writers must get to write something";
}

// RocksDB's own checks are content with these bytes; the hashes in the manifest are not.
TEST_F(CheckpointTest, ReplacedBytesAreFoundByTheirHash) {
  {
    auto store = CheckpointStore::Open(directory_);
    StripeCollector collector = MakeCollector(store->get());
    collector.SetEpoch(Record(1));
    ASSERT_TRUE(Save(&collector, 1, 1, 150'000).ok());
    ASSERT_TRUE(Save(&collector, 1, 2, 150'000).ok());
  }
  {
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), directory_, &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    std::string bytes;
    ASSERT_TRUE(db->Get(rocksdb::ReadOptions(), ChunkKey({1, 2}, 1, 0), &bytes).ok());
    bytes[bytes.size() / 2] ^= 1;
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), ChunkKey({1, 2}, 1, 0), bytes).ok());
  }
  auto store = CheckpointStore::Open(directory_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(Load(**store, 2).status().code(), StatusCode::kDataLoss);
  auto base = (*store)->NewestGood(0);
  ASSERT_TRUE(base.ok() && base->has_value()) << base.status();
  EXPECT_EQ((*base)->step, 1u) << "the one before is used";
  EXPECT_EQ(*Load(**store, 1), StateAt(1, 150'000));
}

TEST_F(CheckpointTest, AFullDiskFailsThatCheckpointOnly) {
  const std::string disk = directory_ + "/disk";
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=12m") != 0) GTEST_SKIP() << "needs root";
  {
    auto store = CheckpointStore::Open(disk + "/checkpoints");
    ASSERT_TRUE(store.ok()) << store.status();
    StripeCollector collector = MakeCollector(store->get());
    collector.SetEpoch(Record(1));
    EXPECT_TRUE(Save(&collector, 1, 1, 1'000'000).ok());
    const Status full = Save(&collector, 1, 2, 30'000'000);
    EXPECT_EQ(full.code(), StatusCode::kUnavailable) << full;  // and not configuration
    EXPECT_THAT(Message(full), testing::HasSubstr("free space"));
    EXPECT_EQ(*Load(**store, 1), StateAt(1, 1'000'000)) << "the one before stays";
    EXPECT_TRUE(Save(&collector, 1, 3, 1'000'000).ok()) << "and the next one works";
    EXPECT_EQ(*Load(**store, 3), StateAt(3, 1'000'000));
  }
  EXPECT_EQ(umount(disk.c_str()), 0);
}

TEST_F(CheckpointTest, TheEpochIsKeptAndNeverDecreases) {
  {
    auto store = OpenCoordStore(directory_, "");
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->Load()->epoch(), 0u);
    EXPECT_TRUE((*store)->Save(Record(4)).ok());
    EXPECT_FALSE((*store)->Save(Record(4)).ok());
    EXPECT_FALSE((*store)->Save(Record(3)).ok());
  }
  auto store = OpenCoordStore(directory_, "");
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->Load()->epoch(), 4u);
  EXPECT_EQ((*store)->Load()->members_size(), 2);
  EXPECT_FALSE((*store)->Save(Record(4)).ok());
}

}  // namespace
}  // namespace ringwood

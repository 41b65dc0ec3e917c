// The life of a store on a disk that fails at one operation after the other: what was reported
// complete is there to the last byte, nothing partial is, and the store takes the next checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/coordinator/coord_store.h"
#include "server/store/store_directory.h"
#include "tests/server/checkpoints/faulty_disk.h"
#include "tests/server/checkpoints/small_checkpoints.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

// A store that is used by one server after the other, on a disk with one fault. `late`: what is
// saved is read back when the next checkpoint is there, or by nobody.
class Life {
 public:
  explicit Life(const std::string& folder, bool late = false)
      : root_(folder + "/disk"), late_(late) {
    fs::remove_all(folder);
    fs::create_directories(root_);
    disk_ = FaultyDisk::Make(root_);
  }

  FaultyDisk* disk() { return disk_.get(); }

  // One server: it starts, resumes, and its ranks save these steps; a negative one is a step that
  // a rank does not bring to its end. What fails is passed over, as training goes on.
  void Serve(uint64_t epoch, const std::vector<int64_t>& steps) {
    close();
    if (disk_->crashed() || !PrepareStore(root_ + "/store", disk_->env()).ok()) return;
    auto opened = CheckpointStore::Open(root_ + "/store/checkpoints", {}, disk_->env());
    if (!opened.ok()) return;
    store_ = *std::move(opened);
    StripeCollector::ReadBack later = [this](const CheckpointId& id) { unread_.push_back(id); };
    if (!late_) later = nullptr;
    collector_ = std::make_unique<StripeCollector>(
        store_.get(), [] { return int64_t{1}; }, nullptr, later);
    (void)store_->NewestGood(kJob);
    collector_->SetEpoch(RecordOf(epoch));
    for (const int64_t step : steps)
      (void)Save({epoch, static_cast<uint64_t>(std::abs(step))}, step < 0);
  }

  Status Save(const CheckpointId& id, bool breaks_off = false) {
    if (disk_->crashed()) return Aborted("crashed");
    if (breaks_off) return SaveRank(collector_.get(), id, 0, BytesOf(id) / 2);
    auto before = std::exchange(unread_, {});
    const auto read_back = [&] {
      for (const CheckpointId& each : std::exchange(before, {})) {
        collector_->Settle(each, store_->ReadBack(each));
      }
    };
    const Status saved = SaveAll(collector_.get(), id, read_back);
    read_back();  // where it failed before
    if (saved.ok()) reported_.insert(id);
    return saved;
  }

  // The server that is there works again when its disk does.
  void CheckThatItRecovers(uint64_t epoch) {
    disk_->Heal();
    if (store_ == nullptr) return;
    ASSERT_TRUE(Save({epoch, 90}).ok());
    ASSERT_EQ(*LoadAll(store_->reader(), {epoch, 90}), StateOf({epoch, 90}));
  }

  void Lose(Unsynced unsynced, uint64_t seed) {
    close();
    disk_->PowerLoss(unsynced, seed);
  }

  // What the next server finds.
  void CheckThatNothingIsLost(uint64_t epoch) {
    close();
    const std::string place = root_ + "/store/checkpoints";
    const Status prepared = PrepareStore(root_ + "/store", disk_->env());
    ASSERT_TRUE(prepared.ok()) << prepared;
    auto store = CheckpointStore::Open(place, {}, disk_->env());
    ASSERT_TRUE(store.ok()) << store.status();
    const auto complete = (*store)->reader().Complete();
    ASSERT_TRUE(complete.ok()) << complete.status();
    for (const CheckpointId& id : *complete) {
      const auto state = LoadAll((*store)->reader(), id);
      ASSERT_TRUE(state.ok()) << "listed as complete: " << state.status();
      ASSERT_EQ(*state, StateOf(id));
    }
    ASSERT_GE(complete->size(), std::min<size_t>(reported_.size(), kKeptCheckpoints));
    const auto base = (*store)->NewestGood(kJob);
    ASSERT_TRUE(base.ok()) << base.status();
    if (!reported_.empty()) {
      ASSERT_TRUE(base->has_value());
      ASSERT_GE((CheckpointId{(*base)->epoch, (*base)->step}), *reported_.rbegin());
    }
    StripeCollector collector(store->get(), [] { return int64_t{1}; });
    collector.SetEpoch(RecordOf(epoch));
    const Status saved = SaveAll(&collector, {epoch, 100});
    ASSERT_TRUE(saved.ok()) << saved;
    ASSERT_EQ(*LoadAll((*store)->reader(), {epoch, 100}), StateOf({epoch, 100}));
    reported_.insert({epoch, 100});
  }

  size_t reported() const { return reported_.size(); }
  void close() {
    unread_.clear();
    collector_.reset();
    store_.reset();
  }
  ~Life() { close(); }

 private:
  const std::string root_;
  const bool late_;
  std::vector<CheckpointId> unread_;
  std::shared_ptr<FaultyDisk> disk_;
  std::unique_ptr<CheckpointStore> store_;
  std::unique_ptr<StripeCollector> collector_;
  std::set<CheckpointId> reported_;
};

// Two servers, one after the other: seven checkpoints, two that break off, five that are removed.
void Live(Life* life) {
  life->Serve(1, {1, 2, -3, 4});
  life->Serve(2, {5, -6, 7, 8, 9});
}

class StoreFaults : public testing::Test {
 protected:
  StoreFaults() { folder_ = MakeMemoryFolder(); }
  ~StoreFaults() override { fs::remove_all(folder_); }

  uint64_t CountOperations() {
    Life life(folder_ + "/life", late_);
    Live(&life);
    EXPECT_EQ(life.reported(), 7u);
    for (const auto& [kind, count] : life.disk()->counts()) {
      std::printf("%s%s %d", kind == "CURRENT" ? "operations: " : ", ", kind.c_str(),
                  static_cast<int>(count));
    }
    std::printf("\n");
    return life.disk()->operations();
  }

  // The machine goes down at an operation, perhaps with an error of the disk not long before.
  void Crash(uint64_t at, Unsynced unsynced, uint64_t error_at = 0) {
    SCOPED_TRACE(absl::StrFormat("crash at operation %d, un-synced %d, error at %d", at,
                                 static_cast<int>(unsynced), error_at));
    Life life(folder_ + "/life", late_);
    life.disk()->Plan({{DiskFault::kError, error_at}, {DiskFault::kCrash, at}});
    Live(&life);
    SCOPED_TRACE(life.disk()->hit());
    life.Lose(unsynced, at);
    life.CheckThatNothingIsLost(3);
    life.CheckThatNothingIsLost(4);
  }

  void Fail(const DiskFault& fault) {
    SCOPED_TRACE(absl::StrFormat("kind %d at operation %d for %d", static_cast<int>(fault.kind),
                                 fault.at, fault.count));
    Life life(folder_ + "/life", late_);
    life.disk()->Plan({fault});
    Live(&life);
    SCOPED_TRACE(life.disk()->hit());
    life.CheckThatItRecovers(2);
    life.CheckThatNothingIsLost(3);
    life.CheckThatNothingIsLost(4);
  }

  // Every fault at every `stride`-th operation.
  void Sweep(uint64_t first, uint64_t stride) {
    const uint64_t operations = CountOperations();
    uint64_t lives = 0;
    for (uint64_t at = first; at <= operations && !HasFatalFailure(); at += stride, lives += 11) {
      for (Unsynced unsynced : {Unsynced::kGoes, Unsynced::kSomeStays, Unsynced::kStays}) {
        Crash(at, unsynced);
        Crash(at + 1 + at % 5, unsynced, at);
      }
      Fail({DiskFault::kError, at});
      Fail({DiskFault::kError, at, 40});
      Fail({DiskFault::kTorn, at});
      Fail({DiskFault::kNoSpace, at, 40});
      Fail({DiskFault::kNoSpace, at, ~0ull});
    }
    std::printf("%d lives with a fault each\n", static_cast<int>(lives));
  }

  // A checkpoint of this step after a small one, with a fault in it. Returns its operations.
  uint64_t SaveOne(uint64_t step, const DiskFault& fault, Unsynced unsynced = Unsynced::kStays) {
    SCOPED_TRACE(absl::StrFormat("kind %d at operation %d, un-synced %d",
                                 static_cast<int>(fault.kind), fault.at,
                                 static_cast<int>(unsynced)));
    Life life(folder_ + "/life");
    life.Serve(1, {1});
    const uint64_t before = life.disk()->operations();
    life.disk()->Plan({{fault.kind, before + fault.at, fault.count}});
    (void)life.Save({1, step});
    const uint64_t operations = life.disk()->operations() - before;
    SCOPED_TRACE(life.disk()->hit());
    if (life.disk()->crashed()) {
      life.Lose(unsynced, fault.at);
    } else {
      life.CheckThatItRecovers(1);
    }
    life.CheckThatNothingIsLost(2);
    return operations;
  }

  std::string folder_;
  bool late_ = false;  // see Life
};

TEST_F(StoreFaults, NoOperationThatFailsCostsACompleteCheckpoint) { Sweep(1, 61); }

TEST_F(StoreFaults, NorWhereCheckpointsAreReadBackLate) {
  late_ = true;
  Sweep(31, 61);
}

// RocksDB then flushes by itself, and tells nobody that it failed.
TEST_F(StoreFaults, ADiskThatFailsWhileAServerStartsCostsNoLaterCheckpoint) {
  constexpr uint64_t kStart = 24;  // operations, about
  uint64_t before = 0;
  {
    Life life(folder_ + "/life");
    life.Serve(1, {1, 2, -3, 4});
    before = life.disk()->operations();
  }
  for (uint64_t at = before + 1; at <= before + kStart && !HasFatalFailure(); ++at) {
    Fail({DiskFault::kError, at, 40});
  }
}

// A line of RocksDB's own log that finds no room ends the process with the next one.
TEST_F(StoreFaults, NothingButTheStoreIsWrittenToItsDisk) {
  Life life(folder_ + "/life");
  life.Serve(1, {1, 2, 3});
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    EXPECT_NE(entry.path().filename(), "LOG") << entry.path();
  }
}

TEST_F(StoreFaults, LargeChunksToo) {
  const uint64_t operations = SaveOne(kLargeFrom, {DiskFault::kError, 0, 0});
  for (uint64_t at = 1; at <= operations && !HasFatalFailure(); at += 5) {
    for (const auto kind : {DiskFault::kError, DiskFault::kTorn, DiskFault::kNoSpace}) {
      SaveOne(kLargeFrom, {kind, at, at % 2 == 0 ? 1 : ~0ull});
    }
  }
}

TEST_F(StoreFaults, ManifestsInPiecesToo) {
  const uint64_t operations = SaveOne(kManyFrom, {DiskFault::kError, 0, 0});
  for (uint64_t at = 1; at <= operations && !HasFatalFailure(); at += 4) {
    for (Unsynced unsynced : {Unsynced::kGoes, Unsynced::kSomeStays, Unsynced::kStays}) {
      SaveOne(kManyFrom, {DiskFault::kCrash, at}, unsynced);
    }
    for (const auto kind : {DiskFault::kError, DiskFault::kTorn, DiskFault::kNoSpace}) {
      SaveOne(kManyFrom, {kind, at + 1, at % 3 == 0 ? 1 : ~0ull});
    }
  }
}

TEST_F(StoreFaults, AStoreThatIsDeletedUnderWaySaysSoAndBeginsAnewWhereItIsTold) {
  const std::string store = folder_ + "/store";
  ASSERT_TRUE(PrepareStore(store).ok());
  auto epochs = OpenCoordStore(store + "/coordinator", "key");
  auto checkpoints = CheckpointStore::Open(store + "/checkpoints");
  ASSERT_TRUE(epochs.ok() && checkpoints.ok());
  ASSERT_TRUE((*epochs)->Save(RecordOf(1)).ok());
  StripeCollector collector(checkpoints->get(), [] { return int64_t{1}; });
  collector.SetEpoch(RecordOf(1));
  ASSERT_TRUE(SaveAll(&collector, {1, 1}).ok());

  fs::rename(store, folder_ + "/elsewhere");  // its disk is gone
  const Status gone = SaveAll(&collector, {1, 2});
  EXPECT_EQ(gone.code(), StatusCode::kUnavailable) << gone;
  EXPECT_THAT(Message(gone), testing::HasSubstr("was deleted, or its disk is gone"));
  const Status refused = (*epochs)->Save(RecordOf(2));
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(refused), testing::HasSubstr("until it is back, and no epoch begins. Mount"));
  EXPECT_EQ((*checkpoints)->reader().Complete().status().code(), StatusCode::kUnavailable);

  fs::rename(folder_ + "/elsewhere", store);  // and comes back
  EXPECT_TRUE(SaveAll(&collector, {1, 3}).ok());
  EXPECT_TRUE((*epochs)->Save(RecordOf(2)).ok());
  EXPECT_EQ(*LoadAll((*checkpoints)->reader(), {1, 1}), StateOf({1, 1}));

  fs::remove_all(store);
  EXPECT_EQ(SaveAll(&collector, {1, 4}).code(), StatusCode::kUnavailable);
  fs::create_directory(store);  // lost, and begun anew
  EXPECT_TRUE((*epochs)->Save(RecordOf(3)).ok());
  const Status anew = SaveAll(&collector, {1, 5});
  EXPECT_TRUE(anew.ok()) << anew;
  EXPECT_TRUE(CheckStore(store).ok());
  EXPECT_EQ(*LoadAll((*checkpoints)->reader(), {1, 5}), StateOf({1, 5}));
}

TEST_F(StoreFaults, TheEpochsRecordIsWrittenAgainWhereItsStoreBeginsAnew) {
  const std::string store = folder_ + "/store", place = store + "/coordinator";
  ASSERT_TRUE(PrepareStore(store).ok());
  auto epochs = OpenCoordStore(place, "key");
  ASSERT_TRUE(epochs.ok()) << epochs.status();
  EXPECT_TRUE((*epochs)->Keep().ok()) << "there is none yet";
  ASSERT_TRUE((*epochs)->Save(RecordOf(3)).ok());
  EXPECT_TRUE((*epochs)->Keep().ok()) << "it is there";
  const std::string written = (*epochs)->Load()->SerializeAsString();
  for (int times = 0; times < 2; ++times) {  // by who has saved it, and by who has read it
    fs::remove_all(store);
    EXPECT_EQ((*epochs)->Keep().code(), StatusCode::kUnavailable);
    fs::create_directory(store);
    const Status kept = (*epochs)->Keep();
    EXPECT_TRUE(kept.ok()) << kept;
    epochs->reset();
    epochs = OpenCoordStore(place, "key");
    ASSERT_TRUE(epochs.ok()) << epochs.status();
    EXPECT_EQ((*epochs)->Load()->SerializeAsString(), written);
  }
}

// The coordinator's own: epochs that were kept are never forgotten.
TEST_F(StoreFaults, NoOperationThatFailsCostsAnEpoch) {
  const auto live = [this](const std::vector<DiskFault>& faults, Unsynced unsynced) -> uint64_t {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    const std::string root = folder_ + "/disk", place = root + "/store/coordinator";
    fs::create_directories(root);
    const auto disk = FaultyDisk::Make(root);
    disk->Plan(faults);
    uint64_t kept = 0;
    for (uint64_t epoch = 1; epoch <= 6;) {
      if (!PrepareStore(root + "/store", disk->env()).ok()) break;
      auto store = OpenCoordStore(place, "key", {}, disk->env());
      for (const uint64_t restart = epoch + 3; epoch < restart; ++epoch) {
        if (store.ok() && (*store)->Save(RecordOf(epoch)).ok()) kept = epoch;
      }
      if (store.ok() && !disk->crashed()) {
        disk->Heal();
        EXPECT_TRUE((*store)->Save(RecordOf(epoch)).ok()) << "it does not recover";
        kept = epoch++;
      }
    }
    const uint64_t operations = disk->operations();
    SCOPED_TRACE(disk->hit());
    if (disk->crashed()) disk->PowerLoss(unsynced, operations);
    disk->Heal();
    EXPECT_TRUE(PrepareStore(root + "/store", disk->env()).ok());
    auto store = OpenCoordStore(place, "key", {}, disk->env());
    EXPECT_TRUE(store.ok()) << store.status();
    if (!store.ok()) return 0;
    EXPECT_GE((*store)->Load()->epoch(), kept);
    EXPECT_TRUE((*store)->Save(RecordOf(100)).ok());
    return operations;
  };
  const uint64_t operations = live({}, Unsynced::kStays);
  for (uint64_t at = 1; at <= operations && !HasFailure(); at += 7) {
    for (Unsynced unsynced : {Unsynced::kGoes, Unsynced::kSomeStays, Unsynced::kStays}) {
      live({{DiskFault::kCrash, at}}, unsynced);
    }
    for (const auto kind : {DiskFault::kError, DiskFault::kTorn, DiskFault::kNoSpace}) {
      live({{kind, at, at % 2 == 0 ? 1u : 20u}}, Unsynced::kStays);
    }
  }
}

constexpr uint64_t kParts = 8;
class StoreFaultsLong : public StoreFaults, public testing::WithParamInterface<uint64_t> {};
TEST_P(StoreFaultsLong, NoOperationThatFailsCostsACompleteCheckpoint) { Sweep(GetParam(), kParts); }
TEST_P(StoreFaultsLong, NorWhereCheckpointsAreReadBackLate) {
  late_ = true;
  Sweep(GetParam(), kParts);
}
INSTANTIATE_TEST_SUITE_P(Parts, StoreFaultsLong, testing::Range<uint64_t>(1, 1 + kParts));

}  // namespace
}  // namespace ringwood

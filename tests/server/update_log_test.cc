#include "server/updates/update_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/random.h"
#include "tests/server/checkpoints/faulty_disk.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kLoggedJob = 7;

class UpdateLogTest : public testing::Test {
 protected:
  UpdateLogTest() : directory_(testing::TempDir() + absl::StrFormat("update_log_%d", getpid())) {
    fs::remove_all(directory_);
    Open();
  }
  ~UpdateLogTest() override {
    log_.reset();
    fs::remove_all(directory_);
  }

  void Open(const UpdateLogOptions& options = {.on = true}) {
    log_.reset();
    auto opened = UpdateLog::Open(directory_, options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    log_ = *std::move(opened);
  }

  void Begin(uint64_t epoch, const CheckpointId& from = {}, uint64_t step = 0,
             uint64_t origin = 0) {
    v1::EpochRecord record;
    record.set_job(kLoggedJob);
    record.set_epoch(epoch);
    record.set_origin(origin == 0 ? epoch : origin);
    record.set_base_epoch(from.epoch);
    record.set_base_step(step);
    record.set_logged_steps(step - from.step);
    ASSERT_TRUE(log_->SetEpoch(record).ok());
  }

  // The body of a round, of some pieces.
  static std::string BodyOf(uint64_t epoch, uint64_t step) {
    Random random(1000 * epoch + step);
    std::string body(1 + random.Below(9000), '\0');
    for (char& byte : body) byte = static_cast<char>(random.Next());
    return body;
  }

  // Not the last one of its round.
  static v1::LogPiece PieceOf(uint64_t epoch, uint64_t step, const std::string& data,
                              uint64_t offset = 0) {
    v1::LogPiece piece;
    piece.set_epoch(epoch);
    piece.set_step(step);
    piece.set_offset(offset);
    piece.set_data(data);
    piece.set_checksum(Digest(std::as_bytes(std::span(data))));
    return piece;
  }

  Status Log(uint64_t epoch, uint64_t step, bool restart = false) {
    const std::string body = BodyOf(epoch, step);
    constexpr size_t kPiece = 1000;
    for (size_t at = 0; at < body.size(); at += kPiece) {
      v1::LogPiece piece = PieceOf(epoch, step, body.substr(at, kPiece), at);
      piece.set_restart(restart);
      piece.set_last(at + kPiece >= body.size());
      const StatusOr<bool> taken = log_->Take(piece);
      if (!taken.ok()) return taken.status();
      EXPECT_EQ(*taken, piece.last());
    }
    return OkStatus();
  }

  // Steps that lead on from the checkpoint; each body is compared.
  std::vector<uint64_t> StepsAfter(const CheckpointId& id) {
    const UpdateLog::Rounds found = *log_->After(kLoggedJob, id);
    Status problem;
    EXPECT_EQ(log_->CountGood(found, &problem), found.rounds.size()) << problem;
    std::vector<uint64_t> steps;
    for (size_t i = 0; i < found.rounds.size(); ++i) {
      const auto head = log_->Head(found, i);
      std::string body;
      for (int piece = 0; piece < head->digests_size(); ++piece) {
        body += *log_->Piece(found, i, *head, piece);
      }
      EXPECT_EQ(body, BodyOf(head->epoch(), head->step()));
      steps.push_back(head->step());
    }
    return steps;
  }

  uint64_t TableBytes() const {
    uint64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(directory_)) {
      std::error_code gone;
      const uint64_t size = fs::file_size(file.path(), gone);
      if (!gone && file.path().extension() == ".sst") bytes += size;
    }
    return bytes;
  }

  const std::string directory_;
  std::unique_ptr<UpdateLog> log_;
};

TEST_F(UpdateLogTest, KeepsRoundsOverAStart) {
  Begin(1);
  for (uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(Log(1, step).ok());
  EXPECT_THAT(StepsAfter({1, 2}), ElementsAre(3, 4, 5));
  Open();
  EXPECT_THAT(StepsAfter({1, 2}), ElementsAre(3, 4, 5));
  Begin(2, {1, 2}, 5);
  ASSERT_TRUE(Log(2, 6).ok());
  Open();
  EXPECT_THAT(StepsAfter({1, 2}), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(StepsAfter({2, 5}), ElementsAre(6));
}

TEST_F(UpdateLogTest, ARoundThatDidNotComeToItsEndIsNone) {
  Begin(1);
  ASSERT_TRUE(Log(1, 1).ok());
  const auto taken = log_->Take(PieceOf(1, 2, "the first of many"));
  ASSERT_TRUE(taken.ok());
  EXPECT_FALSE(*taken);
  Open();
  EXPECT_THAT(StepsAfter({}), ElementsAre(1));
  Begin(2, {}, 1);
  ASSERT_TRUE(Log(2, 2).ok());
  EXPECT_THAT(StepsAfter({}), ElementsAre(1, 2));
}

TEST_F(UpdateLogTest, WhatDoesNotFollowIsRefused) {
  Begin(1);
  ASSERT_TRUE(Log(1, 1).ok());
  EXPECT_THAT(Message(Log(1, 3)), HasSubstr("step 3 does not follow step 1"));
  ASSERT_TRUE(Log(1, 3, true).ok());  // a checkpoint of step 2 was begun
  EXPECT_THAT(StepsAfter({}), ElementsAre(1));
  EXPECT_THAT(StepsAfter({1, 2}), ElementsAre(3));
  v1::LogPiece damaged = PieceOf(1, 4, "x");
  damaged.set_checksum(damaged.checksum() + 1);
  EXPECT_EQ(log_->Take(damaged).status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(Message(log_->Take(PieceOf(1, 4, "x", 1)).status()), HasSubstr("out of order"));
}

TEST_F(UpdateLogTest, AnEpochOfTheSameHistoryGoesOn) {
  Begin(1);
  for (uint64_t step = 1; step <= 3; ++step) ASSERT_TRUE(Log(1, step).ok());
  Begin(2, {1, 2}, 2, 1);  // round 3 was not committed
  ASSERT_TRUE(Log(2, 3).ok());
  Open();
  EXPECT_THAT(StepsAfter({1, 1}), ElementsAre(2, 3));
  EXPECT_EQ(log_->After(kLoggedJob, {1, 1})->rounds.back().epoch, 2u);
}

TEST_F(UpdateLogTest, WithoutTheLogAHistoryStillGivesUpWhatFollowedItsStart) {
  Begin(1);
  for (uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(Log(1, step).ok());
  Open({.on = false});
  Begin(2, {1, 2}, 2);
  EXPECT_THAT(Message(Log(2, 3)), HasSubstr("--update-log"));
  Open();
  EXPECT_THAT(StepsAfter({1, 1}), ElementsAre(2));
}

TEST_F(UpdateLogTest, IsBounded) {
  Open({.on = true, .max_bytes = 20000});
  Begin(1);
  Status status;
  uint64_t step = 1;
  while (status.ok() && step < 100) status = Log(1, step++);
  EXPECT_THAT(Message(status), HasSubstr("checkpoint more often"));
  ASSERT_TRUE(log_->Forget({{1, step - 2}}).ok());
  EXPECT_TRUE(Log(1, step - 1).ok()) << "after a checkpoint there is room again";
}

TEST_F(UpdateLogTest, WhatOnlyAnOlderCheckpointNeedsGoesWhereRoomIsShort) {
  Open({.on = true, .max_bytes = 40000});
  Begin(1);
  for (uint64_t step = 1; step <= 4; ++step) ASSERT_TRUE(Log(1, step).ok());
  ASSERT_TRUE(log_->Forget({{1, 3}, {1, 1}}).ok());
  EXPECT_THAT(StepsAfter({1, 1}), ElementsAre(2, 3, 4));
  uint64_t step = 5;
  while (Log(1, step).ok()) ++step;
  EXPECT_THAT(StepsAfter({1, 1}), ElementsAre());
  EXPECT_EQ(StepsAfter({1, 3}).size(), step - 4);
  ASSERT_TRUE(Log(1, step + 1, true).ok()) << "a checkpoint has begun: only an older one needs all";
  ASSERT_TRUE(Log(1, step + 2).ok());
  ASSERT_TRUE(log_->Forget({{1, 3}, {1, 1}}).ok());  // the new one is still under way
  EXPECT_THAT(StepsAfter({1, step}), ElementsAre(step + 1, step + 2));
}

TEST_F(UpdateLogTest, RoomForTheNextCheckpointsStaysOnASmallDisk) {
  constexpr uint64_t kMiB = 1 << 20;
  log_.reset();
  if (mount("tmpfs", directory_.c_str(), "tmpfs", 0, "size=160m") != 0)
    GTEST_SKIP() << "needs root";
  Open();
  Begin(1);
  log_->LeaveRoomFor(16 * kMiB);
  v1::LogPiece round = PieceOf(1, 1, std::string(kMiB, 'x'));
  round.set_last(true);
  Status refused = log_->Take(round).status();
  for (; refused.ok() && round.step() < 1000; refused = log_->Take(round).status()) {
    round.set_step(round.step() + 1);
  }
  EXPECT_THAT(Message(refused), HasSubstr("the next checkpoints need 64 MiB"));
  EXPECT_GE(fs::space(directory_).available, 32 * kMiB);
  EXPECT_EQ(log_->After(kLoggedJob, {})->rounds.size(), round.step() - 1) << "all of them stay";
  for (const TimePoint late = Now() + Seconds(60); !refused.ok() && Now() < late;) {
    ASSERT_TRUE(log_->Forget({{1, round.step() - 1}}).ok());
    refused = log_->Take(round).status();
  }
  EXPECT_TRUE(refused.ok()) << "a checkpoint came, and there is no room again: " << refused;
  log_.reset();
  EXPECT_EQ(umount(directory_.c_str()), 0);
}

TEST_F(UpdateLogTest, ForgetsWhatNoCheckpointNeeds) {
  Begin(1);
  for (uint64_t step = 1; step <= 50; ++step) {
    ASSERT_TRUE(Log(1, step).ok());
    if (step % 10 != 0) continue;
    ASSERT_TRUE(log_->Forget({{1, step - 5}, {1, step}}).ok());
  }
  EXPECT_THAT(StepsAfter({1, 45}), ElementsAre(46, 47, 48, 49, 50));
  Open();
  EXPECT_THAT(StepsAfter({1, 45}), ElementsAre(46, 47, 48, 49, 50));
  EXPECT_THAT(StepsAfter({1, 40}), ElementsAre());
  Begin(2, {1, 45}, 50);
  ASSERT_TRUE(Log(2, 51).ok());
  EXPECT_THAT(StepsAfter({1, 48}), ElementsAre(49, 50, 51));
}

// RocksDB takes files from where they are written to where they can be removed in the background.
TEST_F(UpdateLogTest, FreesTheDiskOfWhatNoCheckpointNeeds) {
  constexpr uint64_t kSteps = 100, kEvery = 5;
  uint64_t logged = 0;
  for (uint64_t step = 1; step <= kSteps; ++step) {
    if (step % kEvery == 1) {
      Open();  // the rows are in a table file now
      Begin(1);
    }
    ASSERT_TRUE(Log(1, step).ok());
    logged += BodyOf(1, step).size();
    if (step % kEvery != 0) continue;
    ASSERT_TRUE(log_->Forget({{1, step}}).ok());
  }
  const TimePoint end = Now() + Seconds(60);
  while (TableBytes() > logged / 4 && Now() < end) {
    ASSERT_TRUE(log_->Forget({{1, kSteps}}).ok());
  }
  EXPECT_LE(TableBytes(), logged / 4) << "of " << logged << " bytes that nobody needs";
}

// RocksDB writes down the settings that it runs with. By itself it slows writes down where 64 GiB
// are to be compacted, and stops them at 256 GiB: the first opening of an older log may need that.
TEST_F(UpdateLogTest, NoWriteWaitsForACompaction) {
  std::string settings;
  for (const auto& file : fs::directory_iterator(directory_)) {
    if (!absl::StartsWith(file.path().filename().string(), "OPTIONS-")) continue;
    std::ifstream in(file.path());
    settings.assign(std::istreambuf_iterator<char>(in), {});
  }
  const size_t pieces = settings.find("[CFOptions \"pieces\"]");
  ASSERT_NE(pieces, std::string::npos) << settings;
  EXPECT_THAT(settings.substr(pieces), HasSubstr("soft_pending_compaction_bytes_limit=0\n"));
  EXPECT_THAT(settings.substr(pieces), HasSubstr("hard_pending_compaction_bytes_limit=0\n"));
}

TEST_F(UpdateLogTest, DamageEndsWhatCanBeUsed) {
  Begin(1);
  for (uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(Log(1, step).ok());
  log_.reset();
  Open();  // the rows are in table files now
  const UpdateLog::Rounds found = *log_->After(kLoggedJob, {});
  log_.reset();
  const std::string body = BodyOf(1, 3);
  bool flipped = false;
  for (const auto& file : fs::directory_iterator(directory_)) {
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(bytes), {}};
    const size_t at = content.find(body.substr(0, 100));
    if (at == std::string::npos) continue;
    bytes.seekp(static_cast<std::streamoff>(at));
    bytes.put(static_cast<char>(content[at] ^ 1));
    flipped = true;
  }
  ASSERT_TRUE(flipped);
  const auto opened = UpdateLog::Open(directory_, {.on = true});
  if (!opened.ok()) {  // the whole of it: RocksDB's own check
    EXPECT_EQ(opened.status().code(), StatusCode::kDataLoss) << opened.status();
    return;
  }
  Status problem;
  EXPECT_LE((*opened)->CountGood(found, &problem), 2u);  // one before it may share its block
  EXPECT_EQ(problem.code(), StatusCode::kDataLoss) << problem;
}

// The log on a disk that fails at one operation after the other. Returns the steps that were
// answered.
class UpdateLogOnADisk : public UpdateLogTest {
 protected:
  static constexpr uint64_t kRounds = 6;

  UpdateLogOnADisk() {
    log_.reset();
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    disk_ = FaultyDisk::Make(directory_);
  }
  ~UpdateLogOnADisk() override {
    log_.reset();
    fs::remove_all(directory_ + ".kept");
  }

  Status Start(bool fsync) {
    log_.reset();
    auto opened = UpdateLog::Open(directory_, {.on = true, .fsync = fsync, .env = disk_->env()});
    RW_RETURN_IF_ERROR(opened.status());
    log_ = *std::move(opened);
    v1::EpochRecord record;
    record.set_job(kLoggedJob);
    record.set_epoch(1);
    record.set_origin(1);
    return log_->SetEpoch(record);
  }

  std::vector<uint64_t> Fill() {
    std::vector<uint64_t> answered;
    for (uint64_t step = 1; step <= kRounds; ++step) {
      failed_ = Log(1, step);
      if (!failed_.ok()) break;
      answered.push_back(step);
    }
    return answered;
  }

  std::shared_ptr<FaultyDisk> disk_;
  Status failed_;
};

TEST_F(UpdateLogOnADisk, WhatWasAnsweredOutlivesTheProcessAndWithFsyncThePower) {
  for (const bool fsync : {false, true}) {
    for (uint64_t at = 1;; ++at) {
      SCOPED_TRACE(absl::StrFormat("operation %d, fsync %d", at, fsync));
      log_.reset();
      disk_->PowerLoss(Unsynced::kGoes, at);
      for (const auto& entry : fs::directory_iterator(directory_)) fs::remove_all(entry.path());
      disk_->PowerLoss(Unsynced::kStays, at);
      disk_->Plan({{DiskFault::kCrash, disk_->operations() + at}});
      std::vector<uint64_t> answered;
      if (Start(fsync).ok()) answered = Fill();
      if (!disk_->crashed()) break;
      log_.reset();
      disk_->PowerLoss(fsync ? Unsynced::kGoes : Unsynced::kStays, at);
      ASSERT_TRUE(Start(fsync).ok());
      const std::vector<uint64_t> kept = StepsAfter({});
      ASSERT_GE(kept.size(), answered.size());
      for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i], i + 1);
    }
  }
}

TEST_F(UpdateLogOnADisk, AfterAFailureItBeginsAgain) {
  for (const DiskFault::Kind kind : {DiskFault::kError, DiskFault::kNoSpace, DiskFault::kTorn}) {
    ASSERT_TRUE(Start(false).ok());
    const uint64_t first = disk_->operations();
    const std::vector<uint64_t> all = Fill();
    const uint64_t operations = disk_->operations() - first;
    ASSERT_EQ(all.size(), kRounds);
    for (uint64_t at = 1; at <= operations; ++at) {
      SCOPED_TRACE(absl::StrFormat("operation %d of kind %d", at, kind));
      log_.reset();
      disk_->Heal();
      for (const auto& entry : fs::directory_iterator(directory_)) fs::remove_all(entry.path());
      ASSERT_TRUE(Start(false).ok());
      disk_->Plan({{kind, disk_->operations() + at}});
      const std::vector<uint64_t> answered = Fill();
      if (answered.size() < kRounds) {
        EXPECT_EQ(failed_.code(), StatusCode::kResourceExhausted)
            << "a worker waits 30 s for a server that is away (Unavailable): " << failed_;
      }
      disk_->Heal();
      const uint64_t next = kRounds + 2;  // a checkpoint of the step before has begun
      ASSERT_TRUE(Log(1, next, true).ok());
      ASSERT_TRUE(Log(1, next + 1).ok());
      EXPECT_THAT(StepsAfter({1, next - 1}), ElementsAre(next, next + 1));
      EXPECT_GE(StepsAfter({}).size(), answered.size());
    }
    log_.reset();
    for (const auto& entry : fs::directory_iterator(directory_)) fs::remove_all(entry.path());
  }
}

TEST_F(UpdateLogOnADisk, ThePiecesOfARoundWhoseLogIsGoneAreRefused) {
  ASSERT_TRUE(Start(false).ok());
  const auto take = [this](uint64_t step, uint64_t offset) {
    return log_->Take(PieceOf(1, step, "half", offset)).status();
  };
  ASSERT_TRUE(take(1, 0).ok());
  disk_->Plan({{DiskFault::kCrash, disk_->operations() + 1}});
  EXPECT_FALSE(take(1, 4).ok());
  EXPECT_FALSE(take(1, 0).ok());  // it cannot be opened again
  EXPECT_EQ(take(1, 4).code(), StatusCode::kInvalidArgument);
}

TEST_F(UpdateLogOnADisk, AnEpochThatBeganWhileTheDiskFailedHasItsOwnRounds) {
  ASSERT_TRUE(Start(false).ok());
  ASSERT_EQ(Fill().size(), kRounds);
  disk_->Plan({{DiskFault::kCrash, disk_->operations() + 1}});
  EXPECT_FALSE(Log(1, kRounds + 1).ok());
  v1::EpochRecord other;
  other.set_job(kLoggedJob + 1);
  other.set_epoch(2);
  other.set_origin(2);
  EXPECT_FALSE(log_->SetEpoch(other).ok());
  disk_->Heal();
  disk_->PowerLoss(Unsynced::kStays, 1);
  ASSERT_TRUE(Log(2, 1).ok());
  EXPECT_EQ(log_->After(kLoggedJob + 1, {})->rounds.size(), 1u);
  EXPECT_EQ(StepsAfter({}).size(), kRounds);
}

// A file that is removed has gone for good; what says so need not be on the disk yet.
TEST_F(UpdateLogOnADisk, RoundsThatComeBackWithoutTheirPiecesAfterAPowerLossAreDamage) {
  ASSERT_TRUE(Start(false).ok());
  ASSERT_EQ(Fill().size(), kRounds);
  ASSERT_TRUE(Start(false).ok());  // the rows are in table files now
  ASSERT_TRUE(Log(1, kRounds + 1).ok());
  const uint64_t before = TableBytes();
  const TimePoint end = Now() + Seconds(60);
  while (TableBytes() >= before && Now() < end) {
    ASSERT_TRUE(log_->Forget({{1, kRounds + 1}}).ok());
  }
  log_.reset();
  disk_->PowerLoss(Unsynced::kGoes, 1);
  ASSERT_TRUE(Start(false).ok());
  const UpdateLog::Rounds rounds = *log_->After(kLoggedJob, {});
  ASSERT_EQ(rounds.rounds.size(), kRounds);
  Status problem;
  EXPECT_EQ(log_->CountGood(rounds, &problem), 0u);
  EXPECT_EQ(problem.code(), StatusCode::kDataLoss) << problem;
}

// Who took an answer that is missing for "no rounds" would begin a history without them.
TEST_F(UpdateLogOnADisk, WhatCannotBeReadNowIsNeitherNothingNorDamage) {
  ASSERT_TRUE(Start(false).ok());
  ASSERT_EQ(Fill().size(), kRounds);
  const UpdateLog::Rounds rounds = *log_->After(kLoggedJob, {});
  disk_->Plan({{DiskFault::kCrash, disk_->operations() + 1}});
  EXPECT_FALSE(Log(1, kRounds + 1).ok());
  EXPECT_FALSE(Log(1, kRounds + 1, true).ok());  // it cannot be opened again either
  EXPECT_FALSE(log_->After(kLoggedJob + 1, {}).ok());
  Status problem;
  EXPECT_EQ(log_->CountGood(rounds, &problem), 0u);
  EXPECT_FALSE(problem.ok());
  EXPECT_NE(problem.code(), StatusCode::kDataLoss) << problem;
}

}  // namespace
}  // namespace ringwood

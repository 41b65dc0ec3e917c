// One file of a store is cut short or has one bit flipped: what is read from it is right, or said
// to be damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_format.h"
#include "server/coordinator/coord_store.h"
#include "server/store/store_directory.h"
#include "tests/server/checkpoints/small_checkpoints.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kEpoch = 3;
const std::vector<CheckpointId> kSaved = {{kEpoch, 3}, {kEpoch, 2}};  // step 1 was removed

std::vector<fs::path> FilesOf(const fs::path& store) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(store)) {
    const std::string name = entry.path().filename();
    if (entry.is_regular_file() && entry.file_size() > 0 && name.rfind("LOG", 0) != 0) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void CutFile(const fs::path& file, uint64_t at) { fs::resize_file(file, at); }

void Flip(const fs::path& file, uint64_t at, int bit) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekg(static_cast<std::streamoff>(at));
  const char flipped = static_cast<char>(bytes.get() ^ (1 << bit));
  bytes.seekp(static_cast<std::streamoff>(at));
  bytes.put(flipped);
}

class DamagedFiles : public testing::Test {
 protected:
  DamagedFiles() : folder_(MakeMemoryFolder()), whole_(folder_ / "whole") {}
  ~DamagedFiles() override { fs::remove_all(folder_); }

  void SetUp() override {
    ASSERT_TRUE(PrepareStore(whole_).ok());
    auto epochs = OpenCoordStore(whole_ / "coordinator", "key");
    ASSERT_TRUE(epochs.ok()) << epochs.status();
    for (uint64_t epoch = 1; epoch <= kEpoch; ++epoch) {
      ASSERT_TRUE((*epochs)->Save(RecordOf(epoch)).ok());
    }
    auto store = CheckpointStore::Open(whole_ / "checkpoints");
    ASSERT_TRUE(store.ok()) << store.status();
    StripeCollector collector(store->get(), [] { return int64_t{1}; });
    collector.SetEpoch(RecordOf(kEpoch));
    for (uint64_t step = 1; step <= 3; ++step) {
      ASSERT_TRUE(SaveAll(&collector, {kEpoch, step}).ok());
    }
    ASSERT_EQ(*(*store)->reader().Complete(), kSaved);
  }

  enum class Found { kRefused, kFellBack, kRight, kSilent };

  // What a server finds that starts with this store: all of it right, a refusal, or the damage of
  // some checkpoint, by name.
  Found Start(const fs::path& store_dir) {
    if (!PrepareStore(store_dir).ok()) return Found::kRefused;
    auto epochs = OpenCoordStore(store_dir / "coordinator", "key");
    if (!epochs.ok()) return Found::kRefused;
    const auto epoch = (*epochs)->Load();
    if (!epoch.ok()) return Found::kRefused;
    if (epoch->epoch() != kEpoch || epoch->job() != kJob) return Found::kSilent;
    auto store = CheckpointStore::Open(store_dir / "checkpoints");
    if (!store.ok()) return Found::kRefused;
    const auto listed = (*store)->reader().Complete();
    if (!listed.ok()) return Found::kRefused;
    bool all_right = true;
    for (const CheckpointId& id : *listed) {
      const auto state = LoadAll((*store)->reader(), id);
      all_right &= state.ok();
      if (state.ok() && *state != StateOf(id)) return Found::kSilent;
    }
    for (const CheckpointId& id : kSaved) {  // gone without a word?
      if (std::find(listed->begin(), listed->end(), id) == listed->end()) return Found::kSilent;
    }
    const auto base = (*store)->NewestGood(kJob);
    if (!base.ok()) return Found::kRefused;
    if (!base->has_value()) return Found::kSilent;  // one file is damaged, and there are two
    return all_right ? Found::kRight : Found::kFellBack;
  }

  void Damage(int count, uint64_t seed) {
    Random random(seed);
    std::map<Found, int> found;
    std::map<std::string, int> kinds;
    for (int i = 0; i < count; ++i) {
      const fs::path copy = folder_ / "copy";
      fs::remove_all(copy);
      fs::copy(whole_, copy, fs::copy_options::recursive);
      fs::permissions(copy, fs::perms::owner_all);
      const std::vector<fs::path> files = FilesOf(copy);
      const fs::path victim = files[static_cast<size_t>(i / 2) % files.size()];
      const uint64_t at = random.Below(fs::file_size(victim));
      const int bit = static_cast<int>(random.Below(8));
      i % 2 == 0 ? CutFile(victim, at) : Flip(victim, at, bit);
      const Found result = Start(copy);
      ASSERT_NE(result, Found::kSilent)
          << victim.lexically_relative(copy)
          << (i % 2 == 0 ? absl::StrFormat(" cut at byte %d", at)
                         : absl::StrFormat(" with bit %d of byte %d flipped", bit, at));
      ++found[result];
    }
    std::printf(
        "%d refused by name, %d with a checkpoint that is found damaged, %d without effect\n",
        found[Found::kRefused], found[Found::kFellBack], found[Found::kRight]);
    EXPECT_GT(found[Found::kRefused] + found[Found::kFellBack], count / 10);
    EXPECT_GT(found[Found::kRight], 0) << "there are bytes that nobody reads";
  }

  const fs::path folder_, whole_;
};

TEST_F(DamagedFiles, AreNeverSilent) { Damage(1000, 3); }

std::string WholeOf(const fs::path& file) {
  std::ifstream bytes(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(bytes), {}};
}

// Also of the first chunk of a table, which is looked at when the store is opened.
TEST_F(DamagedFiles, ADamagedChunkLeavesTheCheckpointBefore) {
  const CheckpointId newest = kSaved.front();
  const std::string state = StateOf(newest);
  int damaged = 0;
  for (size_t chunk = 2; chunk < 6; ++chunk) {  // those of its own
    const fs::path copy = folder_ / "copy";
    fs::remove_all(copy);
    fs::copy(whole_, copy, fs::copy_options::recursive);
    fs::permissions(copy, fs::perms::owner_all);
    for (const fs::path& file : FilesOf(copy)) {
      const size_t at = WholeOf(file).find(state.substr(chunk * PieceOf(newest), PieceOf(newest)));
      if (at == std::string::npos) continue;
      Flip(file, at + PieceOf(newest) / 2, 3);
      ++damaged;
    }
    EXPECT_EQ(Start(copy), Found::kFellBack) << "chunk " << chunk;
  }
  EXPECT_EQ(damaged, 4);
}

}  // namespace
}  // namespace ringwood

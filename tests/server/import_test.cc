// Imports: what a file of others becomes, and what is refused without a trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "server/store/checkpoint_store.h"
#include "server/store/portable/checkpoint_import.h"
#include "server/store/portable/safetensors.h"
#include "server/store/store_directory.h"
#include "server/store/view/store_view.h"
#include "tests/server/checkpoints/saved.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ImportTest : public testing::Test {
 protected:
  ImportTest() {
    std::string pattern = testing::TempDir() + "/ringwood-import-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    store_ = directory_ + "/store";
    file_ = directory_ + "/in.safetensors";
  }
  ~ImportTest() override { fs::remove_all(directory_); }

  // A tensor of 2.5 MB, so that it has several chunks, and small ones.
  void Write() {
    Safetensors file;
    file.tensors = {
        {"large", {"F32", {625, 1000}}}, {"none", {"F16", {0}}}, {"small", {"U8", {3}}}};
    ASSERT_TRUE(Arrange(&file).ok());
    for (size_t i = 0; i < 2'500'000; ++i) large_.push_back(static_cast<char>(i % 251));
    header_ = SafetensorsHeader(file)->substr(8);
    Write(*SafetensorsHeader(file) + large_ + "abc");
  }
  void Write(const std::string& content) { std::ofstream(file_, std::ios::binary) << content; }

  StatusOr<v1::CheckpointManifest> Import(uint64_t job = 9, uint64_t step = 0) {
    return ImportCheckpoint({store_, file_, job, step, 1}, {});
  }

  StatusOr<std::string> Load(const std::string& name) const {
    RW_ASSIGN_OR_RETURN(const StoreView view, StoreView::Open(store_));
    RW_ASSIGN_OR_RETURN(const auto manifest, view.reader().Find({}));
    std::string bytes;
    for (const v1::StoredItem& item : manifest.items()) {
      if (item.name() != name) continue;
      for (const v1::StoredChunk& chunk : item.chunks()) {
        RW_ASSIGN_OR_RETURN(const std::string part,
                            view.reader().Chunk({manifest.epoch(), manifest.step()}, item, chunk));
        bytes += part;
      }
      return bytes;
    }
    return NotFound(name);
  }

  std::string directory_, store_, file_, large_, header_;
};

TEST_F(ImportTest, IsACheckpointLikeAnyOther) {
  Write();
  const auto manifest = Import(9, 70);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(*Load("model/large"), large_);
  EXPECT_EQ(*Load("model/small"), "abc");
  EXPECT_EQ(*Load("model/none"), "");
  EXPECT_EQ(*Load(kImportedItem), header_);
  EXPECT_TRUE(VerifyCheckpoint(store_, {}).ok());
  auto store = CheckpointStore::Open(store_ + "/checkpoints");
  ASSERT_TRUE(store.ok()) << store.status();
  const auto base = (*store)->NewestGood(9);
  ASSERT_TRUE(base.ok() && *base) << base.status();
  EXPECT_EQ((*base)->step, 70u);
  EXPECT_EQ((*base)->world, 1u);
}

// Of an elastic job that counts on from there no member could come back after a death.
TEST_F(ImportTest, AStepThatNoJobComesToIsRefused) {
  Write();
  EXPECT_THAT(Message(Import(9, uint64_t{1} << 40).status()), HasSubstr("549755813888"));
  EXPECT_FALSE(fs::exists(store_));
  EXPECT_TRUE(Import(9, uint64_t{1} << 39).ok());
}

TEST_F(ImportTest, IsNewerThanAllThatTheStoreKnowsAndRemovesNothing) {
  Write();
  ASSERT_TRUE(PrepareStore(store_).ok());
  {
    auto store = CheckpointStore::Open(store_ + "/checkpoints");
    ASSERT_TRUE(store.ok()) << store.status();
    (*store)->Keep({.newest = 3});
    for (const uint64_t step : {100, 200, 300}) {
      ASSERT_TRUE(SaveItems(store->get(), {.epoch = 4, .step = step}, {{"w", {}, "w"}}).ok());
    }
    EXPECT_THAT(Message(Import().status()), HasSubstr("is in use by another process"));
  }
  ASSERT_TRUE(WriteWitness(store_ + "/coordinator", "17").ok());  // epochs without checkpoints
  ASSERT_TRUE(Import().ok());
  EXPECT_EQ(ShowCheckpoint(store_, {})->epoch(), 18u);
  ASSERT_TRUE(Import(9).ok());
  EXPECT_EQ(ShowCheckpoint(store_, {})->epoch(), 19u);
  EXPECT_EQ(ListCheckpoints(store_)->size(), 5u);
}

TEST_F(ImportTest, WhatIsNoSafetensorsFileLeavesNoStore) {
  Write("no such thing");
  EXPECT_EQ(Import().status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(Message(Import().status()), HasSubstr("in.safetensors: no safetensors file: "));
  Write(std::string("\x02\0\0\0\0\0\0\0{}", 10));
  EXPECT_THAT(Message(Import().status()), HasSubstr("has no tensors"));
  file_ = directory_;
  EXPECT_THAT(Message(Import().status()), HasSubstr("no regular file"));
  file_ = directory_ + "/pipe";
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT(Message(Import().status()), HasSubstr("no regular file"));
  file_ = directory_ + "/nowhere";
  EXPECT_EQ(Import().status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(store_));
}

TEST_F(ImportTest, OneThatIsEndedLeavesNothing) {
  Write();
  int chunks = 0;
  const Status ended =
      ImportCheckpoint({store_, file_, 9, 0, 1}, [&](const CheckpointId&, uint64_t, uint64_t) {
        return ++chunks < 2 ? OkStatus() : Aborted("enough");
      }).status();
  EXPECT_EQ(ended.code(), StatusCode::kAborted) << ended;
  EXPECT_TRUE(fs::is_empty(store_ + "/checkpoints/incoming"));
  EXPECT_TRUE(ListCheckpoints(store_)->empty());
}

TEST_F(ImportTest, AStoreOfPartsAloneIsRefused) {
  Write();
  ASSERT_TRUE(PrepareStore(store_).ok());
  ASSERT_TRUE(PreparePartsFolder(store_, 1).ok());
  ASSERT_TRUE(CheckpointStore::Open(PartsFolder(store_, 1)).ok());
  EXPECT_THAT(Message(Import().status()),
              HasSubstr("has parts of the checkpoints of another store"));
  // The main store may have the same directory.
  ASSERT_TRUE(CheckpointStore::Open(store_ + "/checkpoints").ok());
  EXPECT_TRUE(Import().ok());
}

TEST_F(ImportTest, AFileThatEndsEarlyOrADiskThatIsFullMakesNoCheckpoint) {
  Write();
  fs::resize_file(file_, fs::file_size(file_) - 1);
  EXPECT_THAT(Message(Import().status()), HasSubstr("ends behind the file"));
  large_.clear();
  Write();
  store_ = directory_ + "/disk";
  fs::create_directory(store_);
  if (mount("tmpfs", store_.c_str(), "tmpfs", 0, "size=2m,mode=700") != 0) {
    GTEST_SKIP() << "mounting a small disk needs root";
  }
  const Status failed = Import().status();
  const auto list = ListCheckpoints(store_);
  umount(store_.c_str());
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable) << failed;
  EXPECT_THAT(Message(failed), HasSubstr("free space on this disk"));
  EXPECT_TRUE(list.ok() && list->empty()) << list.status();
}

}  // namespace
}  // namespace ringwood

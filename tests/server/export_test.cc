// Exports: what is chosen, and what is in the file whatever happens under way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/random.h"
#include "server/store/portable/checkpoint_export.h"
#include "server/store/portable/part_file.h"
#include "server/store/store_directory.h"
#include "server/store/view/store_view.h"
#include "tests/server/checkpoints/saved.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::CheckpointManifest Manifest(const std::vector<SavedItem>& items, uint32_t world = 2) {
  v1::CheckpointManifest manifest;
  manifest.set_step(40);
  manifest.set_world(world);
  for (const SavedItem& item : items) {
    v1::StoredItem* stored = manifest.add_items();
    stored->set_name(item.name);
    stored->set_scope(item.owner < 0 ? v1::SCOPE_SHARED : v1::SCOPE_OWN);
    stored->set_rank(item.owner < 0 ? 0 : static_cast<uint32_t>(item.owner));
    stored->set_bytes(item.bytes.size());
    stored->set_dtype(item.type.dtype);
    stored->mutable_shape()->Assign(item.type.shape.begin(), item.type.shape.end());
  }
  return manifest;
}

const std::vector<SavedItem> kTorch = {{"model/fc.weight", {"F32", {2}}, "01234567"},
                                       {"model/bn.mean", {"F32", {1}}, "aaaa", 0},
                                       {"model/bn.mean", {"F32", {1}}, "bbbb", 1},
                                       {"optimizers/0/state/0/exp_avg", {"F32", {2}}, "89abcdef"},
                                       {"training/skeleton", {}, "{}"},
                                       {"ringwood/plan", {}, "plan"}};

std::vector<std::string> Names(const StatusOr<ExportPlan>& plan) {
  std::vector<std::string> names;
  if (!plan.ok()) return {Message(plan.status())};
  for (const Safetensor& tensor : plan->file.tensors) names.push_back(tensor.name);
  return names;
}

TEST(ExportPlan, IsTheModelsStateDictUnlessMoreIsAskedFor) {
  const auto manifest = Manifest(kTorch);
  const auto model = PlanExport(manifest, {});
  EXPECT_THAT(Names(model), ElementsAre("fc.weight"));
  EXPECT_EQ(model->of_ranks, 1u) << "bn.mean";
  EXPECT_EQ(model->unchosen, 3u);
  EXPECT_THAT(Names(PlanExport(manifest, {{}, 1})), ElementsAre("bn.mean", "fc.weight"));
  EXPECT_EQ(PlanExport(manifest, {{}, 1})->sources[0]->rank(), 1u);
  const auto all = PlanExport(manifest, {{"*"}, {}});
  EXPECT_THAT(Names(all), ElementsAre("fc.weight", "optimizers/0/state/0/exp_avg", "ringwood/plan",
                                      "training/skeleton"));
  EXPECT_EQ(all->untyped, 2u);
  EXPECT_EQ(all->file.tensors[2].type, (TensorType{"U8", {4}})) << "bytes without a type";
}

TEST(ExportPlan, OfItemsThatNobodyCallsAModelIsAllButTheSessionsOwn) {
  const auto manifest = Manifest({{"w", {"F32", {1}}, "0123"}, {"ringwood/plan", {}, "plan"}});
  EXPECT_THAT(Names(PlanExport(manifest, {})), ElementsAre("w"));
}

TEST(ExportPlan, TakesOneTensorAlone) {
  const auto manifest = Manifest(kTorch);
  EXPECT_THAT(Names(PlanExport(manifest, {{"fc.weight"}, {}})), ElementsAre("fc.weight"));
  EXPECT_THAT(Names(PlanExport(manifest, {{"model/fc.weight"}, {}})), ElementsAre("fc.weight"));
  EXPECT_THAT(Names(PlanExport(manifest, {{"*exp_a?g"}, {}})),
              ElementsAre("optimizers/0/state/0/exp_avg"));
  EXPECT_THAT(Names(PlanExport(manifest, {{"fc.*", "no such"}, {}})),
              ElementsAre(HasSubstr("no item of the checkpoint of step 40 is 'no such'; it has: "
                                    "model/fc.weight, ")));
  EXPECT_THAT(Names(PlanExport(manifest, {{"fc."}, {}})), ElementsAre(HasSubstr("is 'fc.'")));
}

TEST(ExportPlan, SaysWhatCannotBeOneFile) {
  EXPECT_THAT(Names(PlanExport(Manifest(kTorch), {{}, 2})),
              ElementsAre(HasSubstr("has ranks 0 to 1, not 2")));
  EXPECT_THAT(Names(PlanExport(Manifest({{"r", {"F32", {1}}, "0123", 0}}), {})),
              ElementsAre(HasSubstr("say whose by --rank")));
  const auto twice = Manifest({{"model/w", {"F32", {1}}, "0123"}, {"w", {"F32", {1}}, "0123"}});
  EXPECT_THAT(Names(PlanExport(twice, {{"*"}, {}})), ElementsAre(HasSubstr("would be the tensor")));
}

class ExportTest : public testing::Test {
 protected:
  ExportTest() {
    std::string pattern = testing::TempDir() + "/ringwood-export-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    store_ = directory_ + "/store";
    file_ = directory_ + "/out.safetensors";
    Random random(1);
    large_ = std::string(1'000'000, '\0');
    for (char& byte : large_) byte = static_cast<char>(random.Next());
  }
  ~ExportTest() override { fs::remove_all(directory_); }

  void Save() {
    ASSERT_TRUE(PrepareStore(store_).ok());
    auto store = CheckpointStore::Open(store_ + "/checkpoints");
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE(SaveItems(store->get(), {},
                          {{"model/large", {"F32", {250, 1000}}, large_},
                           {"model/none", {"F32", {0, 3}}, ""},
                           {"model/small", {"I64", {}}, "12345678"},
                           {"model/mean", {"U8", {3}}, "abc", 0},
                           {"model/mean", {"U8", {3}}, "def", 1}})
                    .ok());
  }

  Status Export(const ItemChoice& choice = {}) {
    RW_ASSIGN_OR_RETURN(const StoreView view, StoreView::Open(store_));
    RW_ASSIGN_OR_RETURN(const auto manifest, view.reader().Find({}));
    RW_ASSIGN_OR_RETURN(const ExportPlan plan, PlanExport(manifest, choice));
    return ExportCheckpoint(view.reader(), manifest, plan, file_, {});
  }

  // Behind the store's back: the bytes of `from` where they lie in its files.
  void Replace(const std::string& from, const std::string& to) {
    int found = 0;
    for (const auto& entry : fs::recursive_directory_iterator(store_)) {
      if (entry.path().extension() != ".sst") continue;
      std::string content = Read(entry.path());
      const size_t at = content.find(from);
      if (at == std::string::npos) continue;
      ++found;
      content.replace(at, to.size(), to);
      std::ofstream(entry.path(), std::ios::binary) << content;
    }
    ASSERT_EQ(found, 1);
  }

  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::string directory_, store_, file_, large_;
};

TEST_F(ExportTest, TheFileHasEveryByteInItsPlace) {
  Save();
  ASSERT_TRUE(Export({{}, 1}).ok());
  const std::string content = Read(file_);
  const uint64_t header = *SafetensorsHeaderBytes(content.substr(0, 8), content.size());
  const auto file = ParseSafetensors(content.substr(8, header), content.size() - 8 - header);
  ASSERT_TRUE(file.ok()) << file.status();
  std::map<std::string, std::string> bytes;
  for (const Safetensor& tensor : file->tensors) {
    bytes[tensor.name] = content.substr(8 + header + tensor.offset, tensor.bytes);
  }
  EXPECT_EQ(bytes, (std::map<std::string, std::string>{
                       {"large", large_}, {"none", ""}, {"small", "12345678"}, {"mean", "def"}}));
}

TEST_F(ExportTest, DamageLeavesTheFileThatWasThere) {
  Save();
  std::ofstream(file_) << "of yesterday";
  Replace(large_.substr(300'000, 16), "something others");
  const Status failed = Export();
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(Read(file_), "of yesterday");
  EXPECT_FALSE(fs::exists(file_ + ".part"));
}

TEST_F(ExportTest, ACheckpointThatIsRemovedUnderWayIsNotCalledDamaged) {
  Save();
  const Status missing = Corrupt("item \"w\": missing");
  EXPECT_EQ(ExplainRead(store_, {1, 10}, missing), missing) << "it is there";
  EXPECT_TRUE(ExplainRead(store_, {1, 9}, OkStatus()).ok());
  const Status removed = ExplainRead(store_, {1, 9}, missing);
  EXPECT_EQ(removed.code(), StatusCode::kAborted);
  EXPECT_THAT(Message(removed), HasSubstr("step 9 (epoch 1) was removed while it was read"));
}

TEST_F(ExportTest, AFullDiskIsKnownBeforeTheFirstByte) {
  Save();
  const std::string disk = directory_ + "/disk";
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=512k") != 0) {
    GTEST_SKIP() << "mounting a small disk needs root";
  }
  file_ = disk + "/out.safetensors";
  const Status failed = Export();
  const bool empty = fs::is_empty(disk);
  umount(disk.c_str());
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable) << failed;
  EXPECT_THAT(Message(failed), HasSubstr("free space on this disk"));
  EXPECT_TRUE(empty);
}

TEST_F(ExportTest, NothingIsLeftOfAProcessThatIsKilled) {
  const std::string path = directory_ + "/file";
  const pid_t child = fork();
  if (child == 0) {
    auto part = PartFile::Create(path, 3);
    const bool written = part.ok() && (*part)->Append("one").ok();
    if (written) raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_FALSE(fs::exists(path) || fs::exists(path + ".part"));
}

TEST_F(ExportTest, OfSeveralThatWriteOneFileTheLastStays) {
  const std::string path = directory_ + "/file";
  auto one = PartFile::Create(path, 3);
  auto two = PartFile::Create(path, 3);
  ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
  ASSERT_TRUE((*one)->Append("one").ok() && (*two)->Append("two").ok());
  ASSERT_TRUE((*two)->Publish().ok());
  EXPECT_EQ(Read(path), "two");
  ASSERT_TRUE((*one)->Publish().ok());
  EXPECT_EQ(Read(path), "one");
}

TEST_F(ExportTest, WritesOnlyWhatIsAFileOfItsOwn) {
  const std::string path = directory_ + "/file";
  {
    auto one = PartFile::Create(path, 3);
    ASSERT_TRUE(one.ok()) << one.status();
    ASSERT_TRUE((*one)->Append("one").ok());
    EXPECT_FALSE(fs::exists(path));
    ASSERT_TRUE((*one)->Publish().ok());
  }
  EXPECT_EQ(Read(path), "one");
  std::ofstream(path + ".part") << "longer, of one that was killed";
  {
    auto two = PartFile::Create(path, 3);
    ASSERT_TRUE(two.ok()) << two.status();
    ASSERT_TRUE((*two)->Append("two").ok() && (*two)->Publish().ok());
  }
  EXPECT_EQ(Read(path), "two");
  EXPECT_FALSE(fs::exists(path + ".part"));
  fs::create_directory(directory_ + "/folder");
  EXPECT_THAT(Message(PartFile::Create(directory_ + "/folder", 1).status()),
              HasSubstr("no regular file"));
  EXPECT_THAT(Message(PartFile::Create(directory_ + "/nowhere/file", 1).status()),
              HasSubstr("nowhere/file: No such file or directory"));
  fs::create_directory(path + ".part");
  auto three = PartFile::Create(path, 3);
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_THAT(Message((*three)->Publish()), HasSubstr(path + " by way of " + path + ".part: "));
}

TEST_F(ExportTest, WritesTheFileThatALinkNames) {
  const std::string link = directory_ + "/link", path = directory_ + "/file";
  fs::create_symlink("file", link);
  for (const char* text : {"none was there", "one was there"}) {
    auto part = PartFile::Create(link, 3);
    ASSERT_TRUE(part.ok()) << part.status();
    ASSERT_TRUE((*part)->Append(text).ok() && (*part)->Publish().ok());
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(Read(path), text);
  }
}

}  // namespace
}  // namespace ringwood

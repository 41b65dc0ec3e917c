#include "base/files/replaceable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace ringwood {
namespace {

using ::testing::HasSubstr;

class Replaceable : public testing::Test {
 protected:
  Replaceable() {
    std::string pattern = testing::TempDir() + "/ringwood-replaceable-XXXXXX";
    folder_ = std::filesystem::canonical(mkdtemp(pattern.data()));
    std::ofstream(At("file")) << "content";
  }
  ~Replaceable() override { std::filesystem::remove_all(folder_); }

  std::string At(const std::string& name) const { return folder_ + "/" + name; }
  std::string Link(const std::string& name, const std::string& target) const {
    std::filesystem::create_symlink(target, At(name));
    return At(name);
  }

  std::string folder_;
};

TEST_F(Replaceable, IsNothingAndAFile) {
  for (const char* name : {"none", "file", "no/folder"}) {
    const auto file = ReplaceableFile(At(name));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(*file, At(name));
  }
}

TEST_F(Replaceable, IsWhatALinkNamesAndNotTheLink) {
  std::filesystem::create_directory(At("below"));
  Link("shortcut", "below");
  for (const auto& [link, file] : {std::pair(Link("link", "file"), At("file")),
                                   {Link("again", "link"), At("file")},
                                   {Link("whole", At("file")), At("file")},
                                   {Link("below/up", "../file"), At("below/../file")},
                                   {Link("dangling", "none"), At("none")},
                                   {Link("lost", "shortcut/none"), At("shortcut/none")},
                                   {Link("nowhere", "no/folder"), At("no/folder")}}) {
    const auto found = ReplaceableFile(link);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, file) << link;
  }
}

TEST_F(Replaceable, IsNothingElseThanAFile) {
  ASSERT_EQ(mkfifo(At("pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder_, folder_ + "/.", At("pipe"), Link("to", "pipe")}) {
    const Status refused = ReplaceableFile(path).status();
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << path;
    EXPECT_THAT(Message(refused), HasSubstr("no regular file")) << path;
  }
  const Status ring = ReplaceableFile(Link("ring", "ring")).status();
  EXPECT_EQ(ring.code(), StatusCode::kFailedPrecondition) << ring;
}

// Standard output is a file in most of these cases: its names stay what they are.
TEST_F(Replaceable, IsNoNameThatTheKernelMakesUp) {
  for (const std::string& path :
       {std::string("/dev/stdout"), std::string("/dev/null"), std::string("/dev/fd/1"),
        std::string("/proc/self/fd/1"), std::string("/proc/self/none"), Link("device", "/dev/null"),
        Link("output", "/proc/self/fd/1"), Link("far", "output"), Link("fresh", "/dev/none")}) {
    const Status refused = ReplaceableFile(path).status();
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << path;
    EXPECT_THAT(Message(refused), HasSubstr("name a file")) << path;
  }
  EXPECT_TRUE(ReplaceableFile("/dev/shm/ringwood-none").ok());
}

}  // namespace
}  // namespace ringwood

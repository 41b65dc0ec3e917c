#include "base/files/replaceable.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace ringwood {
namespace {

TEST(Replaceable, IsNothingAFileAndALinkToOne) {
  std::string pattern = testing::TempDir() + "/ringwood-replaceable-XXXXXX";
  const std::string folder = mkdtemp(pattern.data());
  std::ofstream(folder + "/file") << "content";
  std::filesystem::create_symlink("file", folder + "/link");
  std::filesystem::create_symlink("/dev/null", folder + "/device");
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  for (const char* name : {"none", "file", "link", "no/folder"}) {
    EXPECT_TRUE(CheckReplaceable(folder + "/" + name).ok()) << name;
  }
  for (const std::string& path : {folder, folder + "/pipe", folder + "/device"}) {
    EXPECT_EQ(CheckReplaceable(path).code(), StatusCode::kFailedPrecondition) << path;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ringwood

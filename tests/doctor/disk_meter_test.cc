// Folders that no store can be in.
#include "doctor/disk_meter.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ringwood {
namespace {

class StorePlace : public ::testing::Test {
 protected:
  StorePlace() : folder_(std::filesystem::path(::testing::TempDir()) / "disk-meter-XXXXXX") {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    std::ofstream(folder_ + "/file") << "text";
  }
  ~StorePlace() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(StorePlace, AFileIsNoStore) {
  EXPECT_EQ(MeasureDisk(folder_ + "/file").error, folder_ + "/file is no folder");
}

TEST_F(StorePlace, NorIsWhatLiesBelowOne) {
  EXPECT_EQ(MeasureDisk(folder_ + "/file/a/store").error, folder_ + "/file is no folder");
}

TEST_F(StorePlace, NorIsALinkThatLeadsNowhere) {
  std::filesystem::create_symlink(folder_ + "/gone", folder_ + "/link");
  EXPECT_EQ(MeasureDisk(folder_ + "/link/store").error, folder_ + "/link is no folder");
}

TEST_F(StorePlace, AFolderThatIsNotThereYetIsMeasuredAboveIt) {
  std::filesystem::create_directory_symlink(folder_, folder_ + "/link");
  const DiskFacts facts = MeasureDisk(folder_ + "/link/a/store");
  EXPECT_EQ(facts.error, "");
  EXPECT_GT(facts.write_rate, 0);
}

}  // namespace
}  // namespace ringwood

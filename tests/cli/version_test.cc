// `ringwood --version`: the version, which stands in CMakeLists.txt alone, and what the build
// knows.
#include "base/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "cli/pages/build_facts.h"
#include "paths.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ProjectVersion() {
  std::ifstream file(std::string(RINGWOOD_SOURCE_DIR) + "/CMakeLists.txt");
  std::stringstream text;
  text << file.rdbuf();
  std::smatch found;
  const std::string content = text.str();
  return std::regex_search(content, found, std::regex("project\\(ringwood VERSION ([0-9.]+)"))
             ? found[1].str()
             : "";
}

TEST(Version, IsTheProjects) { EXPECT_EQ(Version(), ProjectVersion()); }

TEST(Version, TheProgramSaysWhatItWasBuiltOf) {
  const Finished run = RunProgram({"--version"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("ringwood " + ProjectVersion() + "\ncommit "));
  for (const char* name : {"build", "compiler", "gRPC", "protobuf", "RocksDB", "UCX"}) {
    EXPECT_THAT(run.out, ContainsRegex(std::string("\n") + name + " +[^ \n]"));
  }
}

TEST(Version, ABuildOfAnArchiveWithoutCudaSaysSo) {
  const std::string text = BuildText({"", "Release", "GNU 12.2.0", ""});
  EXPECT_THAT(text, HasSubstr("\ncommit    not known\n"));
  EXPECT_THAT(text, HasSubstr("\nbuild     Release\n"));
  EXPECT_THAT(text, EndsWith("\nCUDA      none\nNCCL      none"));
}

TEST(Version, ABuildWithCudaNamesItsDevices) {
  const std::string text = BuildText({"4f79a18", "Release", "GNU 12.2.0", "13.0.88 for sm_90"});
  EXPECT_THAT(text, HasSubstr("\ncommit    4f79a18\n"));
  EXPECT_THAT(text,
              EndsWith("\nCUDA      13.0.88 for sm_90\nNCCL      loaded when a job needs it"));
}

}  // namespace
}  // namespace ringwood

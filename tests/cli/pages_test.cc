// Manual page and shell completion: made of the flags, so they have all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>

#include "cli/pages/chart_file.h"
#include "cli/pages/completion.h"
#include "cli/pages/manual_page.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

FlagText FlagOf(const std::string& names, const std::string& value, const std::string& help) {
  FlagText flag;
  flag.names = names;
  flag.value = value;
  flag.help = help;
  return flag;
}

std::vector<CommandText> Commands() {
  FlagText resume = FlagOf("--resume", "1|auto", "Continue");
  resume.alone = true;
  FlagText wire = FlagOf("-w, --wire", "fp32|bf16", "Send dense gradients as 'fp32'");
  wire.otherwise = "fp32";
  wire.variable = "RINGWOOD_WIRE";
  return {
      {"run", "Run a command", ".Example: a\\b", {wire, resume, FlagOf("--elastic", "", "Go on")}},
      {"checkpoint", "Look", "", {}},
      {"checkpoint list",
       "List",
       "",
       {FlagOf("--store", "DIRECTORY", "The store"), FlagOf("--identity", "FOLDER", "Who")}}};
}

TEST(ManualPage, HasEveryFlagWithItsFacts) {
  const std::string page = ManualPage(Commands(), "1.2.3");
  EXPECT_THAT(page, StartsWith(".TH RINGWOOD 1 \"\" \"Ringwood 1.2.3\" "));
  EXPECT_THAT(page, HasSubstr(".SS \"ringwood checkpoint list\"\nList.\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-w\\fR, \\fB\\-\\-wire\\fR \\fIfp32|bf16\\fR\n"
                              "Send dense gradients as 'fp32'.\n"
                              "(default \\fBfp32\\fR; from \\fBRINGWOOD_WIRE\\fR)\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-resume\\fR[=\\fI1|auto\\fR]\n"));
}

TEST(ManualPage, NoTextIsTakenForARequest) {
  EXPECT_THAT(ManualPage(Commands(), "1"), HasSubstr("\n\\&.Example: a\\eb\n"));
}

TEST(BashCompletion, AFlagIsFollowedByItsValues) {
  const std::string script = BashCompletion(Commands());
  EXPECT_THAT(script, HasSubstr("' run' | ' checkpoint' | 'checkpoint list')"));
  EXPECT_THAT(script, HasSubstr("-w | --wire) kind=words values='fp32 bf16' ;;"));
  EXPECT_THAT(script, HasSubstr("--resume) kind=alone values='1 auto' ;;"));
  EXPECT_THAT(script, HasSubstr("--store) kind=directory ;;"));
  EXPECT_THAT(script, HasSubstr("--identity) kind=directory ;;"));
  EXPECT_THAT(script, Not(HasSubstr("--elastic)")));
}

TEST(FishCompletion, AFlagIsFollowedByItsValuesAndItsHelp) {
  const std::string script = FishCompletion(Commands());
  EXPECT_THAT(script, HasSubstr("\"__ringwood_in 'run'\" -s w -l wire -x -a 'fp32 bf16' "
                                "-d 'Send dense gradients as \\'fp32\\''\n"));
  EXPECT_THAT(script, HasSubstr("\"__ringwood_in 'checkpoint'\" -a list -d 'List'\n"));
}

TEST(FishCompletion, AFlagOfAFolderIsFollowedByOne) {
  EXPECT_THAT(FishCompletion(Commands()), HasSubstr("-l identity -r -F -d 'Who'\n"));
  EXPECT_THAT(ZshCompletion(Commands()), HasSubstr("'--identity=[Who]:value:_files -/'"));
}

// Of the files that this process writes, as on a disk that is full.
class LargestFile {
 public:
  explicit LargestFile(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~LargestFile() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  LargestFile(const LargestFile&) = delete;
  LargestFile& operator=(const LargestFile&) = delete;

 private:
  rlimit before_ = {};
  void (*const handler_)(int);
};

int FilesIn(const TemporaryDirectory& directory) {
  const std::filesystem::directory_iterator files(directory.path());
  return static_cast<int>(std::distance(begin(files), end(files)));
}

TEST(WriteText, AFullDiskLeavesTheFileAsItWas) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("chart.svg", "old");
  Status written;
  {
    const LargestFile limit(4096);
    written = WriteChart(file, std::string(8192, 'x'));
  }
  EXPECT_THAT(Message(written), HasSubstr(file));
  EXPECT_EQ(directory.Read("chart.svg"), "old");
  EXPECT_EQ(FilesIn(directory), 1);
}

TEST(WriteText, WhatALinkNamesIsReplacedWithItsMode) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("real", "old"), link = directory.path() + "/link";
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  std::filesystem::create_symlink("real", link);
  ASSERT_TRUE(WriteText(link, "new").ok());
  EXPECT_EQ(directory.Read("real"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  struct stat about {};
  ASSERT_EQ(::stat(file.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0400u);
  EXPECT_TRUE(WriteText("/dev/null", "new").ok());
}

TEST(WriteChart, APictureTakesThePlaceOfNoPipe) {
  const TemporaryDirectory directory;
  const std::string pipe = directory.path() + "/chart.png";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(Message(WriteChart(pipe, "<svg/>")), HasSubstr("no regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(FilesIn(directory), 1);
}

TEST(Completion, OfAnotherShellIsRefused) {
  const Finished run = RunProgram({"completion", "tcsh"});
  EXPECT_EQ(run.code, 78);
  EXPECT_THAT(run.err, HasSubstr("bash"));
}

}  // namespace
}  // namespace ringwood

// Manual page and shell completion: made of the flags, so they have all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
      {"checkpoint list", "List", "", {FlagOf("--store", "DIRECTORY", "The store")}}};
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
  EXPECT_THAT(script, Not(HasSubstr("--elastic)")));
}

TEST(FishCompletion, AFlagIsFollowedByItsValuesAndItsHelp) {
  const std::string script = FishCompletion(Commands());
  EXPECT_THAT(script, HasSubstr("\"__ringwood_in 'run'\" -s w -l wire -x -a 'fp32 bf16' "
                                "-d 'Send dense gradients as \\'fp32\\''\n"));
  EXPECT_THAT(script, HasSubstr("\"__ringwood_in 'checkpoint'\" -a list -d 'List'\n"));
}

TEST(Completion, OfAnotherShellIsRefused) {
  const Finished run = RunProgram({"completion", "tcsh"});
  EXPECT_EQ(run.code, 78);
  EXPECT_THAT(run.err, HasSubstr("bash"));
}

}  // namespace
}  // namespace ringwood

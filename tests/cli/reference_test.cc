// docs/reference.md says what the program does: it is what `ringwood reference` prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "client/options/option_table.h"
#include "launch/hosts.h"
#include "paths.h"
#include "tests/cli/program.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

std::string Page() {
  std::ifstream file(std::string(RINGWOOD_SOURCE_DIR) + "/docs/reference.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Lines of `text` that `other` has not.
std::string LinesMissingIn(const std::string& other, const std::string& text) {
  std::set<std::string> there;
  std::stringstream others(other), lines(text);
  for (std::string line; std::getline(others, line);) there.insert(line);
  std::string missing;
  for (std::string line; std::getline(lines, line);) {
    if (!there.count(line)) missing += line + "\n";
  }
  return missing;
}

TEST(Reference, ThePageIsWhatTheProgramPrints) {
  const Finished printed = RunProgram({"reference"});
  ASSERT_EQ(printed.code, 0) << printed.err;
  const std::string page = Page();
  EXPECT_TRUE(printed.out == page)
      << "docs/reference.md is not current: run `./dev reference`. It has\n"
      << LinesMissingIn(printed.out, page) << "where the program prints\n"
      << LinesMissingIn(page, printed.out);
}

TEST(Reference, HasEveryVariableThatARankFinds) {
  RankContext context;
  context.world = 1;
  context.coordinator = context.master_address = context.port_range = context.token = "text";
  context.resume = context.freeze_plan = context.save_plan = context.profile = "text";
  context.report = context.timeline = context.flight_record = "text";
  context.job = context.checkpoint_every = context.restart = 1;
  context.join_timeout_seconds = 1;
  const std::string page = Page();
  for (const auto& [name, value] : RankEnvironment(context, {"h1", 0, 0, 1}, 0)) {
    EXPECT_THAT(page, HasSubstr("`" + name + "`"));
  }
}

TEST(Reference, EveryFlagThatAnOptionNamesIsOneOfRun) {
  const std::string page = Page();
  const size_t begin = page.find("\n### ringwood run\n");
  ASSERT_NE(begin, std::string::npos);
  const std::string run = page.substr(begin, page.find("\n### ", begin + 1) - begin);
  for (const Option& option : OptionTable()) {
    for (const char* flag : {option.flag, option.launcher_flag}) {
      if (flag == nullptr) continue;
      EXPECT_THAT(run, HasSubstr(std::string("| `") + flag)) << option.name;
    }
  }
}

}  // namespace
}  // namespace ringwood

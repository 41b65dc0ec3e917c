// The table of options: complete, without contradictions, and the same value in every form, the C
// interface among them.
#include "client/options/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/options/c_options.h"
#include "include/ringwood.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

struct Extent {
  size_t offset, size, alignment;
  bool operator<(const Extent& other) const { return offset < other.offset; }
};

template <typename Owner, typename Field>
Extent ExtentOf(Field Owner::*member) {
  static Owner probe{};
  const auto offset =
      reinterpret_cast<const char*>(&(probe.*member)) - reinterpret_cast<const char*>(&probe);
  return {static_cast<size_t>(offset), sizeof(Field), alignof(Field)};
}

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

// Where `fields` end if they follow each other without a field that is missing between them.
size_t EndOf(const std::set<Extent>& fields, size_t begin, size_t alignment) {
  for (const Extent& field : fields) {
    EXPECT_EQ(field.offset, RoundUp(begin, field.alignment)) << "after " << begin;
    begin = field.offset + field.size;
  }
  return RoundUp(begin, alignment);
}

TEST(OptionTable, HasEveryMemberAndEveryFieldOnce) {
  std::set<Extent> members, fields;
  for (const Option& option : OptionTable()) {
    std::visit(
        [&](const auto& place) {
          EXPECT_TRUE(members.insert(ExtentOf(place.member)).second) << option.name;
          EXPECT_TRUE(fields.insert(ExtentOf(place.field)).second) << option.name;
        },
        option.place);
  }
  EXPECT_EQ(EndOf(members, 0, alignof(SessionOptions)), sizeof(SessionOptions));
  EXPECT_EQ(EndOf(fields, sizeof(size_t), alignof(ringwood_options)), sizeof(ringwood_options));
}

TEST(OptionTable, NoNameStandsForTwoOptions) {
  for (const auto name :
       {&Option::name, &Option::keyword, &Option::flag, &Option::launcher_flag, &Option::agreed}) {
    std::set<std::string> names;
    for (const Option& option : OptionTable()) {
      if (option.*name == nullptr) continue;
      EXPECT_TRUE(names.insert(option.*name).second) << option.*name;
    }
  }
  std::set<std::string> variables;
  for (const Option& option : OptionTable()) {
    EXPECT_NE(option.variables[0], nullptr) << option.name;
    for (const char* variable : option.variables) {
      if (variable == nullptr) continue;
      EXPECT_TRUE(variables.insert(variable).second) << variable;
    }
  }
}

TEST(OptionTable, ItsWordsAreAllThatIsTaken) {
  for (const Option& option : OptionTable()) {
    if (option.words[0] == nullptr) continue;
    ASSERT_NE(option.check, nullptr) << option.name;
    for (const char* word : option.words) {
      if (word == nullptr) continue;
      EXPECT_TRUE(option.check(word).ok()) << option.name << " " << word;
    }
    EXPECT_FALSE(option.check("a word that nobody knows").ok()) << option.name;
  }
}

TEST(OptionTable, DefaultsAreAllowed) {
  for (const Option& option : OptionTable()) {
    EXPECT_TRUE(CheckOption(option, option.name, SessionOptions()).ok()) << option.name;
  }
}

std::string TextOtherThanTheDefault(const Option& option) {
  const std::string text = OptionText(option, SessionOptions());
  if (option.words[0] != nullptr) return option.words[text == option.words[0] ? 1 : 0];
  switch (option.place.index()) {
    case 2:
      return "0.5";
    case 3:
      return text == "on" ? "0" : "1";
    case 5:
      return "auto";
    default:
      return "7";
  }
}

TEST(OptionTable, AVariableComesThroughTheCInterfaceAsItIs) {
  std::map<std::string, std::string> variables;
  const auto environment = [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  for (const Option& option : OptionTable()) {
    variables = {{option.variables[0], TextOtherThanTheDefault(option)}};
    const auto read = SharedOptionsFromEnvironment(environment);
    ASSERT_TRUE(read.ok()) << option.name << ": " << read.status();
    EXPECT_NE(*read, SessionOptions()) << option.name;
    EXPECT_NE(OptionText(option, *read), OptionText(option, SessionOptions())) << option.name;
    EXPECT_EQ(*FromC(ToC(*read)), *read) << option.name;
  }
}

TEST(OptionTable, WhatIsZeroOrNullInCHasItsDefault) {
  SessionOptions defaults;
  defaults.rank = 0;
  EXPECT_EQ(*FromC(ringwood_options{}), defaults);
}

TEST(OptionTable, ANegativeSwitchInCIsOffWhateverItsDefault) {
  ringwood_options options{};
  options.trusted_fabric = options.momentum_masking = -1;
  EXPECT_FALSE(FromC(options)->trusted_fabric);
  EXPECT_FALSE(FromC(options)->momentum_masking);
}

TEST(OptionTable, WhatIsNoSwitchAndNoWayToResumeInCIsRefusedWithTheChoices) {
  const auto message = [](int ringwood_options::*field, int value) {
    ringwood_options options{};
    options.*field = value;
    return Message(FromC(options).status());
  };
  for (const int value : {7, 3, -1}) {
    EXPECT_THAT(message(&ringwood_options::resume, value),
                HasSubstr("is none of 0, RINGWOOD_RESUME (1) and RINGWOOD_RESUME_OR_START (2)"));
  }
  EXPECT_EQ(message(&ringwood_options::adapt, 2),
            "adapt = 2 is none of 1 (on), -1 (off) and 0 (off, the default)");
  EXPECT_EQ(message(&ringwood_options::momentum_masking, -2),
            "momentum_masking = -2 is none of 1 (on), -1 (off) and 0 (on, the default)");
  EXPECT_EQ(message(&ringwood_options::trusted_fabric, 1), "");
}

TEST(OptionTable, RanksCompareWhatChangesResultsInTheseWords) {
  std::string text;
  for (const auto& [name, value] : Agreed(SessionOptions())) text += name + "=" + value + ";";
  EXPECT_EQ(text,
            "planner=hybrid;network to plan for=measured;wire=native;sparse "
            "codec=block16/fp32;sparse merge=gtopk;"
            "sparse method=exact;sparse chunk=0;sparse keep=0;momentum masking=on;"
            "warm-up steps=0;");
}

// ---- through the C interface ----

ringwood_options FromEnvironment() {
  ringwood_options options{};
  EXPECT_EQ(ringwood_options_from_environment(&options, sizeof options), RINGWOOD_OK)
      << ringwood_last_error();
  return options;
}

class COptions : public ::testing::Test {
 protected:
  COptions() {
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    SetCoordinator("a.host.with.a.name.that.is.not.short:7000");
  }
  ~COptions() override {
    for (const char* name : {"RANK", "WORLD_SIZE", "RINGWOOD_COORDINATOR"}) unsetenv(name);
  }
  static void SetCoordinator(const char* value) { setenv("RINGWOOD_COORDINATOR", value, 1); }
};

TEST_F(COptions, StringsStayWhatTheyAreWhenTheEnvironmentIsReadAgain) {
  const ringwood_options first = FromEnvironment();
  SetCoordinator("another.host.with.a.name.that.is.not.short:7001");
  const ringwood_options second = FromEnvironment();
  EXPECT_STREQ(first.coordinator, "a.host.with.a.name.that.is.not.short:7000");
  EXPECT_STREQ(second.coordinator, "another.host.with.a.name.that.is.not.short:7001");
}

TEST_F(COptions, TheHostIsTheMachineWhereNobodyNamesIt) {
  char machine[256] = {};
  ASSERT_EQ(::gethostname(machine, sizeof machine - 1), 0);
  unsetenv("RINGWOOD_HOST");
  unsetenv("SLURMD_NODENAME");
  EXPECT_STREQ(FromEnvironment().host, machine);
  setenv("SLURMD_NODENAME", "n7", 1);
  EXPECT_STREQ(FromEnvironment().host, "n7");
  unsetenv("SLURMD_NODENAME");
}

TEST_F(COptions, AskingAgainTakesNoMemory) {
  EXPECT_EQ(FromEnvironment().coordinator, FromEnvironment().coordinator);
}

TEST_F(COptions, ManyThreadsMayReadTheEnvironment) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 1000; ++i) {
        EXPECT_STREQ(FromEnvironment().coordinator, "a.host.with.a.name.that.is.not.short:7000");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(COption, EachIsDescribedAsAFieldOfTheStruct) {
  std::map<std::string, ringwood_option> options;
  ringwood_option option{};
  option.size = sizeof option;
  size_t count = 0;
  for (; ringwood_describe_option(count, &option) == RINGWOOD_OK; ++count) {
    EXPECT_EQ(option.size, sizeof option);
    EXPECT_STRNE(option.help, "") << option.name;
    options[option.name] = option;
  }
  EXPECT_EQ(options.size(), count);
  EXPECT_EQ(options["sparse_keep"].offset, offsetof(ringwood_options, sparse_keep));
  EXPECT_EQ(options["sparse_keep"].type, RINGWOOD_OPTION_NUMBER);
  EXPECT_EQ(options["adapt"].type, RINGWOOD_OPTION_SWITCH);
  EXPECT_EQ(options["momentum_masking"].type, RINGWOOD_OPTION_SWITCH_ON);
  EXPECT_STREQ(options["join_timeout_seconds"].keyword, "join_timeout");
  EXPECT_EQ(options["token"].keyword, nullptr);
}

TEST(COption, BehindTheLastThereIsNoneAndTheStructsSizeIsNeeded) {
  ringwood_option option{};
  EXPECT_EQ(ringwood_describe_option(0, &option), RINGWOOD_INVALID);
  EXPECT_EQ(ringwood_describe_option(0, nullptr), RINGWOOD_INVALID);
  option.size = sizeof option;
  EXPECT_EQ(ringwood_describe_option(10000, &option), RINGWOOD_NOT_FOUND);
}

}  // namespace
}  // namespace ringwood

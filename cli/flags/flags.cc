#include "cli/flags/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/flags/command_context.h"
#include "cli/flags/flag_text.h"
#include "client/options/switch_text.h"

namespace ringwood {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// Whether it stands on the command line, and not in the environment alone.
bool IsWritten(const CLI::App& app, const CLI::Option* option) {
  const std::vector<CLI::Option*>& order = app.parse_order();
  return std::find(order.begin(), order.end(), option) != order.end();
}

// Reads the text and may change it; "" or what is wrong with it.
using Reader = std::function<std::string(std::string*)>;

// The variables of a command that does not run are not looked at; an error names the one in which
// the text stands.
CLI::Validator Reading(const CLI::App* app, const CLI::Option* option, Reader read,
                       const std::string& name) {
  const auto guarded = [app, option, read = std::move(read)](std::string& text) -> std::string {
    const std::string problem = read(&text);
    if (problem.empty() || app->count() == 0) return "";
    if (IsWritten(*app, option)) return problem;
    return problem + " (" + option->get_envname() + ")";
  };
  return CLI::Validator(guarded, name);
}

// Before all checks; --help does not show it.
void AddReader(const CLI::App* app, CLI::Option* option, Reader read) {
  option->transform(Reading(app, option, std::move(read), ""));
}

// --help shows `name`.
void AddCheck(const CLI::App* app, CLI::Option* option,
              std::function<std::string(const std::string&)> problem, const std::string& name) {
  option->check(Reading(
      app, option, [problem = std::move(problem)](std::string* text) { return problem(*text); },
      name));
}

void CheckNumber(const CLI::App* app, CLI::Option* option, double least, double most, bool above,
                 const std::string& name) {
  AddCheck(
      app, option, [=](const std::string& text) { return NumberProblem(text, least, most, above); },
      name);
}

// T is what one value is, of a list too.
template <typename T, typename V>
CLI::Option* AddNumber(CLI::App* app, const std::string& names, V* value, const std::string& what) {
  CLI::Option* const option = app->add_option(names, *value, what);
  if constexpr (std::is_same_v<T, double>) {
    CheckNumber(app, option, -kUnbounded, kUnbounded, false, "");
  } else {
    AddReader(app, option, ReadWhole<T>);
  }
  return option;
}

// A text that the library reads, which throws at others, also at those of a command that does not
// run.
std::string ReadSwitchText(std::string* text) {
  const std::optional<bool> on = ReadSwitch(*text);
  const std::string given = *text;
  *text = on.value_or(false) ? "true" : "false";
  return on.has_value() ? "" : "\"" + given + "\" is neither on nor off: give 1 or 0";
}

CLI::Option* CheckSwitch(const CLI::App* app, CLI::Option* option) {
  AddReader(app, option, ReadSwitchText);
  return option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

// The library reads the value of "--no-NAME=VALUE" at once, and ends the program where it cannot.
Status CheckContraries(const std::vector<std::string>& arguments) {
  for (const std::string& word : arguments) {
    const size_t equals = word.find('=');
    if (!word.starts_with("--no-") || equals == std::string::npos) continue;
    std::string value = word.substr(equals + 1);
    const std::string problem = value.empty() ? "" : ReadSwitchText(&value);
    if (!problem.empty()) return Invalid(word.substr(0, equals) + ": " + problem);
  }
  return OkStatus();
}

FlagText TextOf(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  if (names.empty()) names.push_back(option.get_name());
  FlagText text;
  text.names = absl::StrJoin(names, ", ");
  text.variable = option.get_envname();
  text.required = option.get_required();
  text.help = option.get_description();
  if (option.get_type_size() == 0) return text;
  text.alone = option.get_expected_min() == 0;
  const std::string type = option.get_type_name();  // "FLOAT:0.01 to 3600"
  const size_t colon = std::min(type.find(':'), type.size());
  text.value = type.substr(0, colon);
  text.range = colon < type.size() ? type.substr(colon + 1) : "";
  text.otherwise = option.get_default_str();
  return text;
}

void AppendTexts(const CLI::App& app, const std::string& prefix, std::vector<CommandText>* texts) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;  // hidden
    CommandText text;
    text.name = prefix + command->get_name();
    text.help = command->get_description();
    text.footer = command->get_footer();
    for (const CLI::Option* option : command->get_options()) {
      if (option != command->get_help_ptr()) text.flags.push_back(TextOf(*option));
    }
    texts->push_back(text);
    AppendTexts(*command, text.name + " ", texts);
  }
}

}  // namespace

Flag& Flag::Required() {
  option_->required();
  return *this;
}

Flag& Flag::ShowDefault() {
  option_->capture_default_str();
  return *this;
}

Flag& Flag::Default(const std::string& text) {
  option_->default_str(text);
  return *this;
}

Flag& Flag::Needs(const Flag& other) {
  option_->needs(other.option_);
  return *this;
}

Flag& Flag::Excludes(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}

Flag& Flag::Takes(const std::string& value) {
  option_->type_name(value);
  for (const char* path : {"FILE", "FOLDER", "DIRECTORY", "PATH", "PREFIX"}) {
    if (value == path) NotEmpty();
  }
  return *this;
}

Flag& Flag::NotEmpty() {
  AddCheck(
      app_, option_,
      [app = app_, option = option_](const std::string& text) {
        const bool empty = text.empty() && IsWritten(*app, option);
        return empty ? "it is empty: give a value, or leave the flag out" : "";
      },
      "");
  return *this;
}

Flag& Flag::YieldsTo(const Flag& other) {
  AddReader(app_, option_,
            [app = app_, option = option_, other = other.option_](std::string* text) {
              if (IsWritten(*app, other) && !IsWritten(*app, option)) text->clear();
              return "";
            });
  return *this;
}

Flag& Flag::Group(const std::string& heading) {
  option_->group(heading);
  return *this;
}

Flag& Flag::From(const std::string& variable) {
  option_->envname(variable);
  return *this;
}

Flag& Flag::Within(double least, double most) {
  CheckNumber(app_, option_, least, most, false, absl::StrFormat("%.15g to %.15g", least, most));
  return *this;
}

Flag& Flag::Above(double bound) {
  CheckNumber(app_, option_, bound, kUnbounded, true, absl::StrFormat("> %.15g", bound));
  return *this;
}

Flag& Flag::AtLeast(double least) {
  CheckNumber(app_, option_, least, kUnbounded, false, absl::StrFormat(">= %.15g", least));
  return *this;
}

Flag& Flag::OneAtATime() {
  option_->expected(1, 1 << 20)->allow_extra_args(false);
  return *this;
}

Flag& Flag::OneOf(const std::vector<std::string>& all) {
  const CLI::Validator member = CLI::IsMember(all);
  // Without a name: the words stand for the value.
  AddCheck(
      app_, option_, [member](const std::string& text) { return member(text); }, "");
  option_->type_name(absl::StrJoin(all, "|"));
  return *this;
}

Flag& Flag::Check(std::function<std::string(const std::string&)> problem) {
  AddCheck(app_, option_, std::move(problem), "");
  return *this;
}

Flag& Flag::SplitAt(char separator) {
  option_->delimiter(separator);
  return *this;
}

Flag& Flag::Describe(const std::string& what) {
  option_->description(what);
  return *this;
}

Command Command::Subcommand(const std::string& name, const std::string& what) {
  return Command(app_->add_subcommand(name, what));
}

Flag Command::Value(const std::string& names, std::string* value, const std::string& what) {
  return Flag(app_, app_->add_option(names, *value, what));
}

Flag Command::Value(const std::string& names, int* value, const std::string& what) {
  return Flag(app_, AddNumber<int>(app_, names, value, what));
}

Flag Command::Value(const std::string& names, uint64_t* value, const std::string& what) {
  return Flag(app_, AddNumber<uint64_t>(app_, names, value, what));
}

Flag Command::Value(const std::string& names, std::optional<uint64_t>* value,
                    const std::string& what) {
  return Flag(app_, AddNumber<uint64_t>(app_, names, value, what));
}

Flag Command::Value(const std::string& names, double* value, const std::string& what) {
  return Flag(app_, AddNumber<double>(app_, names, value, what));
}

Flag Command::Value(const std::string& names, std::vector<std::string>* values,
                    const std::string& what) {
  return Flag(app_, app_->add_option(names, *values, what)->take_all());
}

Flag Command::Value(const std::string& names, std::vector<int>* values, const std::string& what) {
  return Flag(app_, AddNumber<int>(app_, names, values, what)->take_all());
}

Flag Command::Value(const std::string& names, std::vector<uint64_t>* values,
                    const std::string& what) {
  return Flag(app_, AddNumber<uint64_t>(app_, names, values, what)->take_all());
}

Flag Command::Value(const std::string& names, std::vector<double>* values,
                    const std::string& what) {
  return Flag(app_, AddNumber<double>(app_, names, values, what)->take_all());
}

Flag Command::Word(const std::string& name, const std::string& alone, std::string* value,
                   const std::string& what) {
  return Flag(app_, app_->add_flag(name + "{" + alone + "}", *value, what));
}

Flag Command::Switch(const std::string& names, bool* value, const std::string& what) {
  return Flag(app_, CheckSwitch(app_, app_->add_flag(names, *value, what)));
}

Flag Command::Switch(const std::string& names, std::function<void(bool)> take,
                     const std::string& what) {
  CLI::Option* const option = app_->add_flag_function(
      names, [take = std::move(take)](int64_t given) { take(given > 0); }, what);
  return Flag(app_, CheckSwitch(app_, option));
}

void Command::Footer(const std::string& text) { app_->footer(text); }

void Command::Hide() { app_->group(""); }

void Command::NeedsSubcommand() { app_->require_subcommand(1); }

void Command::Run(CommandContext* context, std::function<Status()> run) {
  app_->callback([context, run = std::move(run)] {
    const Status status = run();
    if (!status.ok()) FailCommand(context, status);
  });
}

CommandLine::CommandLine(const std::string& what, const std::string& version)
    : app_(std::make_unique<CLI::App>(what)) {
  app_->name("ringwood");
  app_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  if (!version.empty()) app_->set_version_flag("--version", version);
  app_->require_subcommand(1);
}

CommandLine::~CommandLine() = default;

Status CommandLine::Parse(std::vector<std::string> arguments) {
  const std::string first = arguments.empty() ? "" : arguments[0];
  RW_RETURN_IF_ERROR(CheckContraries(arguments));
  try {  // the library reports by exceptions; they end here
    std::reverse(arguments.begin(), arguments.end());
    app_->parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app_->exit(error);
      return OkStatus();
    }
    const auto chosen = app_->get_subcommands();
    if (chosen.empty() && !first.empty() && first[0] != '-') {
      return Invalid("there is no command " + first + "; see ringwood --help");
    }
    // The library's own sentence has them in reverse order.
    const std::vector<std::string> left = app_->remaining(true);
    const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !left.empty();
    std::string text = unknown ? "not expected: " + absl::StrJoin(left, " ") : error.what();
    if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
      text = absl::StrReplaceAll(text, {{" excludes ", " and "}}) + ": give one of them";
    }
    text += "; see ringwood" + (chosen.empty() ? "" : " " + chosen[0]->get_name()) + " --help";
    // Who comes from other launchers writes the program without "--" before it.
    const std::string example = chosen.empty() ? "" : chosen[0]->get_footer();
    if (unknown && !left[0].starts_with('-') && absl::StrContains(example, " -- ")) {
      text += ". " + example;
    }
    return Invalid(text);
  }
  return OkStatus();
}

std::vector<CommandText> CommandLine::Describe() const {
  std::vector<CommandText> texts;
  AppendTexts(*app_, "", &texts);
  return texts;
}

}  // namespace ringwood

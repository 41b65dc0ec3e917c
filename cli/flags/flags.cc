#include "cli/flags/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/flags/command_context.h"

namespace ringwood {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// What is wrong with the text of a number that has to be finite and within both ends.
std::string NumberProblem(const std::string& text, double least, double most, bool above) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return "\"" + text + "\" is not a number";
  if (!std::isfinite(value)) return "\"" + text + "\" is not a finite number";
  if (most != kUnbounded && (value < least || value > most)) {
    return absl::StrFormat("%s is not within %.15g to %.15g", text, least, most);
  }
  if (above && value <= least) return absl::StrFormat("%s is not above %.15g", text, least);
  if (value < least) return absl::StrFormat("%s is below %.15g", text, least);
  return "";
}

CLI::Option* CheckNumber(CLI::Option* option, double least, double most, bool above,
                         const std::string& name) {
  return option->check(
      [=](const std::string& text) { return NumberProblem(text, least, most, above); }, name);
}

template <typename T>
CLI::Option* AddNumber(CLI::App* app, const std::string& names, T* value, const std::string& what) {
  return CheckNumber(app->add_option(names, *value, what), -kUnbounded, kUnbounded, false, "");
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

Flag& Flag::Takes(const std::string& value) {
  option_->type_name(value);
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
  CheckNumber(option_, least, most, false, absl::StrFormat("%.15g to %.15g", least, most));
  return *this;
}

Flag& Flag::Above(double bound) {
  CheckNumber(option_, bound, kUnbounded, true, absl::StrFormat("> %.15g", bound));
  return *this;
}

Flag& Flag::AtLeast(double least) {
  CheckNumber(option_, least, kUnbounded, false, absl::StrFormat(">= %.15g", least));
  return *this;
}

Flag& Flag::OneAtATime() {
  option_->expected(1, 1 << 20)->allow_extra_args(false);
  return *this;
}

Flag& Flag::OneOf(const std::vector<std::string>& all) {
  CLI::Validator member = CLI::IsMember(all);
  option_->check(member.description(""));  // the words stand for the value
  option_->type_name(absl::StrJoin(all, "|"));
  return *this;
}

Flag& Flag::Check(std::function<std::string(const std::string&)> problem) {
  option_->check(std::move(problem));
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
  return Flag(app_->add_option(names, *value, what));
}

Flag Command::Value(const std::string& names, int* value, const std::string& what) {
  return Flag(AddNumber(app_, names, value, what));
}

Flag Command::Value(const std::string& names, uint64_t* value, const std::string& what) {
  return Flag(CheckNumber(AddNumber(app_, names, value, what), 0, kUnbounded, false, ""));
}

Flag Command::Value(const std::string& names, std::optional<uint64_t>* value,
                    const std::string& what) {
  return Flag(CheckNumber(AddNumber(app_, names, value, what), 0, kUnbounded, false, ""));
}

Flag Command::Value(const std::string& names, double* value, const std::string& what) {
  return Flag(AddNumber(app_, names, value, what));
}

Flag Command::Value(const std::string& names, std::vector<std::string>* values,
                    const std::string& what) {
  return Flag(app_->add_option(names, *values, what)->take_all());
}

Flag Command::Value(const std::string& names, std::vector<int>* values, const std::string& what) {
  return Flag(AddNumber(app_, names, values, what)->take_all());
}

Flag Command::Value(const std::string& names, std::vector<uint64_t>* values,
                    const std::string& what) {
  return Flag(
      CheckNumber(AddNumber(app_, names, values, what)->take_all(), 0, kUnbounded, false, ""));
}

Flag Command::Value(const std::string& names, std::vector<double>* values,
                    const std::string& what) {
  return Flag(AddNumber(app_, names, values, what)->take_all());
}

Flag Command::Word(const std::string& name, const std::string& alone, std::string* value,
                   const std::string& what) {
  return Flag(app_->add_flag(name + "{" + alone + "}", *value, what));
}

Flag Command::Switch(const std::string& names, bool* value, const std::string& what) {
  return Flag(app_->add_flag(names, *value, what));
}

Flag Command::Switch(const std::string& names, std::function<void(bool)> take,
                     const std::string& what) {
  return Flag(app_->add_flag_function(
      names, [take = std::move(take)](int64_t given) { take(given > 0); }, what));
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

#include "cli/flags/session_flags.h"

#include <string>
#include <variant>
#include <vector>

#include "client/options/option_table.h"

namespace ringwood {
namespace {

using SwitchPlace = OptionPlace<bool, int>;
using CountPlace = OptionPlace<int, int>;

// "--adapt"; of what is on by default "--masking,!--no-masking".
std::string SwitchNames(const Option& option) {
  const SessionOptions defaults;
  const std::string flag = option.flag;
  if (!(defaults.*std::get<SwitchPlace>(option.place).member)) return flag;
  return flag + ",!--no-" + flag.substr(2);
}

// What is wrong with a flag's text, which the ranks will read.
std::string Problem(const Option& option, const std::string& text) {
  SessionOptions read;
  const Status status = ReadOption(option, "", text, &read);
  return Message(status.ok() ? CheckOption(option, "", read) : status);
}

Flag AddFlagFor(Command command, const Option& option, std::string* value) {
  if (std::holds_alternative<SwitchPlace>(option.place)) {
    return command.Switch(
        SwitchNames(option), [value](bool on) { *value = on ? "1" : "0"; }, option.help);
  }
  Flag flag = command.Value(option.flag, value, option.help);
  std::vector<std::string> words;
  for (const char* word : option.words) {
    if (word != nullptr) words.push_back(word);
  }
  if (!words.empty()) {
    flag.OneOf(words);
  } else {
    flag.Takes(option.value).Check([&option](const std::string& text) {
      return Problem(option, text);
    });
  }
  if (std::holds_alternative<CountPlace>(option.place) && option.range.words != nullptr) {
    flag.Within(option.range.least, option.range.most);
  }
  return flag.Default(OptionText(option, SessionOptions()));
}

}  // namespace

void AddSessionFlags(Command command, Environment* session) {
  for (const Option& option : OptionTable()) {
    if (option.flag == nullptr) continue;
    const char* const variable = option.variables[0];
    AddFlagFor(command, option, &(*session)[variable]).From(variable).Group(option.section);
  }
}

Flag AddSessionFlag(Command command, const std::string& option, std::string* value) {
  return AddFlagFor(command, OptionNamed(option), value);
}

StatusOr<SessionOptions> SessionOptionsGiven(const Environment& session) {
  RW_ASSIGN_OR_RETURN(SessionOptions options, SharedOptionsFromEnvironment([&](const char* name) {
                        const auto found = session.find(name);
                        return found == session.end() ? nullptr : found->second.c_str();
                      }));
  RW_RETURN_IF_ERROR(CheckValues(options));
  return options;
}

}  // namespace ringwood

// The options that the environment of a process gives.
#include "absl/strings/str_format.h"
#include "client/options/option_table.h"

namespace ringwood {
namespace {

// The first of an option's variables that is set and not empty; nullptr: none is.
struct Variable {
  const char* name = nullptr;
  const char* value = nullptr;
};
Variable FindVariable(const EnvironmentLookup& environment, const Option& option) {
  for (const char* name : option.variables) {
    const char* value = name != nullptr ? environment(name) : nullptr;
    if (value != nullptr && *value != '\0') return {name, value};
  }
  return {};
}

}  // namespace

StatusOr<SessionOptions> SharedOptionsFromEnvironment(const EnvironmentLookup& environment) {
  SessionOptions options;
  for (const Option& option : OptionTable()) {
    const Variable variable = FindVariable(environment, option);
    if (variable.value == nullptr) continue;
    RW_RETURN_IF_ERROR(ReadOption(option, variable.name, variable.value, &options));
    if (option.range.words != nullptr) {
      RW_RETURN_IF_ERROR(CheckOption(option, variable.name, options));
    }
  }
  return options;
}

StatusOr<SessionOptions> OptionsFromEnvironment(const EnvironmentLookup& environment) {
  for (const char* name : {"rank", "world"}) {
    const Option& option = OptionNamed(name);
    if (FindVariable(environment, option).value != nullptr) continue;
    return Invalid(absl::StrFormat(
        "%s is not set: start the program with `ringwood run`, or set RANK, WORLD_SIZE and "
        "RINGWOOD_COORDINATOR",
        option.variables[0]));
  }
  return SharedOptionsFromEnvironment(environment);
}

}  // namespace ringwood

// The options of a session in one table: a row an option. Made from it are the reader of the
// environment, the checks, what ranks compare, the conversion from and to ringwood_options, the
// struct and the keywords of the Python package, flags of `ringwood run`, and docs/reference.md. So
// a new option is a member of SessionOptions, a field at the end of ringwood_options, and a row;
// then `./dev reference` writes the page.
#pragma once

#include <array>
#include <span>
#include <string>
#include <variant>

#include "base/status.h"
#include "client/options/options.h"
#include "include/ringwood.h"

namespace ringwood {

// Where an option lies: for the library, and for callers.
template <typename T, typename C>
struct OptionPlace {
  using Value = T;
  T SessionOptions::*member;
  C ringwood_options::*field;
};
template <typename T, typename C>
OptionPlace(T SessionOptions::*, C ringwood_options::*) -> OptionPlace<T, C>;

// Both ends are allowed, NaN is in no range. Without words: any number.
struct NumberRange {
  double least = 0, most = 0;
  const char* words = nullptr;  // "from 0 to below 1": what stands behind "is not a number"
};

struct Option {
  const char* name;  // of its field in ringwood_options
  std::variant<OptionPlace<std::string, const char*>, OptionPlace<int, int>,
               OptionPlace<double, double>, OptionPlace<bool, int>, OptionPlace<uint64_t, uint64_t>,
               OptionPlace<Resume, int>>
      place;
  std::array<const char*, 3> variables;   // of the environment; the first that is not empty counts
  const char* value = nullptr;            // what it is, with its unit: "SECONDS", "FILE"
  std::array<const char*, 6> words = {};  // if these are all that it may be
  NumberRange range = {};
  Status (*check)(const std::string&) = nullptr;  // of a text
  bool needed = false;                            // there is no default
  const char* keyword = nullptr;                  // of ringwood.Session in Python
  // Of `ringwood run`, which hands the value to all ranks. The launcher's own flags (cli/run) do
  // more than that, or something else for each rank.
  const char* flag = nullptr;
  const char* launcher_flag = nullptr;
  const char* agreed = nullptr;  // what an error calls it where ranks differ, which they may not
  const char* section;           // "Sparse tensors": where flags and reference have it
  const char* help;              // a sentence in the imperative, without the full stop
};

// In the order of the reference page.
std::span<const Option> OptionTable();

// The row of this name, which is there.
const Option& OptionNamed(const std::string& name);

// Reads a variable's or a flag's text. An error names `source`, the variable, unless it is empty.
Status ReadOption(const Option& option, const std::string& source, const std::string& text,
                  SessionOptions* options);

// The number's range, the text's words. `name` stands in the error for a number.
Status CheckOption(const Option& option, const std::string& name, const SessionOptions& options);

// As ranks compare it and people read it: "0.5", "on", "block16/fp32".
std::string OptionText(const Option& option, const SessionOptions& options);

}  // namespace ringwood

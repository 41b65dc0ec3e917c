// The flags of the program's commands: a thin front of the parser library, whose header flags.cc
// alone includes. It costs a compiler more time than all commands together.
//
// Of a flag that is given twice the last counts; a flag wins over its environment variable, which
// counts as not given where it is empty. Numbers are decimal and finite: "nan", "inf" and "0x10"
// are refused wherever a number is read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/pages/command_text.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ringwood {

struct CommandContext;

// A flag of a command, to say more about it. A handle: the command owns it.
class Flag {
 public:
  Flag& Required();
  Flag& ShowDefault();                      // --help shows the value it has now
  Flag& Default(const std::string& text);   // --help shows this as the default
  Flag& Takes(const std::string& value);    // what --help calls its value: "SECONDS", no colon
  Flag& Group(const std::string& heading);  // under which --help has it
  Flag& From(const std::string& variable);  // the environment variable that gives it too
  Flag& Within(double least, double most);  // a number, both ends included
  Flag& Above(double bound);                // a number
  Flag& AtLeast(double least);              // a number
  Flag& OneOf(const std::vector<std::string>& all);                     // one of these words
  Flag& Check(std::function<std::string(const std::string&)> problem);  // "": the text is good
  Flag& Needs(const Flag& other);     // is refused without the other one
  Flag& Excludes(const Flag& other);  // is refused together with the other one
  Flag& NotEmpty();  // "" is refused on the command line; Takes says it of all paths
  // Counts as not given where it stands in the environment alone, and the other one, which belongs
  // to the same command, on the command line.
  Flag& YieldsTo(const Flag& other);
  Flag& OneAtATime();             // of a list: each time it is given it takes one value
  Flag& SplitAt(char separator);  // one word holds several values
  Flag& Describe(const std::string& what);

 private:
  friend class Command;
  Flag(CLI::App* app, CLI::Option* option) : app_(app), option_(option) {}
  CLI::App* app_;
  CLI::Option* option_;
};

// A command of the program, or the program. A handle: the CommandLine owns it.
class Command {
 public:
  Command Subcommand(const std::string& name, const std::string& what);

  // A flag with a value, "-o,--output"; without dashes a word by its position. `value` outlives the
  // parsing; lists take every value that is given.
  Flag Value(const std::string& names, std::string* value, const std::string& what);
  Flag Value(const std::string& names, int* value, const std::string& what);
  Flag Value(const std::string& names, uint64_t* value, const std::string& what);
  Flag Value(const std::string& names, std::optional<uint64_t>* value, const std::string& what);
  Flag Value(const std::string& names, double* value, const std::string& what);
  Flag Value(const std::string& names, std::vector<std::string>* values, const std::string& what);
  Flag Value(const std::string& names, std::vector<int>* values, const std::string& what);
  Flag Value(const std::string& names, std::vector<uint64_t>* values, const std::string& what);
  Flag Value(const std::string& names, std::vector<double>* values, const std::string& what);

  // A flag that gives `alone` by itself, or VALUE as "--name=VALUE".
  Flag Word(const std::string& name, const std::string& alone, std::string* value,
            const std::string& what);

  // A flag without a value. "--on,!--off": the second one is its contrary.
  Flag Switch(const std::string& names, bool* value, const std::string& what);
  Flag Switch(const std::string& names, std::function<void(bool)> take, const std::string& what);

  void Footer(const std::string& text);  // the end of --help
  void Hide();                           // not shown: nobody starts it by hand
  void NeedsSubcommand();
  // What it does once its flags are read; an error ends the program as FailCommand says.
  void Run(CommandContext* context, std::function<Status()> run);

 private:
  friend class CommandLine;
  explicit Command(CLI::App* app) : app_(app) {}
  CLI::App* app_;
};

class CommandLine {
 public:
  CommandLine(const std::string& what, const std::string& version);
  ~CommandLine();

  Command root() { return Command(app_.get()); }

  // Runs the command that `arguments` ask for, which stand without the program's name, or prints
  // what --help and --version ask for. Invalid: what is wrong with them.
  Status Parse(std::vector<std::string> arguments);

  // The commands that --help shows, each before its own.
  std::vector<CommandText> Describe() const;

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace ringwood

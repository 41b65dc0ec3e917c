#include "cli/reference_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/version.h"
#include "cli/pages/completion.h"
#include "cli/pages/manual_page.h"
#include "client/options/option_table.h"

namespace ringwood {
namespace {

constexpr char kPreface[] = R"(# Reference

Every option, environment variable and flag. `./dev reference` makes this page from the program
itself.

## Options of a session

A session takes an option from its argument, else from the environment, else it has the default.

* C and C++ give the fields of `ringwood_options`; one that is 0 or NULL has the default. A switch
  is on when it is 1; one that is on by default is off when it is -1.
* Python gives the keywords of `ringwood.Session` and `ringwood.torch.init`.
* A flag of `ringwood run` sets the variable for all ranks and wins over the launcher's own
  environment.
* To resume, C gives `RINGWOOD_RESUME` or `RINGWOOD_RESUME_OR_START`, Python `True` or `"auto"`.

Options marked ● must be equal on all ranks; ranks that differ are refused with both values.
)";

constexpr char kVariablePreface[] = R"(
## Other environment variables

`ringwood run` sets those that trainers read.
)";

// Those that are no option of a session.
struct VariableText {
  const char *names, *reader, *help;
};
constexpr VariableText kVariables[] = {
    {"LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID", "trainers, `ringwood.torch`",
     "This rank's number on its host, from 0"},
    {"LOCAL_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE", "trainers, `ringwood.horovod`",
     "The number of ranks on this host"},
    {"GROUP_RANK", "trainers", "The host's number, from 0"},
    {"GROUP_WORLD_SIZE", "the Python package",
     "The number of hosts, as torchrun says it; of several the first rank of each starts a "
     "reducer"},
    {"RINGWOOD_SERVER_HOST", "the Python package",
     "The host of the job's server, as `ringwood server -- COMMAND` sets it; the first rank of "
     "each "
     "other host starts a reducer"},
    {"MASTER_ADDR, MASTER_PORT", "trainers",
     "The first host's address, and a port that is kept free there"},
    {"RINGWOOD_RESTART", "trainers", "Restarts so far, of the job plus of this rank alone"},
    {"RINGWOOD_REPORT", "trainers", "The file of `ringwood run --report`"},
    {"RINGWOOD_CHECKPOINT_EVERY", "trainers", "The steps of `ringwood run --checkpoint-every`"},
    {"SLURM_JOB_NODELIST", "`ringwood doctor`", "The hosts of the Slurm allocation it runs in"},
    {"TMPDIR", "`ringwood run`", "The directory in which a temporary store is made on this host"},
    {"XDG_RUNTIME_DIR", "`ringwood run`",
     "The directory in which the processes' keys lie while they run; without it /dev/shm"},
    {"RINGWOOD_LIBRARY", "the Python package", "Load this libringwood.so"},
    {"PMI_RANK, PMIX_RANK, MV2_COMM_WORLD_RANK, HOROVOD_RANK, JSM_NAMESPACE_RANK, FLUX_TASK_RANK, "
     "PALS_RANKID",
     "the Python package", "Launchers number processes by them: none of those trains alone"},
    {"TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT", "the Python package",
     "torchrun's, by which the ranks of one start find each other in its store"},
    {"RINGWOOD_STORE", "the Python package",
     "The store of a server that rank 0 starts itself, under torchrun or alone; without it a "
     "temporary one"},
    {"RINGWOOD_DEVICE_TENSORS", "`ringwood.torch`",
     "Exchange CUDA tensors `in_place`, or `stage` them through host memory, where "
     "`device_tensors` is `auto`"},
};

std::string Code(const std::string& text) {
  return text.empty() ? "" : "`" + absl::StrReplaceAll(text, {{"|", "\\|"}}) + "`";
}

// "gtopk|union" as the words that it is.
std::string Words(const std::string& value) {
  std::vector<std::string> words;
  for (absl::string_view word : absl::StrSplit(value, '|')) {
    words.push_back(Code(std::string(word)));
  }
  return absl::StrJoin(words, ", ");
}

std::string Row(const std::vector<std::string>& cells) {
  return "| " + absl::StrJoin(cells, " | ") + " |\n";
}

std::string TypeOf(const Option& option) {
  struct Name {
    const char* operator()(const OptionPlace<std::string, const char*>&) { return "text"; }
    const char* operator()(const OptionPlace<int, int>&) { return "int"; }
    const char* operator()(const OptionPlace<double, double>&) { return "double"; }
    const char* operator()(const OptionPlace<bool, int>&) { return "switch"; }
    const char* operator()(const OptionPlace<uint64_t, uint64_t>&) { return "uint64_t"; }
    const char* operator()(const OptionPlace<Resume, int>&) { return "int"; }
  };
  return std::visit(Name(), option.place);
}

std::string ValuesOf(const Option& option) {
  if (std::holds_alternative<OptionPlace<bool, int>>(option.place)) return "1 or 0";
  if (option.value == nullptr) {
    std::vector<std::string> words;
    for (const char* word : option.words) {
      if (word != nullptr) words.push_back(Code(word));
    }
    return absl::StrJoin(words, ", ");
  }
  const std::string value = Words(option.value);
  return option.range.words == nullptr ? value : value + " " + option.range.words;
}

std::string OptionRow(const Option& option) {
  std::vector<std::string> variables;
  for (const char* variable : option.variables) {
    if (variable != nullptr) variables.push_back(Code(variable));
  }
  const char* const flag = option.flag != nullptr ? option.flag : option.launcher_flag;
  const std::string otherwise = OptionText(option, SessionOptions());
  return Row({Code(option.name) + (option.agreed != nullptr ? " ●" : ""), TypeOf(option),
              option.keyword != nullptr ? Code(option.keyword) : "", absl::StrJoin(variables, ", "),
              flag != nullptr ? Code(flag) : "", ValuesOf(option),
              option.needed ? "needed" : Code(otherwise), option.help});
}

std::string OptionTables() {
  std::string text;
  std::string section;
  for (const Option& option : OptionTable()) {
    if (section != option.section) {
      section = option.section;
      text += absl::StrFormat("\n### %s\n\n", section);
      text += Row({"field", "type", "Python", "environment", "`ringwood run`", "value", "default",
                   "what it does"});
      text += "|---|---|---|---|---|---|---|---|\n";
    }
    text += OptionRow(option);
  }
  return text;
}

std::string VariableTable() {
  std::string text = kVariablePreface;
  text += "\n" + Row({"variable", "read by", "what it says"}) + "|---|---|---|\n";
  for (const VariableText& variable : kVariables) {
    std::vector<std::string> names;
    for (absl::string_view name : absl::StrSplit(variable.names, ", ")) {
      names.push_back(Code(std::string(name)));
    }
    text += Row({absl::StrJoin(names, ", "), variable.reader, variable.help});
  }
  return text;
}

std::string CommandSection(const CommandText& command) {
  std::string text = absl::StrFormat("\n### ringwood %s\n\n%s.\n", command.name, command.help);
  if (!command.flags.empty()) {
    text += "\n" + Row({"flag", "value", "default", "environment", "what it does"});
    text += "|---|---|---|---|---|\n";
  }
  for (const FlagText& flag : command.flags) {
    std::string value = Words(flag.value);
    if (!flag.range.empty()) value += " " + flag.range;
    text += Row({Code(flag.names), value, flag.required ? "needed" : Code(flag.otherwise),
                 Code(flag.variable), flag.help});
  }
  if (!command.footer.empty()) text += absl::StrFormat("\n%s\n", command.footer);
  return text;
}

}  // namespace

void AddReferenceCommand(Command app, CommandContext* context, const CommandLine* line) {
  Command command = app.Subcommand("reference", "Print docs/reference.md");
  command.Hide();
  auto manual = std::make_shared<bool>(false);
  command.Switch("--manual", manual.get(), "Print the manual page instead");
  command.Run(context, [line, manual] {
    if (*manual) {
      std::printf("%s", ManualPage(line->Describe(), Version()).c_str());
      return OkStatus();
    }
    std::string page = kPreface + OptionTables() + VariableTable() + "\n## Commands\n";
    for (const CommandText& text : line->Describe()) page += CommandSection(text);
    std::printf("%s", page.c_str());
    return OkStatus();
  });
}

void AddCompletionCommand(Command app, CommandContext* context, const CommandLine* line) {
  Command command = app.Subcommand(
      "completion", "Print what a shell reads to complete commands, flags and their values");
  command.Footer(
      "Now, and in each new shell: source <(ringwood completion bash)\n"
      "Packages install it where bash, fish and zsh find it.");
  auto shell = std::make_shared<std::string>();
  command.Value("shell", shell.get(), "The shell").OneOf({"bash", "fish", "zsh"}).Required();
  command.Run(context, [line, shell] {
    const auto commands = line->Describe();
    const std::string text = *shell == "bash"   ? BashCompletion(commands)
                             : *shell == "fish" ? FishCompletion(commands)
                                                : ZshCompletion(commands);
    std::printf("%s", text.c_str());
    return OkStatus();
  });
}

}  // namespace ringwood

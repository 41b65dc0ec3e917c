#include "cli/pages/completion.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ringwood {
namespace {

constexpr char kBashBegin[] =
    R"(# Completion of ringwood for bash; `ringwood completion bash` prints it.
_ringwood() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  local command= subcommands= flags= values= kind= equals= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then  # the ranks' program
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
      else
        mapfile -t COMPREPLY < <(compgen -c -f -- "$cur")
      fi
      return
    fi
    case "$command ${COMP_WORDS[i]}" in
)";

constexpr char kBashMiddle[] = R"(        command=${command:+$command }${COMP_WORDS[i]} ;;
    esac
  done
  if [[ $cur == "=" ]]; then
    equals=1 cur=
  elif [[ $prev == "=" ]]; then
    equals=1 prev=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case "$command" in
)";

constexpr char kBashEnd[] = R"(  esac
  case "$kind$equals" in
    words | words1 | alone1) mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur") ;;
    text | text1) COMPREPLY=() ;;
    directory | directory1)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    *)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
      elif [[ -n $subcommands ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$subcommands" -- "$cur")
      else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      fi ;;
  esac
}
complete -F _ringwood ringwood
)";

constexpr char kFishBegin[] =
    R"(# Completion of ringwood for fish; `ringwood completion fish` prints it.
function __ringwood_in
    set -l command
    for word in (commandline -opc)[2..]
        if test "$word" = --
            return 1
        end
        switch "$command $word"
)";

constexpr char kFishMiddle[] = R"(                set command (string trim "$command $word")
        end
    end
    test "$command" = "$argv[1]"
end
complete -c ringwood -f
)";

constexpr char kZshBegin[] = R"(#compdef ringwood
# Completion of ringwood for zsh; `ringwood completion zsh` prints it.
_ringwood() {
  local command=
  integer i named=1
  for ((i = 2; i < CURRENT; ++i)); do
    if [[ $words[i] == -- ]]; then  # the ranks' program
      shift $i words
      ((CURRENT -= i))
      _normal
      return
    fi
    case "$command $words[i]" in
)";

constexpr char kZshMiddle[] = R"(        command=${command:+$command }$words[i] named=$i ;;
    esac
  done
  shift $((named - 1)) words
  ((CURRENT -= named - 1))
  case "$command" in
)";

constexpr char kZshEnd[] = R"(  esac
}
if [[ $funcstack[1] == _ringwood ]]; then _ringwood "$@"; else compdef _ringwood ringwood; fi
)";

std::vector<std::string> NamesOf(const FlagText& flag) { return absl::StrSplit(flag.names, ", "); }

bool IsFlag(const std::string& name) { return !name.empty() && name[0] == '-'; }

// What may follow a flag: words that are listed, a path, or what only the user knows.
enum class Kind { kNothing, kWords, kFile, kDirectory, kText };

Kind KindOf(const FlagText& flag) {
  if (flag.value.empty()) return Kind::kNothing;
  const bool words = std::any_of(flag.value.begin(), flag.value.end(),
                                 [](char letter) { return letter >= 'a' && letter <= 'z'; });
  if (words) return Kind::kWords;
  if (flag.value == "FILE" || flag.value == "PATH") return Kind::kFile;
  const bool folder = flag.value == "DIRECTORY" || flag.value == "FOLDER";
  return folder ? Kind::kDirectory : Kind::kText;
}

std::string ValuesOf(const FlagText& flag) { return absl::StrReplaceAll(flag.value, {{"|", " "}}); }

// The words that may follow a command: "" for the program itself.
std::vector<std::string> SubcommandsOf(const std::vector<CommandText>& commands,
                                       const std::string& name) {
  const std::string prefix = name.empty() ? "" : name + " ";
  std::vector<std::string> words;
  for (const CommandText& command : commands) {
    absl::string_view rest = command.name;
    if (!absl::ConsumePrefix(&rest, prefix)) continue;
    if (!rest.empty() && rest.find(' ') == absl::string_view::npos) words.emplace_back(rest);
  }
  return words;
}

// "checkpoint list" as the case that one word more makes of "checkpoint": pattern of all shells.
std::string Patterns(const std::vector<CommandText>& commands, const char* separator) {
  std::vector<std::string> patterns;
  for (const CommandText& command : commands) {
    const bool nested = command.name.find(' ') != std::string::npos;
    patterns.push_back(absl::StrFormat("'%s%s'", nested ? "" : " ", command.name));
  }
  return absl::StrJoin(patterns, separator);
}

std::string BashCase(const std::vector<CommandText>& commands, const CommandText& command) {
  std::vector<std::string> flags = {"--help"};
  std::string values;
  for (const FlagText& flag : command.flags) {
    const std::vector<std::string> names = NamesOf(flag);
    if (!IsFlag(names[0])) continue;
    flags.insert(flags.end(), names.begin(), names.end());
    static constexpr const char* kKinds[] = {"", "words", "file", "directory", "text"};
    const Kind kind = KindOf(flag);
    if (kind == Kind::kNothing) continue;
    values += absl::StrFormat("        %s) kind=%s", absl::StrJoin(names, " | "),
                              flag.alone ? "alone" : kKinds[static_cast<int>(kind)]);
    if (kind == Kind::kWords) values += absl::StrFormat(" values='%s'", ValuesOf(flag));
    values += " ;;\n";
  }
  std::string text =
      absl::StrFormat("    '%s')\n      flags='%s'\n", command.name, absl::StrJoin(flags, " "));
  const auto subcommands = SubcommandsOf(commands, command.name);
  if (!subcommands.empty()) {
    text += absl::StrFormat("      subcommands='%s'\n", absl::StrJoin(subcommands, " "));
  }
  if (!values.empty()) text += "      case \"$prev\" in\n" + values + "      esac\n";
  return text + "      ;;\n";
}

// The program itself, as a command without a name.
CommandText Root() {
  CommandText root;
  FlagText version;
  version.names = "--version";
  version.help = "Print the version, and what the program was built of";
  root.flags = {version};
  return root;
}

std::string Quoted(const std::string& text) {
  return "'" + absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}) + "'";
}

std::string FishFlag(const std::string& condition, const FlagText& flag) {
  const std::vector<std::string> names = NamesOf(flag);
  if (!IsFlag(names[0])) return "";
  std::string text = condition;
  for (const std::string& name : names) {
    text += name[1] == '-' ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  switch (KindOf(flag)) {
    case Kind::kNothing:
      break;
    case Kind::kWords:
      text += (flag.alone ? " -a " : " -x -a ") + Quoted(ValuesOf(flag));
      break;
    case Kind::kFile:
    case Kind::kDirectory:
      text += " -r -F";
      break;
    case Kind::kText:
      text += flag.alone ? "" : " -x";
      break;
  }
  return text + " -d " + Quoted(flag.help) + "\n";
}

std::string FishCommand(const std::vector<CommandText>& commands, const CommandText& command) {
  const std::string condition = "complete -c ringwood -n \"__ringwood_in '" + command.name + "'\"";
  std::string text;
  for (const std::string& word : SubcommandsOf(commands, command.name)) {
    const std::string name = command.name.empty() ? word : command.name + " " + word;
    const auto found = std::find_if(commands.begin(), commands.end(),
                                    [&](const CommandText& each) { return each.name == name; });
    text += condition + " -a " + word + " -d " + Quoted(found->help) + "\n";
  }
  for (const FlagText& flag : command.flags) text += FishFlag(condition, flag);
  return text + condition + " -l help -s h -d 'Print the flags'\n";
}

// One word for the shell.
std::string ZshQuoted(const std::string& text) {
  return "'" + absl::StrReplaceAll(text, {{"'", "'\\''"}}) + "'";
}

// As _arguments takes it: "--wire=[Send dense gradients …]:value:(fp32 bf16)".
std::string ZshFlag(const FlagText& flag) {
  std::string what = "[" + absl::StrReplaceAll(flag.help, {{"[", "\\["}, {"]", "\\]"}}) + "]";
  const char* const before = flag.alone ? "=-" : "=";
  const std::string value = flag.alone ? "::value:" : ":value:";
  switch (KindOf(flag)) {
    case Kind::kNothing:
      break;
    case Kind::kWords:
      what = before + what + value + "(" + ValuesOf(flag) + ")";
      break;
    case Kind::kFile:
      what = before + what + value + "_files";
      break;
    case Kind::kDirectory:
      what = before + what + value + "_files -/";
      break;
    case Kind::kText:
      what = before + what + value + " ";
      break;
  }
  std::string text;
  for (const std::string& name : NamesOf(flag)) {
    const bool one_dash = name[1] != '-' && what[0] == '=';  // its value is the next word
    text += " \\\n        " + ZshQuoted(name + (one_dash ? what.substr(what.find('[')) : what));
  }
  return text;
}

std::string ZshCase(const std::vector<CommandText>& commands, const CommandText& command) {
  std::string text = absl::StrFormat("    ('%s')\n      _arguments", command.name);
  for (const FlagText& flag : command.flags) {
    if (IsFlag(NamesOf(flag)[0])) text += ZshFlag(flag);
  }
  const auto subcommands = SubcommandsOf(commands, command.name);
  text += " \\\n        '--help[Print the flags]' ";
  return text +
         (subcommands.empty() ? "'*:file:_files'"
                              : "'1:command:(" + absl::StrJoin(subcommands, " ") + ")'") +
         " ;;\n";
}

}  // namespace

std::string BashCompletion(const std::vector<CommandText>& commands) {
  std::string text = kBashBegin;
  text += "      " + Patterns(commands, " | ") + ")\n" + kBashMiddle + BashCase(commands, Root());
  for (const CommandText& command : commands) text += BashCase(commands, command);
  return text + kBashEnd;
}

std::string FishCompletion(const std::vector<CommandText>& commands) {
  std::string text = kFishBegin;
  text += "            case " + Patterns(commands, " ") + "\n" + kFishMiddle;
  text += FishCommand(commands, Root());
  for (const CommandText& command : commands) text += FishCommand(commands, command);
  return text;
}

std::string ZshCompletion(const std::vector<CommandText>& commands) {
  std::string text = kZshBegin;
  text += "      (" + Patterns(commands, " | ") + ")\n" + kZshMiddle + ZshCase(commands, Root());
  for (const CommandText& command : commands) text += ZshCase(commands, command);
  return text + kZshEnd;
}

}  // namespace ringwood

#include "cli/pages/manual_page.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace ringwood {
namespace {

constexpr char kBegin[] = R"(.SH NAME
ringwood \- gradient exchange for clusters whose network is slower than their GPUs
.SH SYNOPSIS
.B ringwood
.I COMMAND
.RI [ FLAGS ]
.RB [ \-\- " \fIPROGRAM\fR \fR...]"
.SH DESCRIPTION
.B ringwood run
starts a program once for each rank of a training job, with a server beside them, and watches all of
them. The other commands start servers by hand, look at checkpoints and timelines, measure the
network, and predict how long a step takes.
)";

constexpr char kEnd[] = R"(.SH EXIT STATUS
.TP
.B 0
All went well.
.TP
.B 75
Trying again may help: a process or host died, nobody answers, no port is free now.
.TP
.B 78
Only the user can mend it: a flag, a file, the configuration.
.TP
.B 130
.B ringwood run
was interrupted.
.PP
.B ringwood run
ends with the code of a rank that failed by itself.
.SH ENVIRONMENT
A flag that names a variable takes its value from there where it is not given itself.
.SH SEE ALSO
The pages in docs/ of the source tree.
)";

// Text as troff prints it: no line of it is a request, and its dashes can be copied.
std::string Plain(const std::string& text) {
  const std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"`", ""}});
  std::vector<std::string> lines = absl::StrSplit(escaped, '\n');
  for (std::string& line : lines) {
    if (!line.empty() && (line[0] == '.' || line[0] == '\'')) line.insert(0, "\\&");
  }
  return absl::StrJoin(lines, "\n.br\n");
}

std::string Bold(const std::string& text) { return "\\fB" + Plain(text) + "\\fR"; }
std::string Italic(const std::string& text) { return "\\fI" + Plain(text) + "\\fR"; }

std::string FlagEntry(const FlagText& flag) {
  std::vector<std::string> names;
  for (absl::string_view name : absl::StrSplit(flag.names, ", ")) {
    names.push_back(Bold(std::string(name)));
  }
  std::string text = ".TP\n" + absl::StrJoin(names, ", ");
  if (!flag.value.empty()) {
    text += flag.alone ? "[=" + Italic(flag.value) + "]" : " " + Italic(flag.value);
  }
  text += "\n" + Plain(flag.help) + ".\n";
  std::vector<std::string> facts;
  if (flag.required) facts.push_back("needed");
  if (!flag.range.empty()) facts.push_back(Plain(flag.range));
  if (!flag.otherwise.empty()) facts.push_back("default " + Bold(flag.otherwise));
  if (!flag.variable.empty()) facts.push_back("from " + Bold(flag.variable));
  if (!facts.empty()) text += "(" + absl::StrJoin(facts, "; ") + ")\n";
  return text;
}

std::string CommandEntry(const CommandText& command) {
  std::string text = ".SS \"ringwood " + Plain(command.name) + "\"\n" + Plain(command.help) + ".\n";
  for (const FlagText& flag : command.flags) text += FlagEntry(flag);
  if (!command.footer.empty()) text += ".PP\n" + Plain(command.footer) + "\n";
  return text;
}

}  // namespace

std::string ManualPage(const std::vector<CommandText>& commands, const std::string& version) {
  std::string page = ".TH RINGWOOD 1 \"\" \"Ringwood " + version + "\" \"User Commands\"\n";
  page += kBegin;
  page += ".SH COMMANDS\n";
  for (const CommandText& command : commands) page += CommandEntry(command);
  return page + kEnd;
}

}  // namespace ringwood

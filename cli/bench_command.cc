#include <cstdio>
#include <memory>
#include <sstream>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "cli/bench_sparse_command.h"
#include "cli/command.h"
#include "cli/flags/session_flags.h"
#include "cli/inner_run.h"
#include "measure/all_reduce_table.h"

namespace ringwood {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{4} << 30;

struct BenchFlags {
  BenchPlan plan;
  std::string bytes = "4K,64K,1M,16M";
  bool json = false;
  // With --workers this process starts the job; these are for `run`, as they stand.
  InnerRunFlags run;
  std::string wire, transport;
};

StatusOr<std::vector<uint64_t>> ParseSizes(const std::string& text) {
  std::vector<uint64_t> sizes;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    RW_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(item));
    if (bytes < sizeof(float) || bytes > kMaxBytes) {
      return Invalid(absl::StrFormat("--bytes: %s is not between 4 bytes and 4 GiB", item));
    }
    sizes.push_back(bytes);
  }
  if (sizes.empty()) return Invalid("--bytes is empty; give sizes such as 64K,1M");
  return sizes;
}

// A rank's.
Status Work(const CommandContext& context, BenchFlags& flags) {
  RW_ASSIGN_OR_RETURN(flags.plan.bytes, ParseSizes(flags.bytes));
  RW_ASSIGN_OR_RETURN(const BenchReport report, RunBench(flags.plan, context.environment));
  if (report.rank == 0) {
    std::fputs((flags.json ? ToJson(report) : ToText(report)).c_str(), stdout);
  }
  return OkStatus();
}

std::vector<std::string> RankArguments(const BenchFlags& flags) {
  std::vector<std::string> arguments = {"bench",
                                        "allreduce",
                                        "--bytes=" + flags.bytes,
                                        absl::StrFormat("--runs=%d", flags.plan.runs),
                                        absl::StrFormat("--turns=%d", flags.plan.turns),
                                        "--python=" + flags.plan.python};
  if (!flags.plan.peer.empty()) arguments.push_back("--peer=" + flags.plan.peer);
  if (flags.plan.adapt) arguments.push_back("--adapt");
  if (flags.json) arguments.push_back("--json");
  return arguments;
}

// A benchmark is `ringwood run` with this command as the program of each rank.
Status LaunchBench(CommandContext* context, const BenchFlags& flags) {
  RW_RETURN_IF_ERROR(ParseSizes(flags.bytes).status());
  return InnerRun(context, flags.run, {{"--wire", flags.wire}, {"--transport", flags.transport}},
                  RankArguments(flags));
}

void AddBenchFlags(Command command, BenchFlags* flags) {
  BenchPlan& plan = flags->plan;
  const auto add = [&](const char* names, auto* value, const char* takes, const char* help) {
    return command.Value(names, value, help).Takes(takes).ShowDefault();
  };
  add("--bytes,--sizes", &flags->bytes, "BYTES", "Measure tensors of these sizes, e.g. 64K,1M");
  add("--runs,--repeat", &plan.runs, "NUMBER", "Measure each size so often; 0: chosen by size")
      .Within(0, 100000);
  command
      .Value("--peer", &plan.peer,
             "Measure this in turn: PyTorch's gloo, or one ring of all ranks whatever the hosts")
      .OneOf({"gloo", "ring"});
  add("--turns", &plan.turns, "NUMBER", "Give each so many turns, with --peer").Within(1, 1000);
  add("--python", &plan.python, "COMMAND", "Run the peer by this Python, which has PyTorch");
  command.Switch("--adapt", &plan.adapt,
                 "Choose schedules by measured costs, as jobs with --adapt do");
  command.Switch("--json", &flags->json, "Print JSON instead of a table");
  AddInnerRunFlags(command, &flags->run)
      .Describe("Start this many ranks; without it be a rank of the job it runs in");
  AddSessionFlag(command, "wire", &flags->wire);
  AddSessionFlag(command, "transport", &flags->transport);
}

}  // namespace

void AddBenchCommand(Command app, CommandContext* context) {
  Command parent = app.Subcommand("bench", "Measure this network and machine");
  parent.NeedsSubcommand();
  AddBenchSelectCommand(parent, context);
  AddBenchSparseCommand(parent, context);
  Command command = parent.Subcommand(
      "allreduce", "Time dense all-reduces, in a job that this starts or the one it runs in");
  command.Footer(
      "Examples: ringwood bench allreduce --workers 4 --bytes 64K,1M\n"
      "          ringwood run -np 4 -- ringwood bench allreduce");
  auto flags = std::make_shared<BenchFlags>();
  AddBenchFlags(command, flags.get());
  command.Run(context, [context, flags] {
    return flags->run.workers > 0 ? LaunchBench(context, *flags) : Work(*context, *flags);
  });
}

}  // namespace ringwood

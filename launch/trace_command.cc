#include "launch/trace_command.h"

#include <cstdio>
#include <functional>
#include <memory>

#include "client/flight_record.h"
#include "launch/chart_file.h"
#include "launch/trace_file.h"
#include "launch/trace_merge.h"
#include "launch/trace_summary.h"

namespace ringwood {
namespace {

struct TraceFlags {
  std::vector<std::string> files;
  std::string output;
  bool json = false;
};

StatusOr<std::vector<RankTrace>> Aligned(const std::vector<std::string>& files) {
  RW_ASSIGN_OR_RETURN(std::vector<RankTrace> ranks, ReadTraceFiles(files));
  Align(&ranks);
  return ranks;
}

Status Merge(const TraceFlags& flags) {
  RW_ASSIGN_OR_RETURN(const std::vector<RankTrace> ranks, Aligned(flags.files));
  return WriteText(flags.output, MergedTrace(ranks));
}

Status Summary(const TraceFlags& flags) {
  RW_ASSIGN_OR_RETURN(const std::vector<RankTrace> ranks, Aligned(flags.files));
  RW_ASSIGN_OR_RETURN(const TraceSummary summary, Summarize(ranks));
  std::printf("%s", flags.json ? (ToJson(summary) + "\n").c_str() : ToText(summary).c_str());
  return OkStatus();
}

Status Flight(const TraceFlags& flags) {
  for (const std::string& file : flags.files) {
    RW_ASSIGN_OR_RETURN(const FlightContents contents, ReadFlight(file));
    std::printf("%s", ToText(contents).c_str());
  }
  return OkStatus();
}

CLI::App* Add(CLI::App* parent, CommandContext* context, const std::shared_ptr<TraceFlags>& flags,
              const std::string& name, const std::string& what,
              const std::function<Status(const TraceFlags&)>& run) {
  CLI::App* command = parent->add_subcommand(name, what);
  command->add_option("files", flags->files, "Files that the ranks wrote")->required();
  command->callback([context, flags, run] {
    const Status status = run(*flags);
    if (!status.ok()) FailCommand(context, status);
  });
  return command;
}

}  // namespace

void AddTraceCommand(CLI::App& app, CommandContext* context) {
  CLI::App* parent = app.add_subcommand("trace", "Read timelines and flight records");
  parent->require_subcommand(1);
  const auto flags = std::make_shared<TraceFlags>();
  CLI::App* merge =
      Add(parent, context, flags, "merge", "Several ranks' timelines as one, on one clock", Merge);
  merge->add_option("-o,--output", flags->output, "The merged file")->required();
  merge->footer("Example: ringwood trace merge -o job.json job.rank*.json");
  CLI::App* summary = Add(parent, context, flags, "summary",
                          "Overlap, exposed time, and the slowest rank with its reason", Summary);
  summary->add_flag("--json", flags->json, "One line of JSON");
  summary->footer("Example: ringwood trace summary job.rank*.json");
  Add(parent, context, flags, "flight", "The last events of a rank, dead or alive", Flight)
      ->footer("Example: ringwood trace flight job.rank2.flight");
}

}  // namespace ringwood

// `ringwood trace merge | summary | flight`: reads what ranks recorded.
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>

#include "cli/command.h"
#include "cli/pages/chart_file.h"
#include "timeline/file.h"
#include "timeline/flight_record.h"
#include "timeline/merge.h"
#include "timeline/summary.h"

namespace ringwood {
namespace {

struct TraceFlags {
  std::vector<std::string> files;
  std::string output;
  bool json = false;
};

StatusOr<std::vector<RankTimeline>> Aligned(const std::vector<std::string>& files) {
  RW_ASSIGN_OR_RETURN(std::vector<RankTimeline> ranks, ReadTimelineFiles(files));
  Align(&ranks);
  return ranks;
}

// With its name forgotten, "-o" takes the first file of a shell's pattern.
Status CheckOutput(const TraceFlags& flags) {
  const std::string& output = flags.output;
  constexpr char kRemedy[] =
      ": give the merged timeline a name of its own, as in ringwood trace merge -o job.json "
      "job.rank*.json";
  std::error_code error;
  for (const std::string& file : flags.files) {
    if (!std::filesystem::equivalent(output, file, error)) continue;
    return Invalid("-o " + output + " is one of the files to merge" + kRemedy);
  }
  if (!std::filesystem::is_regular_file(output, error)) return OkStatus();
  const auto there = ReadTimelineFiles({output});
  if (!there.ok() || there->size() != 1) return OkStatus();
  return Invalid("-o " + output + " is there and the timeline of one rank or server" + kRemedy);
}

Status MergeTimelines(const TraceFlags& flags) {
  RW_RETURN_IF_ERROR(CheckOutput(flags));
  RW_ASSIGN_OR_RETURN(const std::vector<RankTimeline> ranks, Aligned(flags.files));
  return WriteText(flags.output, MergedTimeline(ranks));
}

Status Summary(const TraceFlags& flags) {
  RW_ASSIGN_OR_RETURN(const std::vector<RankTimeline> ranks, Aligned(flags.files));
  RW_ASSIGN_OR_RETURN(const TimelineSummary summary, Summarize(ranks));
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

Command Add(Command parent, CommandContext* context, const std::shared_ptr<TraceFlags>& flags,
            const std::string& name, const std::string& what,
            const std::function<Status(const TraceFlags&)>& run) {
  Command command = parent.Subcommand(name, what);
  command.Value("files", &flags->files, "Read these files, which ranks and servers wrote")
      .Takes("FILE")
      .Required();
  command.Run(context, [context, flags, run] { return run(*flags); });
  return command;
}

}  // namespace

void AddTraceCommand(Command app, CommandContext* context) {
  Command parent = app.Subcommand("trace", "Read timelines and flight records of a run");
  parent.NeedsSubcommand();
  const auto flags = std::make_shared<TraceFlags>();
  Command merge = Add(parent, context, flags, "merge", "Merge timelines into one, on one clock",
                      MergeTimelines);
  merge.Value("-o,--output", &flags->output, "Write this file").Takes("FILE").Required();
  merge.Footer("Example: ringwood trace merge -o job.json job.rank*.json");
  Command summary = Add(parent, context, flags, "summary",
                        "Show overlap, exposed time, and the slowest rank or link", Summary);
  summary.Switch("--json", &flags->json, "Print one line of JSON");
  summary.Footer("Example: ringwood trace summary job.rank*.json");
  Add(parent, context, flags, "flight", "Show the last events of a rank, dead or alive", Flight)
      .Footer("Example: ringwood trace flight job.rank2.flight");
}

}  // namespace ringwood

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/table.h"
#include "base/units.h"
#include "cli/checkpoint_flags.h"
#include "cli/command.h"
#include "cli/watch/status_asker.h"
#include "cli/watch/top_screen.h"
#include "launch/signals.h"
#include "server/status/status_json.h"
#include "server/status/status_text.h"

namespace ringwood {
namespace {

struct StatusFlags {
  StatusQuestion question;
  bool json = false;
  double every_seconds = 1;  // of top, as the next
  bool once = false;
};

void AddQuestionFlags(Command command, StatusQuestion* question) {
  AddServerAccessFlags(command, "--coordinator,--server", "coordinator", &question->access);
  command.Value("--timeout", &question->timeout_seconds, "Wait this long for the answer")
      .Takes("SECONDS")
      .ShowDefault()
      .Within(0.1, 600.0);
}

Status ExecuteStatus(const CommandContext& context, const StatusFlags& flags) {
  RW_ASSIGN_OR_RETURN(const auto asker, StatusAsker::Open(context.environment, flags.question));
  RW_ASSIGN_OR_RETURN(const v1::StatusResponse status, asker->Ask());
  const std::string text = flags.json ? ToJson(status, 2) + "\n" : StatusText(status);
  std::fputs(text.c_str(), stdout);
  return OkStatus();
}

Status ExecuteTop(const CommandContext& context, const StatusFlags& flags) {
  // Before the connection has threads, which inherit that these are blocked.
  SignalDescriptor signals{SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT};
  RW_ASSIGN_OR_RETURN(const auto asker, StatusAsker::Open(context.environment, flags.question));
  const auto without = context.environment.find("NO_COLOR");  // https://no-color.org
  const bool color = without == context.environment.end() || without->second.empty();
  if (flags.once) return PrintTop(asker.get(), color);
  return RunTop(asker.get(), &signals, flags.every_seconds, color);
}

// "12 of 64 GiB", "12 GiB".
std::string Share(uint64_t bytes, uint64_t most) {
  const std::string used = FormatBytes(static_cast<double>(bytes));
  return most == 0 ? used : used + " of " + FormatBytes(static_cast<double>(most));
}

std::string JobsText(const v1::JobsResponse& jobs) {
  std::vector<std::vector<std::string>> rows = {
      {"JOB", "STATE", "RANKS", "EPOCH", "STEP", "STEPS/S", "STORE", "CALLS", "REFUSED", "IDLE"}};
  std::string notes;
  int open = 0;
  for (const v1::DeployedJob& job : jobs.jobs()) {
    open += job.phase() == "open";
    const bool known = job.phase() == "open" && !job.state().empty();
    const std::string state = known ? job.state() : job.phase();
    rows.push_back({job.name(), state, std::to_string(job.ranks()), std::to_string(job.epoch()),
                    std::to_string(job.step()), absl::StrFormat("%.2f", job.steps_per_second()),
                    Share(job.store_bytes(), job.max_store_bytes()), std::to_string(job.calls()),
                    std::to_string(job.refused_calls()), FormatSeconds(job.idle_seconds())});
    const std::string slowed =
        job.delayed_calls() == 0
            ? ""
            : std::to_string(job.delayed_calls()) +
                  " of its calls waited for their turn (calls= in --job-limits)";
    for (const std::string& note : {job.why(), job.waiting_for(), job.last_failure(), slowed}) {
      if (!note.empty()) notes += job.name() + ": " + note + "\n";
    }
  }
  if (jobs.most_jobs() > 0) {  // else the token is of one job
    notes += absl::StrFormat("%d of at most %d jobs are open\n", open, jobs.most_jobs());
  }
  return FormatTable(rows) + notes;
}

void PrintJobsJson(const v1::JobsResponse& jobs) {
  nlohmann::json all = nlohmann::json::array();
  for (const v1::DeployedJob& job : jobs.jobs()) {
    all.push_back({{"name", job.name()},
                   {"phase", job.phase()},
                   {"why", job.why()},
                   {"state", job.state()},
                   {"epoch", job.epoch()},
                   {"step", job.step()},
                   {"ranks", job.ranks()},
                   {"steps_per_second", job.steps_per_second()},
                   {"waiting_for", job.waiting_for()},
                   {"last_failure", job.last_failure()},
                   {"calls", job.calls()},
                   {"refused_calls", job.refused_calls()},
                   {"delayed_calls", job.delayed_calls()},
                   {"open_calls", job.open_calls()},
                   {"idle_seconds", job.idle_seconds()},
                   {"store_bytes", job.store_bytes()},
                   {"max_store_bytes", job.max_store_bytes()},
                   {"max_memory_bytes", job.max_memory_bytes()}});
  }
  nlohmann::json told = {{"jobs", std::move(all)}};
  if (jobs.most_jobs() > 0) told["most_jobs"] = jobs.most_jobs();
  PrintJson(told);
}

Status ExecuteJobs(const CommandContext& context, const StatusFlags& flags) {
  RW_ASSIGN_OR_RETURN(const auto asker, StatusAsker::Open(context.environment, flags.question));
  RW_ASSIGN_OR_RETURN(const v1::JobsResponse jobs, asker->AskJobs());
  if (flags.json) {
    PrintJobsJson(jobs);
  } else {
    std::fputs(JobsText(jobs).c_str(), stdout);
  }
  return OkStatus();
}

}  // namespace

void AddJobsCommand(Command app, CommandContext* context) {
  Command command = app.Subcommand("jobs", "List the jobs of a deployment");
  auto flags = std::make_shared<StatusFlags>();
  AddQuestionFlags(command, &flags->question);
  command.Switch("--json", &flags->json, "Print JSON");
  command.Run(context, [context, flags] { return ExecuteJobs(*context, *flags); });
}

void AddStatusCommand(Command app, CommandContext* context) {
  Command command = app.Subcommand("status", "Show the state of a job");
  auto flags = std::make_shared<StatusFlags>();
  AddQuestionFlags(command, &flags->question);
  command.Switch("--json", &flags->json, "Print JSON");
  command.Run(context, [context, flags] { return ExecuteStatus(*context, *flags); });
}

void AddTopCommand(Command app, CommandContext* context) {
  Command command =
      app.Subcommand("top", "Watch a job in the terminal: members, throughput, events; q ends");
  auto flags = std::make_shared<StatusFlags>();
  AddQuestionFlags(command, &flags->question);
  command.Value("--every", &flags->every_seconds, "Draw a frame this often")
      .Takes("SECONDS")
      .ShowDefault()
      .Within(0.1, 3600);
  command.Switch("--once", &flags->once, "Print one frame and exit");
  command.Run(context, [context, flags] { return ExecuteTop(*context, *flags); });
}

}  // namespace ringwood

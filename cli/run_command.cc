#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/session_flags.h"
#include "launch/run.h"
#include "launch/run_check.h"
#include "launch/supervisor.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxHostFile = 4 << 20;  // beyond it, it is not a hostfile

struct RunFlags {
  int ranks = 0;
  std::string hosts, host_file;
  std::string rsh = "ssh";
  std::string remote_program;
  std::vector<std::string> exports;
  bool no_server = false, dry_run = false;
  std::string resume_job;
  Environment session;  // AddSessionFlags
  RunOptions run;
};

StatusOr<std::vector<Host>> ReadHosts(const RunFlags& flags) {
  if (!flags.hosts.empty() && !flags.host_file.empty()) {
    return Invalid("both -H and --hostfile name the hosts; give one of them");
  }
  if (!flags.hosts.empty()) return ParseHosts(flags.hosts);
  if (flags.host_file.empty()) return std::vector<Host>{{"localhost", 0}};
  std::ifstream file(flags.host_file);
  std::string text(kMaxHostFile, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() == 0) {
    return NotFound(absl::StrFormat("--hostfile: cannot read %s, or it is empty", flags.host_file));
  }
  text.resize(file.gcount());
  return ParseHostFile(text, flags.host_file);
}

std::string HexToken() {
  return absl::StrFormat("%016x%016x%016x%016x", Unpredictable(), Unpredictable(), Unpredictable(),
                         Unpredictable());
}

Status CheckNumbers(const RunFlags& flags) {
  const RunOptions& run = flags.run;
  if (!flags.no_server && (run.servers < 1 || run.servers > kMaxRanks)) {
    return Invalid(absl::StrFormat("--servers must be 1 to %d", kMaxRanks));
  }
  if (!flags.resume_job.empty()) RW_RETURN_IF_ERROR(ParseJob(flags.resume_job).status());
  const bool resumes = !run.context.resume.empty() || !flags.resume_job.empty();
  if (resumes && run.store.empty() && !flags.no_server) {
    return Invalid("--resume needs --store DIR, the directory of the run to continue");
  }
  return OkStatus();
}

// The launcher acts on some of the ranks' options itself.
Status TakeSessionFlags(RunFlags* flags) {
  RW_ASSIGN_OR_RETURN(const SessionOptions given, SessionOptionsGiven(flags->session));
  RankContext& context = flags->run.context;
  context.network_interface = given.network_interface;
  context.port_range = given.port_range;
  context.trusted_fabric = given.trusted_fabric;
  context.transport = given.transport;
  context.freeze_plan = given.freeze_plan;
  context.save_plan = given.save_plan;
  context.profile = given.profile;
  context.log_level = flags->session.at("RINGWOOD_LOG_LEVEL");  // "": servers have another default
  context.join_timeout_seconds = flags->run.join_timeout_seconds = given.join_timeout_seconds;
  for (const auto& [variable, value] : flags->session) {
    if (!value.empty()) context.session[variable] = value;
  }
  return OkStatus();
}

Status Complete(const CommandContext& context, RunFlags* flags) {
  if (context.trailing.empty()) {
    return Invalid(
        "no command to run; write it last, after --: ringwood run -np 4 -- python train.py");
  }
  RW_RETURN_IF_ERROR(CheckNumbers(*flags));
  RunOptions& run = flags->run;
  run.command = context.trailing;
  run.directory = context.directory;
  RW_RETURN_IF_ERROR(TakeSessionFlags(flags));
  RW_ASSIGN_OR_RETURN(const std::vector<Host> hosts, ReadHosts(*flags));
  if (flags->ranks == 0 && flags->hosts.empty() && flags->host_file.empty()) {
    return Invalid("how many ranks? Give -np N, or hosts with their slots (-H h1:4,h2:4)");
  }
  RW_ASSIGN_OR_RETURN(run.places, PlaceRanks(hosts, flags->ranks));
  RW_RETURN_IF_ERROR(CheckNetwork(run));
  std::istringstream words(flags->rsh);
  for (std::string word; words >> word;) run.reach.remote_shell.push_back(word);
  if (run.reach.remote_shell.empty()) return Invalid("--rsh is empty; give a command such as ssh");
  run.reach.program = context.program;
  run.reach.remote_program =
      flags->remote_program.empty() ? context.program : flags->remote_program;
  run.reach.environment = context.environment;
  run.context.world = run.ranks();
  if (!flags->resume_job.empty()) {
    if (run.context.resume.empty()) run.context.resume = "1";
    RW_ASSIGN_OR_RETURN(run.context.job, ParseJob(flags->resume_job));
  } else if (run.context.resume.empty()) {
    run.context.job = Unpredictable() | 1;  // so that a restart continues this job and no other
  }
  run.context.token = HexToken();
  if (flags->no_server) run.servers = 0;
  RW_RETURN_IF_ERROR(CheckRemoteProgram(run));
  RankContext& files = run.context;
  for (std::string* name : {&run.store, &files.report, &files.freeze_plan, &files.save_plan,
                            &files.profile, &files.timeline, &files.flight_record}) {
    if (!name->empty()) *name = fs::absolute(*name);
  }
  std::error_code error;
  for (std::string* name : {&files.timeline, &files.flight_record}) {
    if (fs::is_directory(*name, error) && name->back() != '/') *name += '/';
  }
  return CheckFiles(run);
}

// Names that the ranks get on top of what they inherit; "NAME" alone takes the launcher's value.
StatusOr<Environment> Exports(const CommandContext& context, const RunFlags& flags) {
  Environment result;
  if (!context.environment.count("PYTHONUNBUFFERED")) result["PYTHONUNBUFFERED"] = "1";
  for (const std::string& text : flags.exports) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const auto found = context.environment.find(name);
    if (name.empty() || (equals == std::string::npos && found == context.environment.end())) {
      return Invalid(absl::StrFormat("-x %s: no such variable here; write -x NAME=VALUE", text));
    }
    result[name] = equals == std::string::npos ? found->second : text.substr(equals + 1);
  }
  return result;
}

void PrintPlan(const RunOptions& run) {
  std::printf("servers: %d%s\n", run.servers,
              run.servers > 0 ? (", the first on host " + run.places[0].host).c_str() : "");
  if (run.servers > 0)
    std::printf("store: %s\n", run.store.empty() ? "temporary" : run.store.c_str());
  for (const HostRanks& place : run.places) {
    std::printf("host %s: ranks %d..%d", place.host.c_str(), place.first_rank,
                place.first_rank + place.count - 1);
    if (place.host != "localhost") {
      std::printf(" by %s %s %s worker -", absl::StrJoin(run.reach.remote_shell, " ").c_str(),
                  place.host.c_str(), run.reach.remote_program.c_str());
    }
    std::printf("\n");
  }
  std::printf("command: %s\n", absl::StrJoin(run.command, " ").c_str());
}

// The first host makes it (agent.h) and the job removes it there. Its name cannot be guessed.
std::string TemporaryStore(const CommandContext& context, const RunOptions& run) {
  const auto found = context.environment.find("TMPDIR");
  const bool here = run.places[0].host == "localhost" && found != context.environment.end();
  return absl::StrFormat("%s/ringwood-%016x%016x", here ? found->second : "/tmp", Unpredictable(),
                         Unpredictable());
}

Status ExecuteRun(CommandContext* context, RunFlags* flags) {
  RW_RETURN_IF_ERROR(Complete(*context, flags));
  RW_ASSIGN_OR_RETURN(flags->run.environment, Exports(*context, *flags));
  RW_RETURN_IF_ERROR(CheckText(flags->run));
  if (flags->dry_run) {
    PrintPlan(flags->run);
    return OkStatus();
  }
  if (flags->run.store.empty() && flags->run.servers > 0) {
    flags->run.store = TemporaryStore(*context, flags->run);
    flags->run.temporary_store = true;
  }
  context->exit_code = RunJob(flags->run);
  return OkStatus();
}

void AddHostFlags(Command command, RunFlags* flags) {
  command.Value("-n,--num-proc", &flags->ranks, "Ranks in all (also -np)");
  command.Value("-H,--hosts", &flags->hosts, "h1:4,h2:4 (localhost: this machine)");
  command.Value("--hostfile", &flags->host_file, "File of lines \"NAME slots=N\"");
  command.Value("--rsh", &flags->rsh, "Remote shell, called as RSH HOST ringwood worker -")
      .ShowDefault();
  command.Value("--remote-program", &flags->remote_program,
                "ringwood on the other hosts (default: this program's path)");
  command.Value("-x,--export", &flags->exports, "Give the ranks NAME or NAME=VALUE (repeatable)");
}

void AddStoreFlags(Command command, RunFlags* flags) {
  RunOptions& run = flags->run;
  command.Value("--store", &run.store, "Directory of the checkpoints (default: temporary)");
  command
      .Word("--resume", "1", &run.context.resume,
            "Continue from the newest checkpoint in --store, which must be there; with "
            "--resume=auto a new job begins where there is none")
      .OneOf({"1", "auto"});
  command.Value("--resume-job", &flags->resume_job,
                "Continue this job of --store, as `ringwood checkpoint list` names it");
  command.Value("--checkpoint-every", &run.context.checkpoint_every, "Steps between checkpoints")
      .AtLeast(0);
}

void AddJobFlags(Command command, RunFlags* flags) {
  RunOptions& run = flags->run;
  command.Value("--servers", &run.servers, "Server processes (reducers of the sparse tree)")
      .ShowDefault();
  command
      .Value("--max-memory", &run.max_memory,
             "Servers refuse a job whose reducer may need more, as 4G (default: no limit)")
      .Check([](const std::string& text) { return Message(ParseBytes(text).status()); });
  AddStoreFlags(command, flags);
  command.Value("--max-restarts", &run.max_restarts, "Restarts of all after a failure")
      .ShowDefault()
      .AtLeast(0);
  command.Switch("--restart-on-failure", &run.restart_on_failure,
                 "Restart also where the command itself fails (any code but 78, 126 and 127)");
  command.Value("--report", &run.context.report, "JSON file that rank 0 writes at the end");
  command.Value("--timeline,--timeline-filename", &run.context.timeline,
                "Every rank's and server's timeline: NAME.rankN.json, NAME.serverN.json, or "
                "rankN.json in a directory");
  command.Value("--flight-record", &run.context.flight_record,
                "Every rank's last events, which survive its death: NAME.rankN.flight");
  command
      .Value("--failure-timeout", &run.failure_timeout_seconds,
             "Seconds of silence after which a process is dead")
      .ShowDefault()
      .Within(0.01, 3600);
  command
      .Value("--stall-timeout", &run.stall_timeout_seconds,
             "Seconds in which no rank moves after which the job ends (0: only a warning)")
      .ShowDefault()
      .Within(0, 1e6);
  command.Value("--output-filename", &run.output_prefix,
                "Also write every process's output to PREFIX.rankN.log");
  command.Switch("--dry-run", &flags->dry_run, "Say what would run where, and end");
  command.Switch("--no-server", &flags->no_server,
                 "Only launch; RINGWOOD_COORDINATOR is given by you");
}

}  // namespace

void AddRunCommand(Command app, CommandContext* context) {
  Command command = app.Subcommand("run", "Run a command as the ranks of a job");
  command.Footer("Example: ringwood run -np 4 -- python train.py");
  auto flags = std::make_shared<RunFlags>();
  AddHostFlags(command, flags.get());
  AddJobFlags(command, flags.get());
  AddSessionFlags(command, &flags->session);
  command.Run(context, [context, flags] { return ExecuteRun(context, flags.get()); });
}

}  // namespace ringwood

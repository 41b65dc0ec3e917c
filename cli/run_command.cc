#include <unistd.h>

#include <algorithm>
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
#include "cli/flags/session_flags.h"
#include "launch/host_list.h"
#include "launch/run.h"
#include "launch/run_check.h"
#include "proto/job_token.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

struct RunFlags {
  int ranks = 0;
  std::string hosts, host_file;
  std::string rsh = "ssh";
  std::string remote_program;
  std::vector<std::string> exports;
  bool no_server = false, dry_run = false;
  bool tls = false;
  std::string resume_job;
  int max_restarts = -1;  // not given
  bool elastic = false;
  ElasticRun elastic_run;
  Environment session;  // AddSessionFlags
  RunOptions run;
};

Status CheckNumbers(const RunFlags& flags) {
  const RunOptions& run = flags.run;
  const int least = flags.elastic ? 0 : 1;
  if (!flags.no_server && (run.servers < least || run.servers > kMaxRanks)) {
    return Invalid(absl::StrFormat("--servers must be %d to %d", least, kMaxRanks));
  }
  const int most_stores = run.servers + (flags.elastic ? 1 : 0);  // the coordinator's own
  if (run.stores > 1 && (flags.no_server || run.stores > most_stores)) {
    return Invalid(absl::StrFormat(
        "--stores %d: each server keeps one store at most, and there are %d (--servers)",
        run.stores, flags.no_server ? 0 : most_stores));
  }
  if (run.stores > 1 && run.store.empty()) {
    return Invalid("--stores needs --store DIR, the directory in which each of them is");
  }
  if (flags.no_server && !run.http.empty()) {
    return Invalid("--http belongs to the server: give it to the one that you started");
  }
  if (!flags.resume_job.empty()) RW_RETURN_IF_ERROR(ParseJob(flags.resume_job).status());
  const bool resumes = !run.context.resume.empty() || !flags.resume_job.empty();
  if (resumes && run.store.empty() && !flags.no_server) {
    return Invalid("--resume needs --store DIR, the directory of the run to continue");
  }
  return OkStatus();
}

// Spares are the last of the ranks that are placed. All processes ask to continue where there is
// something: one that is started again must not begin the job anew, nor differ from the others.
Status CompleteElastic(RunFlags* flags) {
  RunOptions& run = flags->run;
  run.max_restarts = std::max(flags->max_restarts, 0);
  if (!flags->elastic) return OkStatus();
  ElasticRun& elastic = flags->elastic_run;
  if (flags->max_restarts >= 0) elastic.restarts = flags->max_restarts;
  run.context.world -= elastic.spares;
  if (run.context.world < 1) {
    return Invalid(absl::StrFormat("--spares %d leaves no rank of the %d slots of the hosts",
                                   elastic.spares, run.ranks()));
  }
  if (elastic.min_ranks > run.context.world) {
    return Invalid(absl::StrFormat("--min-np %d is more than the %d ranks of the job",
                                   elastic.min_ranks, run.context.world));
  }
  if (elastic.max_ranks > 0 && elastic.max_ranks < run.context.world) {
    return Invalid(absl::StrFormat("--max-np %d is less than the %d ranks of the job",
                                   elastic.max_ranks, run.context.world));
  }
  if (run.context.resume.empty()) run.context.resume = "auto";
  run.elastic = elastic;
  return OkStatus();
}

// The launcher acts on some of the ranks' options itself.
Status TakeSessionFlags(RunFlags* flags) {
  RW_ASSIGN_OR_RETURN(const SessionOptions given, SessionOptionsGiven(flags->session));
  RankContext& context = flags->run.context;
  flags->run.coordinator_grace_seconds = given.coordinator_grace_seconds;
  context.network_interface = given.network_interface;
  context.port_range = given.port_range;
  context.trusted_fabric = given.trusted_fabric;
  context.transport = given.transport;
  context.freeze_plan = given.freeze_plan;
  context.save_plan = given.save_plan;
  context.profile = given.profile;
  flags->run.json_log = given.log_format == "json";
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
  RW_ASSIGN_OR_RETURN(const std::vector<Host> hosts, HostsGiven(flags->hosts, flags->host_file));
  if (flags->ranks == 0 && flags->hosts.empty() && flags->host_file.empty()) {
    return Invalid("how many ranks? Give -np N, or hosts with their slots (-H h1:4,h2:4)");
  }
  // A number that is none is refused there; 0 takes the slots of the hosts, spares included.
  const int spares = flags->ranks > 0 ? flags->elastic_run.spares : 0;
  RW_ASSIGN_OR_RETURN(run.places, PlaceRanks(hosts, flags->ranks + spares));
  RW_RETURN_IF_ERROR(CheckNetwork(run));
  run.tls = !flags->no_server && (flags->tls || !OnLoopback(run));
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
  RW_RETURN_IF_ERROR(CompleteElastic(flags));
  run.context.token = NewSecret();
  run.lone_coordinator = flags->elastic && !flags->no_server;
  if (run.lone_coordinator) ++run.servers;
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
  std::printf("servers: %d%s\n", run.reducers(),
              run.lone_coordinator ? (", and a coordinator on host " + run.places[0].host).c_str()
              : run.servers > 0    ? (", the first on host " + run.places[0].host).c_str()
                                   : "");
  if (run.servers > 0)
    std::printf("store: %s%s\n", run.store.empty() ? "temporary" : run.store.c_str(),
                run.stores > 1 ? (" of " + FormatCount(run.stores, "server")).c_str() : "");
  for (const HostRanks& place : run.places) {
    std::printf("host %s: ranks %d..%d", place.host.c_str(), place.first_rank,
                place.first_rank + place.count - 1);
    if (place.host != "localhost") {
      std::printf(" by %s %s %s worker -", absl::StrJoin(run.reach.remote_shell, " ").c_str(),
                  place.host.c_str(), run.reach.remote_program.c_str());
    }
    std::printf("\n");
  }
  if (run.elastic) {
    std::printf("elastic: goes on with %s or more; %d of the ranks are spares\n",
                FormatCount(run.elastic->min_ranks, "rank").c_str(), run.elastic->spares);
  }
  std::printf("command: %s\n", absl::StrJoin(run.command, " ").c_str());
}

// The first host makes it (agent.h) and the job removes it there. Its name cannot be guessed.
std::string TemporaryStore(const CommandContext& context, const RunOptions& run) {
  const auto found = context.environment.find("TMPDIR");
  const bool here = run.places[0].host == "localhost" && found != context.environment.end() &&
                    !found->second.empty();
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

void AddPlaceFlags(Command command, RunFlags* flags) {
  RunOptions& run = flags->run;
  const auto add = [&](const char* names, auto* value, const char* takes, const char* help) {
    return command.Value(names, value, help).Takes(takes).Group("Hosts and processes");
  };
  add("-n,--num-proc", &flags->ranks, "NUMBER",
      "Start this many ranks (also -np); without it as many as the hosts have slots");
  add("-H,--hosts", &flags->hosts, "HOSTS",
      "Start the ranks on these hosts with so many slots, e.g. h1:4,h2:4; localhost is this "
      "machine, "
      "and the default");
  add("--hostfile", &flags->host_file, "FILE",
      "Read the hosts from this file, a line NAME slots=N for each");
  add("--rsh", &flags->rsh, "COMMAND",
      "Reach other hosts by this remote shell, called as COMMAND HOST ringwood worker -")
      .ShowDefault();
  add("--remote-program", &flags->remote_program, "PATH",
      "Call this ringwood on the other hosts; without it this program's path");
  add("-x,--export", &flags->exports, "NAME[=VALUE]",
      "Give the ranks this variable (repeatable); without VALUE the launcher's own");
  add("--servers", &run.servers, "NUMBER",
      "Start this many servers; each is a reducer, the first coordinates and keeps the store. With "
      "--elastic a process of its own does, and there may be none")
      .ShowDefault();
  add("--max-memory", &run.max_memory, "BYTES",
      "Refuse a job whose reducers may need more memory than this in a server, e.g. 4G; without "
      "it there is no limit")
      .Check([](const std::string& text) { return Message(ParseBytes(text).status()); });
  command
      .Switch(
          "--tls", &flags->tls,
          "Give each process a certificate, and connect them under mutual TLS; off loopback they "
          "are without this flag")
      .Group("Hosts and processes");
  command
      .Switch("--no-server", &flags->no_server,
              "Start no server: you set RINGWOOD_COORDINATOR to one that runs")
      .Group("Hosts and processes");
  command.Switch("--dry-run", &flags->dry_run, "Print the placement and exit")
      .Group("Hosts and processes");
}

void AddStoreFlags(Command command, RunFlags* flags) {
  RunOptions& run = flags->run;
  const auto add = [&](Flag flag) { return flag.Group("Checkpoints"); };
  add(command.Value("--store", &run.store,
                    "Keep checkpoints and coordinator state in this directory of the first host; "
                    "without it in a temporary one"))
      .Takes("DIRECTORY");
  add(command.Value("--stores", &run.stores,
                    "Divide each checkpoint among so many servers, each of which keeps its part in "
                    "--store of its own host; a job is resumed with all of them"))
      .Takes("NUMBER")
      .Within(1, kMaxRanks)
      .ShowDefault();
  add(command.Word("--resume", "1", &run.context.resume,
                   "Continue from the newest checkpoint in --store, which must exist; with "
                   "--resume=auto start a new job where there is none"))
      .OneOf({"1", "auto"});
  add(command.Value("--resume-job", &flags->resume_job,
                    "Continue this job of --store, as `ringwood checkpoint list` names it"))
      .Takes("JOB");
  add(command.Word(
          "--update-log", "on", &run.update_log,
          "Keep what each committed step changed in the store, so that a resumed job loses "
          "none; with --update-log=fsync also where the machine loses power"))
      .OneOf({"on", "fsync"});
  add(command.Value("--keep-checkpoints", &run.keep_checkpoints,
                    "Keep this many of the newest good checkpoints of a job"))
      .Takes("NUMBER")
      .AtLeast(2)
      .ShowDefault();
  add(command.Value("--keep-every", &run.keep_every,
                    "Keep the first checkpoint from each multiple of this many steps on for ever; "
                    "0: only the newest"))
      .Takes("STEPS")
      .AtLeast(0)
      .ShowDefault();
  add(command.Value("--checkpoint-every", &run.context.checkpoint_every,
                    "Make a checkpoint after this many steps (the trainer reads it)"))
      .Takes("STEPS")
      .AtLeast(0);
}

void AddFailureFlags(Command command, RunFlags* flags) {
  RunOptions* const run = &flags->run;
  const auto add = [&](const char* name, auto* value, const char* takes, const char* help) {
    return command.Value(name, value, help).Takes(takes).ShowDefault().Group("Failures");
  };
  add("--max-restarts", &flags->max_restarts, "NUMBER",
      "Restart all ranks after a failure, at most this many times; with --elastic also each rank "
      "by itself, so often within ten minutes, 10 times where this is not given")
      .AtLeast(0)
      .Default("0");
  command
      .Switch("--restart-on-failure", &run->restart_on_failure,
              "Restart also when the command itself fails (any code but 78, 126 and 127)")
      .Group("Failures");
  add("--failure-timeout", &run->failure_timeout_seconds, "SECONDS",
      "Count a process as dead after this much silence")
      .Within(0.01, 3600);
  add("--grace", &run->grace_seconds, "SECONDS",
      "After a SIGTERM let the ranks run on for this long, in which they save a last checkpoint "
      "and "
      "end with 75")
      .Within(3, 86'400);
  add("--stall-timeout", &run->stall_timeout_seconds, "SECONDS",
      "End the job when no rank makes progress for so long; 0: only warn")
      .Within(0, 1e6);
}

void AddElasticRunFlags(Command command, RunFlags* flags) {
  ElasticRun* const run = &flags->elastic_run;
  const Flag elastic =
      command
          .Switch("--elastic", &flags->elastic,
                  "Let the others go on when a process ends, and start it again by itself")
          .Group("Elastic jobs");
  const auto add = [&](const char* name, auto* value, const char* takes, const char* help) {
    return command.Value(name, value, help).Takes(takes).Group("Elastic jobs").Needs(elastic);
  };
  add("--min-np", &run->min_ranks, "NUMBER",
      "Go on with this many ranks at least; with fewer wait for others for --join-timeout, "
      "then fail")
      .Within(1, kMaxRanks)
      .ShowDefault();
  add("--max-np", &run->max_ranks, "NUMBER",
      "Let this many ranks take part at most; without it as many as the job began with")
      .Within(1, kMaxRanks);
  add("--spares", &run->spares, "NUMBER",
      "Start this many processes more, which wait until a rank fails and take its place")
      .Within(0, kMaxRanks);
  add("--straggler-grace", &run->straggler_grace_seconds, "SECONDS",
      "Go on without a rank whose gradients are ready later than those of half of the others by "
      "more than this, until it has caught up; 0: wait for it")
      .Within(0, 3600)
      .ShowDefault();
  add("--host-failures", &run->host_failures, "NUMBER",
      "Set a host aside whose processes fail this often within a minute, unless it is the last "
      "one; 0: never")
      .AtLeast(0)
      .ShowDefault();
  add("--host-cooldown", &run->host_cooldown_seconds, "SECONDS",
      "Start nothing on a host that was set aside for this long")
      .Within(0.01, 86'400)
      .ShowDefault();
}

void AddOutputFlags(Command command, RunOptions* run) {
  const auto add = [&](const char* names, std::string* value, const char* takes, const char* help) {
    command.Value(names, value, help).Takes(takes).Group("Output");
  };
  add("--report", &run->context.report, "FILE", "Let rank 0 write a JSON summary at the end");
  add("--output-filename", &run->output_prefix, "PREFIX",
      "Write every process's output also to PREFIX.rankN.log and PREFIX.serverN.log");
  add("--http", &run->http, "ADDRESS",
      "Serve the job's status page, /status.json and /metrics at this HOST:PORT of the first host; "
      "off loopback behind the job's token");
  add("--http-tls", &run->http_tls, "DIRECTORY",
      "Serve the status page as HTTPS, with cert.pem and key.pem of this directory of the first "
      "host");
  add("--timeline,--timeline-filename", &run->context.timeline, "NAME",
      "Write timelines of all ranks and servers: NAME.rankN.json and NAME.serverN.json, or in the "
      "directory NAME");
  add("--flight-record", &run->context.flight_record, "NAME",
      "Keep every rank's last events in NAME.rankN.flight, also when it is killed");
}

}  // namespace

void AddRunCommand(Command app, CommandContext* context) {
  Command command = app.Subcommand("run", "Run a command as the ranks of a job");
  command.Footer("Example: ringwood run -np 4 -- python train.py");
  auto flags = std::make_shared<RunFlags>();
  AddPlaceFlags(command, flags.get());
  AddStoreFlags(command, flags.get());
  AddFailureFlags(command, flags.get());
  AddElasticRunFlags(command, flags.get());
  AddOutputFlags(command, &flags->run);
  AddSessionFlags(command, &flags->session);
  command.Run(context, [context, flags] { return ExecuteRun(context, flags.get()); });
}

}  // namespace ringwood

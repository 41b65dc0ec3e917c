#include "cli/run/given_options.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/random.h"
#include "cli/flags/session_flags.h"
#include "client/options/options.h"
#include "launch/host_list.h"
#include "launch/run_check.h"
#include "launch/run_jobs.h"
#include "proto/job_token.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

// `run` has its servers.
Status CheckNumbers(const RunFlags& flags, const RunOptions& run) {
  const int least = flags.elastic ? 0 : 1;
  if (!flags.no_server && (run.servers < least || run.servers > kMostServers)) {
    return Invalid(absl::StrFormat("--servers must be %d to %d", least, kMostServers));
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
Status CompleteElastic(const RunFlags& flags, RunOptions* run) {
  run->max_restarts = std::max(flags.max_restarts, 0);
  if (!flags.elastic) return OkStatus();
  ElasticRun elastic = flags.elastic_run;
  if (flags.max_restarts >= 0) elastic.restarts = flags.max_restarts;
  run->context.world -= elastic.spares;
  if (run->context.world < 1) {
    return Invalid(absl::StrFormat("--spares %d leaves no rank of the %d slots of the hosts",
                                   elastic.spares, run->ranks()));
  }
  if (elastic.min_ranks > run->context.world) {
    return Invalid(absl::StrFormat("--min-np %d is more than the %d ranks of the job",
                                   elastic.min_ranks, run->context.world));
  }
  if (elastic.max_ranks > 0 && elastic.max_ranks < run->context.world) {
    return Invalid(absl::StrFormat("--max-np %d is less than the %d ranks of the job",
                                   elastic.max_ranks, run->context.world));
  }
  if (run->context.resume.empty()) run->context.resume = "auto";
  run->elastic = elastic;
  return OkStatus();
}

// The launcher acts on some of the ranks' options itself.
Status TakeSessionFlags(const Environment& session, RunOptions* run) {
  RW_ASSIGN_OR_RETURN(const SessionOptions given, SessionOptionsGiven(session));
  RankContext& context = run->context;
  run->coordinator_grace_seconds = given.coordinator_grace_seconds;
  context.network_interface = given.network_interface;
  context.port_range = given.port_range;
  context.trusted_fabric = given.trusted_fabric;
  context.transport = given.transport;
  context.freeze_plan = given.freeze_plan;
  context.save_plan = given.save_plan;
  context.profile = given.profile;
  run->json_log = given.log_format == "json";
  context.log_level = session.at("RINGWOOD_LOG_LEVEL");  // "": servers have another default
  context.join_timeout_seconds = run->join_timeout_seconds = given.join_timeout_seconds;
  for (const auto& [variable, value] : session) {
    if (!value.empty()) context.session[variable] = value;
  }
  return OkStatus();
}

// Files and the store get absolute names. Where many files are written into a directory, its name
// ends with a slash.
void CompleteNames(RunOptions* run) {
  RankContext& files = run->context;
  for (std::string* name : {&run->store, &files.report, &files.freeze_plan, &files.save_plan,
                            &files.profile, &files.timeline, &files.flight_record}) {
    if (!name->empty()) *name = fs::absolute(*name);
  }
  std::error_code error;
  for (std::string* name : {&files.timeline, &files.flight_record}) {
    if (fs::is_directory(*name, error) && name->back() != '/') *name += '/';
  }
}

// Variables that the ranks get on top of what they inherit; "NAME" alone takes the launcher's
// value.
StatusOr<Environment> Exports(const CommandContext& context,
                              const std::vector<std::string>& exports) {
  Environment result;
  if (!context.environment.count("PYTHONUNBUFFERED")) result["PYTHONUNBUFFERED"] = "1";
  for (const std::string& text : exports) {
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

}  // namespace

StatusOr<RunOptions> RunOptionsGiven(const CommandContext& context, const RunFlags& flags) {
  if (context.trailing.empty()) {
    return Invalid(
        "no command to run; write it last, after --: ringwood run -np 4 -- python train.py");
  }
  RunOptions run = flags.run;
  run.command = context.trailing;
  run.directory = context.directory;
  RW_RETURN_IF_ERROR(TakeSessionFlags(flags.session, &run));
  RW_ASSIGN_OR_RETURN(const std::vector<Host> hosts, HostsGiven(flags.hosts, flags.host_file));
  if (flags.ranks == 0 && flags.hosts.empty() && flags.host_file.empty()) {
    return Invalid("how many ranks? Give -np N, or hosts with their slots (-H h1:4,h2:4)");
  }
  // A number that is none is refused there; 0 takes the slots of the hosts, spares included.
  const int spares = flags.ranks > 0 ? flags.elastic_run.spares : 0;
  RW_ASSIGN_OR_RETURN(run.places, PlaceRanks(hosts, flags.ranks + spares));
  // Where a host has none, each of its workers sends to the other hosts' (sparse/tree.h).
  run.servers = flags.servers >= 0 ? flags.servers : ServersOn(run.places.size());
  RW_RETURN_IF_ERROR(CheckNumbers(flags, run));
  RW_RETURN_IF_ERROR(CheckNetwork(run));
  run.tls = !flags.no_server && (flags.tls || !OnLoopback(run));
  std::istringstream words(flags.rsh);
  for (std::string word; words >> word;) run.reach.remote_shell.push_back(word);
  if (run.reach.remote_shell.empty()) return Invalid("--rsh is empty; give a command such as ssh");
  run.reach.program = context.program;
  run.reach.remote_program = flags.remote_program.empty() ? context.program : flags.remote_program;
  run.reach.environment = context.environment;
  run.reach.start_seconds = StartSeconds(run);
  run.context.world = run.ranks();
  if (!flags.resume_job.empty()) {
    if (run.context.resume.empty()) run.context.resume = "1";
    RW_ASSIGN_OR_RETURN(run.context.job, ParseJob(flags.resume_job));
  } else if (run.context.resume.empty()) {
    run.context.job = Unpredictable() | 1;  // so that a restart continues this job and no other
  }
  RW_RETURN_IF_ERROR(CompleteElastic(flags, &run));
  run.context.token = NewSecret();
  run.lone_coordinator = flags.elastic && !flags.no_server;
  if (run.lone_coordinator) ++run.servers;
  if (flags.no_server) run.servers = 0;
  RW_RETURN_IF_ERROR(CheckRemoteProgram(run));
  CompleteNames(&run);
  RW_RETURN_IF_ERROR(CheckFiles(run));
  RW_ASSIGN_OR_RETURN(run.environment, Exports(context, flags.exports));
  RW_RETURN_IF_ERROR(CheckText(run));
  return run;
}

}  // namespace ringwood

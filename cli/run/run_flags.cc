#include "cli/run/run_flags.h"

#include "base/units.h"
#include "cli/flags/session_flags.h"

namespace ringwood {
namespace {

void AddPlaceFlags(Command command, RunFlags* flags) {
  RunOptions& run = flags->run;
  const auto add = [&](const char* names, auto* value, const char* takes, const char* help) {
    return command.Value(names, value, help).Takes(takes).Group("Hosts and processes");
  };
  add("-n,--num-proc", &flags->ranks, "NUMBER",
      "Start this many ranks (also -np); without it as many as the hosts have slots");
  add("-H,--hosts", &flags->hosts, "HOSTS",
      "Start the ranks on these hosts with so many slots, e.g. h1:4,h2:4; localhost is this "
      "machine, and the default");
  add("--hostfile", &flags->host_file, "FILE",
      "Read the hosts from this file, a line NAME slots=N for each");
  add("--rsh", &flags->rsh, "COMMAND",
      "Reach other hosts by this remote shell, called as COMMAND HOST ringwood worker -")
      .ShowDefault();
  add("--remote-program", &flags->remote_program, "PATH",
      "Call this ringwood on the other hosts; without it this program's path");
  add("-x,--export", &flags->exports, "NAME[=VALUE]",
      "Give the ranks this variable (repeatable); without VALUE the launcher's own");
  add("--servers", &flags->servers, "NUMBER",
      "Start this many servers, without it one on each host, 256 at most; each is a reducer, the "
      "first coordinates and keeps the store. With --elastic a process of its own does, and there "
      "may be none")
      .AtLeast(0);
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

void AddCheckpointFlags(Command command, RunFlags* flags) {
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
      "and end with 75")
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

void AddOutputFlags(Command command, RunFlags* flags) {
  RunOptions* const run = &flags->run;
  const auto add = [&](const char* names, std::string* value, const char* takes, const char* help) {
    command.Value(names, value, help).Takes(takes).NotEmpty().Group("Output");
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

void AddRunFlags(Command command, RunFlags* flags) {
  AddPlaceFlags(command, flags);
  AddCheckpointFlags(command, flags);
  AddFailureFlags(command, flags);
  AddElasticRunFlags(command, flags);
  AddOutputFlags(command, flags);
  AddSessionFlags(command, &flags->session);
}

}  // namespace ringwood

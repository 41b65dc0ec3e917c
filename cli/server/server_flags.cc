#include "cli/server/server_flags.h"

#include "base/net/endpoint.h"
#include "cli/flags/access_flags.h"
#include "cli/flags/session_flags.h"
#include "launch/hosts.h"

namespace ringwood {
namespace {

// Of "HOST:PORT", or several of which one leads. "": this server coordinates.
std::string CoordinatorProblem(const std::string& addresses) {
  return addresses.empty() ? "" : Message(CheckEndpoints(addresses));
}

void AddTimeoutFlags(Command command, ServerOptions* server) {
  const auto add = [&](const char* name, double* value, const char* help) {
    return command.Value(name, value, help).Takes("SECONDS");
  };
  add("--failure-timeout", &server->failure_timeout_seconds,
      "Count a member as dead after this much silence")
      .Within(0.5, 3600)
      .ShowDefault();
  add("--join-timeout", &server->join_timeout_seconds, "Wait this long until all members are there")
      .From("RINGWOOD_JOIN_TIMEOUT")
      .Above(0)
      .ShowDefault();
  add("--stall-timeout", &server->stall_timeout_seconds,
      "End the job when no rank makes progress for so long; 0: only warn")
      .Within(0, 1e6)
      .ShowDefault();
  add("--coordinator-grace", &server->coordinator_grace_seconds,
      "As a further reducer, serve on this long while the coordinator is lost; -1: 30 in an "
      "elastic job, else 0")
      .Within(-1, 86'400)
      .ShowDefault();
  add("--reattach-grace", &server->reattach_grace_seconds,
      "Started again, wait this long for the members of the epoch on record; without it 30 with "
      "--store or --coord-store, else 0")
      .Within(0, 3600);
  add("--store-patience", &server->store_patience_seconds,
      "Wait this long for a store that another server holds; without it refuse such a store, or "
      "with "
      "--coord-store wait for as long as this server leads")
      .Within(0, 86'400);
}

void AddElasticFlags(Command command, ServerOptions* server) {
  command.Switch("--elastic", &server->elastic,
                 "Go on within the job when a member fails: those that are left join again");
  command
      .Value("--min-np", &server->min_world,
             "With --elastic: wait for more workers, or end, below so many")
      .Takes("NUMBER")
      .Within(1, kMaxRanks)
      .ShowDefault();
  command
      .Value(
          "--max-np", &server->max_world,
          "With --elastic: let so many workers take part, others wait; without it as many as the "
          "job was started with")
      .Takes("NUMBER")
      .Within(1, kMaxRanks);
  command
      .Value("--straggler-grace", &server->straggler_grace_seconds,
             "With --elastic: go on without a rank whose gradients are ready later than those of "
             "half of the others by more than this, until it has caught up; 0: wait for it")
      .Takes("SECONDS")
      .Within(0, 3600)
      .ShowDefault();
}

// What a job may take, and of a server that has many.
void AddLimitFlags(Command command, ServerFlags* flags) {
  command
      .Value("--max-memory", &flags->max_memory,
             "Refuse a job whose reducer may need more memory than this, e.g. 4G; without it there "
             "is no limit")
      .Takes("BYTES");
  command
      .Value("--max-store", &flags->max_store,
             "Let a checkpoint fail, as on a full disk, that would make --store larger than this, "
             "e.g. 500G; without it there is no limit")
      .Takes("BYTES");
  command
      .Value("--jobs", &flags->server.jobs,
             "Serve so many jobs at once, each by the name in its token (`ringwood token job`) and "
             "with the limits above; without it one job")
      .Takes("NUMBER")
      .Within(1, 256);
  command
      .Value("--job-idle", &flags->server.job_idle_seconds,
             "With --jobs: close a job without ranks and observers after this time; its next call "
             "opens it again")
      .Takes("SECONDS")
      .Within(1, 1e6)
      .ShowDefault();
  command
      .Value("--job-limits", &flags->job_limits,
             "With --jobs: read the limits of single jobs from this file, a line a job: NAME "
             "memory=4G store=200G keep=3 every=1000 calls=5000 open=16384")
      .Takes("FILE");
}

// Which of the job's reducers it is, and how many there are.
void AddReducerFlags(Command command, ServerFlags* flags) {
  const auto add = [&](const char* name, auto* value, const char* takes, const char* help) {
    return command.Value(name, value, help).Takes(takes);
  };
  add("--coordinator", &flags->server.coordinator, "ADDRESS",
      "Join the coordinator at this HOST:PORT as a further reducer")
      .Check(CoordinatorProblem);
  const Flag index =
      add("--reducer-index", &flags->server.reducer_index, "NUMBER", "Be this reducer, from 0")
          .Within(0, kMaxRanks);
  add("--of-rank", &flags->of_rank, "RANK",
      "Be the reducer that this rank brings for its host (RINGWOOD_BRINGS_REDUCER)")
      .Within(0, kMaxRanks)
      .Excludes(index);
  add("--servers", &flags->servers, "NUMBER",
      "Expect so many reducers, this one included; 0: ranks merge among themselves")
      .Within(0, kMaxRanks)
      .Default("1, and with a command after -- those that its ranks bring for other hosts");
  command.Switch(
      "--no-reducer", &flags->no_reducer,
      "Be none of the reducers, which are other processes: coordinate and keep the store");
}

// What is seen of the server.
void AddSeenFlags(Command command, ServerFlags* flags) {
  command
      .Value("--http", &flags->server.http,
             "Serve the status page, /status.json and /metrics at this HOST:PORT; off loopback "
             "behind the job's token")
      .Takes("ADDRESS");
  command
      .Value("--http-tls", &flags->server.http_tls,
             "Serve the status page as HTTPS, with cert.pem and key.pem of this directory")
      .Takes("DIRECTORY");
  command
      .Value("--timeline", &flags->timeline,
             "Write the reducer's timeline of the newest job to this file")
      .Takes("FILE");
  AddSessionFlag(command, "log_level", &flags->log_level);
  AddSessionFlag(command, "log_format", &flags->log_format);
}

}  // namespace

void AddServerFlags(Command command, ServerFlags* flags) {
  ServerOptions& server = flags->server;
  const auto add = [&](const char* name, auto* value, const char* takes, const char* help) {
    return command.Value(name, value, help).Takes(takes);
  };
  add("--listen", &server.listen, "ADDRESS",
      "Listen at this HOST:PORT; \":0\" is the network interface's address and any port")
      .ShowDefault();
  add("--store", &server.store, "DIRECTORY",
      "Keep checkpoints and coordinator state in this directory; with --coordinator this server's "
      "part of each checkpoint");
  command
      .Word("--update-log", "on", &server.update_log,
            "Keep what each committed step changed in --store, so that a job that is resumed loses "
            "none; with --update-log=fsync also where the machine loses power")
      .OneOf({"on", "fsync"});
  add("--keep-checkpoints", &flags->keep_checkpoints, "NUMBER",
      "Keep this many of the newest good checkpoints of each job")
      .AtLeast(2)
      .ShowDefault();
  add("--keep-every", &server.retention.every, "STEPS",
      "Keep the first checkpoint from each multiple of this many steps on for ever; 0: only the "
      "newest")
      .ShowDefault();
  add("--coord-store", &server.coord_store, "URL",
      "Keep coordinator state in etcd instead: etcd://HOST:PORT,HOST:PORT/PREFIX, or etcds://… "
      "under TLS. Of several servers with the same URL one leads and the others stand by")
      .NotEmpty();
  add("--etcd-tls", &server.etcd_tls, "DIRECTORY",
      "Of --coord-store etcds://…: the directory with ca.pem of etcd's authority, and with "
      "cert.pem and key.pem where etcd asks for a client's certificate");
  command.Switch("--insecure", &server.insecure,
                 "Run without certificates, which is allowed on a loopback address only");
  command.Switch(
      "--trusted-fabric", &server.trusted_fabric,
      "Declare that only this job's hosts can reach the network: data are exchanged over UCX, and "
      "without certificates calls are not encrypted either");
  AddSessionFlag(command, "transport", &server.transport);
  AddSessionFlag(command, "interface_name", &server.network_interface);
  AddSessionFlag(command, "port_range", &flags->port_range);
  AddReducerFlags(command, flags);
  command.Switch("--drain", &flags->drain,
                 "Asked to end by a signal, first serve the job that runs until all its ranks have "
                 "left; a second signal ends it at once");
  AddElasticFlags(command, &server);
  AddTimeoutFlags(command, &server);
  server.host.clear();
  add("--host", &server.host, "NAME",
      "Name this host so, in messages and where ranks and reducers of one host are looked for; "
      "without it Slurm's or the machine's name")
      .From("RINGWOOD_HOST");
  AddLimitFlags(command, flags);
  AddTokenFileFlag(command, "the job's secret", &flags->token_file);
  AddIdentityFlag(command, &flags->identity);
  AddSeenFlags(command, flags);
}

}  // namespace ringwood

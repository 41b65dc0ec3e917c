#include <poll.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/net/endpoint.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/flags/access_flags.h"
#include "cli/flags/session_flags.h"
#include "jobs/job_limits.h"
#include "launch/network.h"
#include "launch/served_command.h"
#include "launch/server_line.h"
#include "launch/signals.h"
#include "launch/supervision/ending.h"
#include "proto/access.h"
#include "proto/job_token.h"
#include "proto/token_file.h"
#include "server/server.h"
#include "timeline/reducer.h"

namespace ringwood {
namespace {

constexpr size_t kMaxReasonBytes = 1000;    // of a verdict: a rank's error may be a whole traceback
constexpr size_t kMaxLimitsFile = 1 << 20;  // of --job-limits
constexpr int kLookMilliseconds = 1000;     // between two checks that the server still runs

struct ServerFlags {
  ServerOptions server;
  std::string token_file;
  std::string identity;
  std::string max_memory;
  std::string max_store;
  std::string job_limits;
  std::string port_range;
  std::string timeline;
  std::string log_level = "info";
  std::string log_format = "text";
  bool no_reducer = false;
  uint64_t keep_checkpoints = kKeptCheckpoints;
};

// Who coordinates checks tokens, and needs the secret from which they are made. Who is a reducer of
// one job calls with it only, so it may be renewed.
Status FindServersToken(const CommandContext& context, ServerFlags* flags) {
  ServerOptions& server = flags->server;
  RW_ASSIGN_OR_RETURN(server.token, FindToken(context.environment, flags->token_file));
  const bool keeps_parts = !server.coordinator.empty() && !server.store.empty();
  if (keeps_parts && ClaimedRoles(server.token) != kEveryRole) {
    return Invalid(absl::StrFormat(
        "this server has a --store, to which ranks come, and was given a token of the role %s: "
        "give it the job's secret, from which tokens are made",
        RoleNames(ClaimedRoles(server.token))));
  }
  if (!server.coordinator.empty() && server.jobs == 0) {
    server.token_file = TokenFileOf(context.environment, flags->token_file);
  }
  if (!server.coordinator.empty() || ClaimedRoles(server.token) == kEveryRole) return OkStatus();
  return Invalid(absl::StrFormat(
      "this server coordinates and was given a token of the role %s: give it the job's secret, "
      "from which tokens are made (`ringwood token new`)",
      RoleNames(ClaimedRoles(server.token))));
}

// A standby and a coordinator without a reducer have the number behind the last.
StatusOr<std::shared_ptr<const Credentials>> OpenServersCredentials(const ServerFlags& flags) {
  const std::string folder =
      flags.identity.empty() ? "" : std::filesystem::absolute(flags.identity).string();
  RW_ASSIGN_OR_RETURN(auto credentials, OpenCredentials(folder));
  if (credentials != nullptr) {
    RW_RETURN_IF_ERROR(
        MayClaim(credentials->name(), IdentityRole::kServer, flags.server.reducer_index));
  }
  return credentials;
}

Status ReadJobLimits(ServerFlags* flags) {
  if (flags->job_limits.empty()) return OkStatus();
  std::ifstream file(flags->job_limits);
  std::string text(kMaxLimitsFile, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.empty()) {
    return NotFound("--job-limits: cannot read " + flags->job_limits + ", or it is empty");
  }
  JobLimits limits;
  limits.memory_bytes = flags->server.max_memory_bytes;
  limits.store_bytes = flags->server.max_store_bytes;
  limits.keep_checkpoints = flags->server.retention.newest;
  limits.keep_every = flags->server.retention.every;
  RW_ASSIGN_OR_RETURN(flags->server.job_limits, ParseJobLimits(text, flags->job_limits, limits));
  return OkStatus();
}

// ":0" listens at the network interface's address.
Status CompleteAddress(const ServerOptions& options, std::string* address) {
  RW_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(*address));
  if (endpoint.host.empty()) {
    RW_ASSIGN_OR_RETURN(endpoint.host, AddressOf(options.network_interface));
  }
  *address = ToString(endpoint);
  return OkStatus();
}

// Of "HOST:PORT", or several of which one leads. "": this server coordinates.
std::string CoordinatorProblem(const std::string& addresses) {
  return addresses.empty() ? "" : Message(CheckEndpoints(addresses));
}

ObservedSession SessionOf(const v1::JoinResponse& joined) {
  ObservedSession session{.job = joined.job(),
                          .epoch = joined.epoch(),
                          .rank = static_cast<int>(joined.node()),
                          .world = 0,
                          .servers = 0,
                          .host = ""};
  for (const v1::Member& member : joined.members()) {
    (member.role() == v1::ROLE_WORKER ? session.world : session.servers) += 1;
    if (member.node() == joined.node()) session.host = member.host();
  }
  return session;
}

// Null without --timeline; it outlives the server.
StatusOr<std::unique_ptr<ReducerTimeline>> Watch(const std::string& timeline,
                                                 ServerOptions* options) {
  if (timeline.empty()) return nullptr;
  RW_ASSIGN_OR_RETURN(auto recorder, ReducerTimeline::Create(timeline));
  options->joined = [raw = recorder.get()](const v1::JoinResponse& joined) {
    raw->Opened(SessionOf(joined));
  };
  options->watched = [raw = recorder.get()](std::unique_ptr<Fabric> fabric) {
    return ObserveFabric(std::move(fabric), raw);
  };
  return recorder;
}

// For the launcher: one line says why an epoch ended. From the coordinator's thread.
void PrintVerdict(const v1::Failure& failure) {
  std::string text = absl::StrFormat(
      "%s failed at step %d of epoch %d: %s", failure.who().empty() ? "the job" : failure.who(),
      failure.step(), failure.epoch(), failure.reason().substr(0, kMaxReasonBytes));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  }
  std::printf("%s%s\n", failure.recovers() ? kRecovery : kVerdict, text.c_str());
  std::fflush(stdout);
}

// For the launcher: who takes part in an epoch of an elastic job. From the coordinator's thread.
void PrintEpoch(const v1::EpochRecord& epoch) {
  if (!epoch.elastic()) return;
  std::vector<int> ranks;  // in ascending order, as nodes are
  for (const v1::RecordedMember& member : epoch.members()) {
    if (member.role() == v1::ROLE_WORKER) ranks.push_back(static_cast<int>(member.rank()));
  }
  std::printf("%s\n", EpochLine(epoch.epoch(), ranks).c_str());
  std::fflush(stdout);
}

// Before the server starts: completes what the job of one command needs and nobody has given.
// Without a network interface all is on loopback, which needs no encryption; with one the server
// listens there. The secret is new.
Status PrepareToServe(ServerOptions* server) {
  if (!server->coordinator.empty() || !server->coord_store.empty()) {
    return Invalid(absl::StrFormat(
        "a command after -- belongs to the one server that coordinates its job, without %s",
        server->coordinator.empty() ? "--coord-store" : "--coordinator"));
  }
  if (server->jobs > 0) {
    return Invalid("a command after -- is one job: leave out --jobs, with which a server has many");
  }
  if (server->network_interface.empty()) {
    server->insecure = true;
  } else if (server->listen == ServerOptions().listen) {
    server->listen = ":0";
  }
  if (server->token.empty()) server->token = NewSecret();
  return OkStatus();
}

RankContext ContextOf(const ServerFlags& flags, const std::string& address) {
  RankContext context;
  context.coordinator = address;
  context.token = flags.server.token;
  context.network_interface = flags.server.network_interface;
  context.trusted_fabric = flags.server.trusted_fabric;
  context.transport = flags.server.transport;
  context.port_range = flags.port_range;
  context.join_timeout_seconds = flags.server.join_timeout_seconds;
  return context;
}

// Until a signal asks for the end, or the command that is served has ended: its code is ours then,
// and signals are for it.
Status ServeOn(CommandContext* context, Server* server, Process* command,
               SignalDescriptor* signals) {
  for (;;) {
    pollfd wait = {signals->descriptor(), POLLIN, 0};
    ::poll(&wait, 1, kLookMilliseconds);
    for (int signal = signals->Next(); signal != 0; signal = signals->Next()) {
      if (signal == SIGPIPE || signal == SIGCHLD) continue;
      if (command == nullptr) return OkStatus();
      command->Signal(signal);
    }
    if (command != nullptr && command->Ended()) {
      context->exit_code = command->ending().code;
      return OkStatus();
    }
    const Status status = server->Wait(Duration::zero());  // a timeout: it serves
    if (status.code() == StatusCode::kDeadlineExceeded) continue;
    // The stores were read at the start: damage in a running job came over the network.
    return status.code() == StatusCode::kDataLoss ? Unavailable(Message(status)) : status;
  }
}

Status Serve(CommandContext* context, ServerFlags* flags) {
  const mode_t file_mask =
      ::umask(077);  // the store's files hold what a stranger could pose as a rank with
  SignalDescriptor signals{SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE};  // before there are threads
  RW_ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(flags->log_level));
  RW_ASSIGN_OR_RETURN(const LogFormat format, ParseLogFormat(flags->log_format));
  SetLog(level, absl::StrFormat("server %d", flags->server.reducer_index), format);
  RW_RETURN_IF_ERROR(FindServersToken(*context, flags));
  if (context->dashes) RW_RETURN_IF_ERROR(PrepareToServe(&flags->server));
  RW_RETURN_IF_ERROR(CompleteAddress(flags->server, &flags->server.listen));
  if (!flags->server.http.empty()) {
    RW_RETURN_IF_ERROR(CompleteAddress(flags->server, &flags->server.http));
  }
  RW_ASSIGN_OR_RETURN(flags->server.ports, ParsePortRange(flags->port_range));
  if (!flags->max_memory.empty()) {
    RW_ASSIGN_OR_RETURN(flags->server.max_memory_bytes, ParseBytes(flags->max_memory));
  }
  if (!flags->max_store.empty()) {
    RW_ASSIGN_OR_RETURN(flags->server.max_store_bytes, ParseBytes(flags->max_store));
  }
  flags->server.retention.newest = flags->keep_checkpoints;
  RW_RETURN_IF_ERROR(ReadJobLimits(flags));
  if (flags->no_reducer) {
    if (!flags->server.coordinator.empty()) {
      return Invalid("--no-reducer and --coordinator: such a server would have nothing to do");
    }
    flags->server.reducer_index = flags->server.servers;  // behind the last
  }
  RW_ASSIGN_OR_RETURN(flags->server.credentials, OpenServersCredentials(*flags));
  RW_ASSIGN_OR_RETURN(const std::unique_ptr<ReducerTimeline> recorder,
                      Watch(flags->timeline, &flags->server));
  flags->server.failed = PrintVerdict;
  flags->server.began = PrintEpoch;
  std::string address;  // where it serves
  flags->server.serves = [&address, host = HostOf(flags->server.listen)](int port) {
    address = ToString({host, port});
    std::printf("%s%s\n", kListening, address.c_str());
    std::fflush(stdout);
  };
  flags->server.shows = [](const std::string& url) {
    std::printf("ringwood server: status page and metrics at %s\n", url.c_str());
    std::fflush(stdout);
  };
  flags->server.deposed = [](const Status& why) {
    Log(LogLevel::kError, Message(why));
    std::_Exit(kExitRestart);  // nothing that takes time: its members must not be told anything
  };
  KeepFreedMemory();
  RW_ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Server::Start(flags->server));
  std::unique_ptr<Process> command;
  if (context->dashes) {
    const Environment environment =
        ServedEnvironment(context->environment, ContextOf(*flags, address));
    RW_ASSIGN_OR_RETURN(command, StartServed(context->trailing, environment, file_mask));
  }
  const Status status = ServeOn(context, server.get(), command.get(), &signals);
  if (status.ok()) server->Stop();
  return status;
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
      .Above(0)
      .ShowDefault();
  add("--stall-timeout", &server->stall_timeout_seconds,
      "End the job when no rank makes progress for so long; 0: only warn")
      .Within(0, 1e6)
      .ShowDefault();
  add("--coordinator-grace", &server->coordinator_grace_seconds,
      "As a further reducer, serve on this long while the coordinator is lost; -1: 30 in an "
      "elastic "
      "job, else 0")
      .Within(-1, 86'400)
      .ShowDefault();
  add("--reattach-grace", &server->reattach_grace_seconds,
      "Started again, wait this long for the members of the epoch on record; without it 30 with "
      "--store or --coord-store, else 0")
      .Within(0, 3600);
  add("--store-patience", &server->store_patience_seconds,
      "Wait this long for a store that another server holds; without it refuse such a store")
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
             "is no "
             "limit")
      .Takes("BYTES");
  command
      .Value("--max-store", &flags->max_store,
             "Let a checkpoint fail, as on a full disk, that would make --store larger than this, "
             "e.g. "
             "500G; without it there is no limit")
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
      "under TLS. Of several servers with the same URL one leads and the others stand by");
  add("--etcd-tls", &server.etcd_tls, "DIRECTORY",
      "Of --coord-store etcds://…: the directory with ca.pem of etcd's authority, and with "
      "cert.pem "
      "and key.pem where etcd asks for a client's certificate");
  command.Switch("--insecure", &server.insecure,
                 "Run without certificates, which is allowed on a loopback address only");
  command.Switch(
      "--trusted-fabric", &server.trusted_fabric,
      "Declare that only this job's hosts can reach the network: data are exchanged over UCX, and "
      "without certificates calls are not encrypted either");
  AddSessionFlag(command, "transport", &server.transport);
  AddSessionFlag(command, "interface_name", &server.network_interface);
  AddSessionFlag(command, "port_range", &flags->port_range);
  add("--coordinator", &server.coordinator, "ADDRESS",
      "Join the coordinator at this HOST:PORT as a further reducer")
      .Check(CoordinatorProblem);
  add("--reducer-index", &server.reducer_index, "NUMBER", "Be this reducer, from 0")
      .Within(0, kMaxRanks);
  add("--servers", &server.servers, "NUMBER",
      "Expect so many reducers, this one included; 0: ranks merge among themselves")
      .Within(0, kMaxRanks)
      .ShowDefault();
  command.Switch(
      "--no-reducer", &flags->no_reducer,
      "Be none of the reducers, which are other processes: coordinate and keep the store");
  AddElasticFlags(command, &server);
  AddTimeoutFlags(command, &server);
  add("--host", &server.host, "NAME", "Name this host so in error messages").ShowDefault();
  AddLimitFlags(command, flags);
  AddTokenFileFlag(command, "the job's secret", &flags->token_file);
  AddIdentityFlag(command, &flags->identity);
  AddSeenFlags(command, flags);
}

}  // namespace

void AddServerCommand(Command app, CommandContext* context) {
  Command command = app.Subcommand("server",
                                   "Run a server: coordinator, reducer and checkpoint store of a "
                                   "job. With a command after -- it "
                                   "serves the job of that command and ends with it");
  command.Footer(
      "Examples: ringwood server --listen 127.0.0.1:7070 --store ./store --insecure\n"
      "          ringwood server --network-interface eth0 --trusted-fabric -- srun python "
      "train.py");
  auto flags = std::make_shared<ServerFlags>();
  AddServerFlags(command, flags.get());
  command.Run(context, [context, flags] { return Serve(context, flags.get()); });
}

}  // namespace ringwood

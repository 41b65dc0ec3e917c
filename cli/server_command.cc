#include <poll.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/net/endpoint.h"
#include "cli/command.h"
#include "cli/server/given_options.h"
#include "cli/server/server_flags.h"
#include "launch/served_command.h"
#include "launch/server_line.h"
#include "launch/signals.h"
#include "launch/supervision/ending.h"
#include "server/server.h"
#include "timeline/reducer.h"

namespace ringwood {
namespace {

constexpr size_t kMaxReasonBytes = 1000;  // of a verdict: a rank's error may be a whole traceback
constexpr int kLookMilliseconds = 1000;   // between two checks that the server still runs
constexpr int kDrainMilliseconds = 100;   // and that its job still does

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
  PrintLine((failure.recovers() ? kRecovery : kVerdict) + text);
}

// For the launcher: who takes part in an epoch of an elastic job. From the coordinator's thread.
void PrintEpoch(const v1::EpochRecord& epoch) {
  if (!epoch.elastic()) return;
  std::vector<int> ranks;  // in ascending order, as nodes are
  for (const v1::RecordedMember& member : epoch.members()) {
    if (member.role() == v1::ROLE_WORKER) ranks.push_back(static_cast<int>(member.rank()));
  }
  PrintLine(EpochLine(epoch.epoch(), ranks));
}

// For the launcher, and for who started the ranks otherwise. From the coordinator's thread.
void PrintAwaited(const std::vector<uint32_t>& ranks) {
  PrintLine(AwaitsLine({ranks.begin(), ranks.end()}));
}

RankContext ContextOf(const ServerOptions& options, const std::string& port_range,
                      const std::string& address) {
  RankContext context;
  context.coordinator = address;
  context.token = options.token;
  context.network_interface = options.network_interface;
  context.trusted_fabric = options.trusted_fabric;
  context.transport = options.transport;
  context.port_range = port_range;
  context.join_timeout_seconds = options.join_timeout_seconds;
  return context;
}

// Reducers of other hosts: unless their number is given. A rank's certificate does not permit it to
// start one.
bool RanksMayBring(const ServerFlags& flags, const ServerOptions& options) {
  return flags.servers < 0 && !flags.no_reducer && !options.network_interface.empty() &&
         options.credentials == nullptr;
}

// Until a signal asks for the end, or the command that is served has ended: its code is ours then,
// and signals are for it. With `drain` a signal is not the end before the job is over.
Status ServeOn(CommandContext* context, Server* server, Process* command, bool drain,
               SignalDescriptor* signals) {
  bool draining = false;
  for (;;) {
    pollfd wait = {signals->descriptor(), POLLIN, 0};
    ::poll(&wait, 1, draining ? kDrainMilliseconds : kLookMilliseconds);
    for (int signal = signals->Next(); signal != 0; signal = signals->Next()) {
      if (signal == SIGPIPE || signal == SIGCHLD) continue;
      if (command != nullptr) {
        command->Signal(signal);
        continue;
      }
      if (!drain || draining) return OkStatus();
      draining = true;
      server->Drain();
    }
    if (draining && server->Drained()) return OkStatus();
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

Status Serve(CommandContext* context, const ServerFlags& flags) {
  const mode_t file_mask =
      ::umask(077);  // the store's files hold what a stranger could pose as a rank with
  SignalDescriptor signals{SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE};  // before there are threads
  RW_ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(flags.log_level));
  RW_ASSIGN_OR_RETURN(const LogFormat format, ParseLogFormat(flags.log_format));
  const std::string who = flags.of_rank < 0
                              ? absl::StrFormat("server %d", flags.server.reducer_index)
                              : absl::StrFormat("reducer of rank %d", flags.of_rank);
  SetLog(level, who, format);
  RW_ASSIGN_OR_RETURN(ServerOptions options, ServerOptionsGiven(*context, flags));
  RW_ASSIGN_OR_RETURN(const std::unique_ptr<ReducerTimeline> recorder,
                      Watch(flags.timeline, &options));
  options.failed = PrintVerdict;
  options.began = PrintEpoch;
  options.awaits = PrintAwaited;
  std::string address;  // where it serves
  options.serves = [&address, host = HostOf(options.listen),
                    coordinator = options.coordinator](int port) {
    // A reducer alone has no port but those of the data plane.
    address =
        port != 0 ? ToString({host, port}) : "no port: it joins the coordinator at " + coordinator;
    PrintLine(kListening + address);
  };
  options.shows = [](const std::string& url) {
    PrintLine("ringwood server: status page and metrics at " + url);
  };
  options.deposed = [](const Status& why) {
    Log(LogLevel::kError, Message(why));
    std::_Exit(kExitRestart);  // nothing that takes time: its members must not be told anything
  };
  // Afterwards ServeOn sees them.
  std::atomic<bool> starts{true}, ends{false};
  options.gives_up = [&signals, &starts, &ends] {
    if (starts && signals.Has({SIGINT, SIGTERM, SIGHUP})) ends = true;
    return ends.load();
  };
  KeepFreedMemory();
  StatusOr<std::unique_ptr<Server>> started = Server::Start(options);
  starts = false;
  if (ends) return OkStatus();  // as when it serves
  if (!started.ok()) return started.status();
  const std::unique_ptr<Server> server = *std::move(started);
  std::unique_ptr<Process> command;
  if (context->dashes) {
    const Environment environment =
        ServedEnvironment(context->environment, ContextOf(options, flags.port_range, address),
                          RanksMayBring(flags, options) ? options.host : "");
    RW_ASSIGN_OR_RETURN(command, StartServed(context->trailing, environment, file_mask));
  }
  const Status status = ServeOn(context, server.get(), command.get(), flags.drain, &signals);
  if (status.ok()) server->Stop();
  return status;
}

}  // namespace

void AddServerCommand(Command app, CommandContext* context) {
  Command command =
      app.Subcommand("server",
                     "Run a server: coordinator, reducer and checkpoint store of a job. With a "
                     "command after -- it serves the job of that command and ends with it");
  command.Footer(
      "Examples: ringwood server --listen 127.0.0.1:7070 --store ./store --insecure\n"
      "          ringwood server --network-interface eth0 --trusted-fabric -- srun python "
      "train.py");
  auto flags = std::make_shared<ServerFlags>();
  AddServerFlags(command, flags.get());
  command.Run(context, [context, flags] { return Serve(context, *flags); });
}

}  // namespace ringwood

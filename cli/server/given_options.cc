#include "cli/server/given_options.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "base/net/endpoint.h"
#include "base/net/machine_name.h"
#include "base/units.h"
#include "jobs/job_limits.h"
#include "launch/network.h"
#include "proto/access.h"
#include "proto/job_token.h"
#include "proto/token_file.h"
#include "server/calls/limits.h"
#include "transport/interface.h"
#include "transport/port_range.h"

namespace ringwood {
namespace {

constexpr size_t kMaxLimitsFile = 1 << 20;  // of --job-limits

// Who coordinates checks tokens, and needs the secret from which they are made. Who is a reducer of
// one job calls with it only, so it may be renewed.
Status FindServersToken(const CommandContext& context, const std::string& token_file,
                        ServerOptions* server) {
  RW_ASSIGN_OR_RETURN(server->token, FindToken(context.environment, token_file));
  const std::string file = TokenFileOf(context.environment, token_file);
  if (!server->token.empty()) {
    RW_RETURN_IF_ERROR(CheckSecret(server->token, file.empty() ? "RINGWOOD_TOKEN" : file));
  }
  const bool keeps_parts = !server->coordinator.empty() && !server->store.empty();
  if (keeps_parts && ClaimedRoles(server->token) != kEveryRole) {
    return Invalid(absl::StrFormat(
        "this server has a --store, to which ranks come, and was given a token of the role %s: "
        "give it the job's secret, from which tokens are made",
        RoleNames(ClaimedRoles(server->token))));
  }
  if (!server->coordinator.empty() && server->jobs == 0) {
    server->token_file = file;
  }
  if (!server->coordinator.empty() || ClaimedRoles(server->token) == kEveryRole) return OkStatus();
  return Invalid(absl::StrFormat(
      "this server coordinates and was given a token of the role %s: give it the job's secret, "
      "from which tokens are made (`ringwood token new`)",
      RoleNames(ClaimedRoles(server->token))));
}

// A standby and a coordinator without a reducer have the number behind the last.
StatusOr<std::shared_ptr<const Credentials>> OpenServersCredentials(const std::string& identity,
                                                                    int index) {
  const std::string folder = identity.empty() ? "" : std::filesystem::absolute(identity).string();
  RW_ASSIGN_OR_RETURN(auto credentials, OpenCredentials(folder));
  if (credentials != nullptr) {
    RW_RETURN_IF_ERROR(MayClaim(credentials->name(), IdentityRole::kServer, index));
  }
  return credentials;
}

// `server` has the limits of the jobs that the file does not name.
Status ReadJobLimits(const std::string& path, ServerOptions* server) {
  if (path.empty()) return OkStatus();
  std::ifstream file(path);
  std::string text(kMaxLimitsFile, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.empty()) {
    return NotFound("--job-limits: cannot read " + path + ", or it is empty");
  }
  JobLimits limits;
  limits.memory_bytes = server->max_memory_bytes;
  limits.store_bytes = server->max_store_bytes;
  limits.keep_checkpoints = server->retention.newest;
  limits.keep_every = server->retention.every;
  RW_ASSIGN_OR_RETURN(server->job_limits, ParseJobLimits(text, path, limits));
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

// As the ranks there name their host (client/options/option_table.h), so that trees know who shares
// one.
std::string HostName(const CommandContext& context) {
  const auto node = context.environment.find("SLURMD_NODENAME");
  return node != context.environment.end() && !node->second.empty() ? node->second : MachineName();
}

Status CheckDrain(const CommandContext& context, const ServerOptions& server) {
  if (context.dashes) {
    return Invalid("--drain: a signal is for the command after --, with which the server ends");
  }
  if (server.jobs == 0 && server.coord_store.empty()) return OkStatus();
  return Invalid("--drain is of a server of one job, without --jobs and --coord-store");
}

// Which of the reducers it is, and how many are expected.
Status NumberReducers(const ServerFlags& flags, ServerOptions* server) {
  if (flags.servers >= 0) server->servers = flags.servers;
  const bool coordinates = server->coordinator.empty();
  if (flags.of_rank >= 0) {
    if (coordinates || server->jobs > 0) {
      return Invalid(
          "--of-rank: a rank's reducer joins the server of one job: give its address "
          "with --coordinator, and no --jobs");
    }
    server->reducer_index = static_cast<int>(kFirstOfRanks) + flags.of_rank;
  }
  if (!flags.no_reducer) return OkStatus();
  if (!coordinates) {
    return Invalid("--no-reducer and --coordinator: such a server would have nothing to do");
  }
  server->reducer_index = server->servers;  // behind the last
  return OkStatus();
}

}  // namespace

StatusOr<ServerOptions> ServerOptionsGiven(const CommandContext& context,
                                           const ServerFlags& flags) {
  ServerOptions server = flags.server;
  if (!server.network_interface.empty()) {
    RW_ASSIGN_OR_RETURN(server.network_interface, ChooseInterface(server.network_interface));
  }
  RW_RETURN_IF_ERROR(FindServersToken(context, flags.token_file, &server));
  if (context.dashes) RW_RETURN_IF_ERROR(PrepareToServe(&server));
  RW_RETURN_IF_ERROR(CompleteAddress(server, &server.listen));
  if (!server.http.empty()) RW_RETURN_IF_ERROR(CompleteAddress(server, &server.http));
  RW_ASSIGN_OR_RETURN(server.ports, ParsePortRange(flags.port_range));
  if (!flags.max_memory.empty()) {
    RW_ASSIGN_OR_RETURN(server.max_memory_bytes, ParseBytes(flags.max_memory));
  }
  if (!flags.max_store.empty()) {
    RW_ASSIGN_OR_RETURN(server.max_store_bytes, ParseBytes(flags.max_store));
  }
  server.retention.newest = flags.keep_checkpoints;
  RW_RETURN_IF_ERROR(ReadJobLimits(flags.job_limits, &server));
  RW_RETURN_IF_ERROR(NumberReducers(flags, &server));
  if (flags.drain) RW_RETURN_IF_ERROR(CheckDrain(context, server));
  if (server.host.empty()) server.host = HostName(context);
  RW_ASSIGN_OR_RETURN(server.credentials,
                      OpenServersCredentials(flags.identity, server.reducer_index));
  return server;
}

}  // namespace ringwood

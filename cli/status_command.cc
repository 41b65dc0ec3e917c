#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "base/table.h"
#include "cli/command.h"
#include "launch/network.h"
#include "proto/call.h"
#include "proto/own_connection.h"
#include "proto/token.h"
#include "ringwood/v1/control.grpc.pb.h"

namespace ringwood {
namespace {

struct StatusFlags {
  std::string coordinator;
  std::string store;
  double timeout_seconds = 5;
  bool json = false;
};

StatusOr<v1::StatusResponse> Ask(const StatusFlags& flags, const std::string& token) {
  auto channel = OpenChannel(flags.coordinator, OwnConnection().Arguments(), token);
  auto stub = v1::Coordinator::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(Seconds(flags.timeout_seconds)));
  v1::StatusResponse response;
  const grpc::Status status = stub->Status(&context, v1::StatusRequest(), &response);
  if (status.ok()) return response;
  if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
    return Denied(flags.coordinator + ": " + status.error_message() +
                  ", or name its directory of checkpoints with --store");
  }
  return Unavailable(absl::StrFormat(
      "no coordinator answers at %s: %s; it is printed by `ringwood server` when it starts",
      flags.coordinator, status.error_message()));
}

std::string RoleName(v1::Role role) {
  return role == v1::ROLE_REDUCER ? "reducer" : role == v1::ROLE_WORKER ? "rank" : "?";
}

void PrintText(const v1::StatusResponse& response) {
  std::printf("%s, epoch %s, step %s\n", response.phase().c_str(),
              std::to_string(response.epoch()).c_str(), std::to_string(response.step()).c_str());
  if (!response.waiting_for().empty()) std::printf("%s\n", response.waiting_for().c_str());
  if (!response.last_failure().empty()) {
    std::printf("last failure: %s\n", response.last_failure().c_str());
  }
  if (response.members_size() == 0) return;
  std::vector<std::vector<std::string>> rows = {{"NODE", "ROLE", "RANK", "HOST"}};
  for (const v1::Member& member : response.members()) {
    rows.push_back({std::to_string(member.node()), RoleName(member.role()),
                    std::to_string(member.rank()), member.host()});
  }
  std::fputs(FormatTable(rows).c_str(), stdout);
}

void PrintJson(const v1::StatusResponse& response) {
  nlohmann::json members = nlohmann::json::array();
  for (const v1::Member& member : response.members()) {
    members.push_back({{"node", member.node()},
                       {"role", RoleName(member.role())},
                       {"rank", member.rank()},
                       {"host", member.host()}});
  }
  const nlohmann::json json = {{"phase", response.phase()},
                               {"epoch", response.epoch()},
                               {"step", response.step()},
                               {"waiting_for", response.waiting_for()},
                               {"last_failure", response.last_failure()},
                               {"members", members}};
  std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

StatusOr<std::string> TokenOf(const CommandContext& context, const StatusFlags& flags) {
  if (flags.store.empty()) {
    const auto given = context.environment.find("RINGWOOD_TOKEN");
    return given == context.environment.end() ? "" : given->second;
  }
  std::ifstream file(TokenFile(flags.store));
  std::string token;
  file >> token;
  if (!token.empty()) return token;
  return NotFound("--store: no server with a token runs on " + flags.store +
                  ", or it is another user's");
}

Status ExecuteStatus(const CommandContext& context, const StatusFlags& flags) {
  RW_RETURN_IF_ERROR(ParseEndpoint(flags.coordinator).status());
  RW_ASSIGN_OR_RETURN(const std::string token, TokenOf(context, flags));
  RW_ASSIGN_OR_RETURN(const v1::StatusResponse response, Ask(flags, token));
  flags.json ? PrintJson(response) : PrintText(response);
  return OkStatus();
}

}  // namespace

void AddStatusCommand(Command app, CommandContext* context) {
  Command command = app.Subcommand("status", "Show the state of a job");
  auto flags = std::make_shared<StatusFlags>();
  command.Value("--coordinator", &flags->coordinator, "Ask the coordinator at this HOST:PORT")
      .Takes("ADDRESS")
      .Required()
      .From("RINGWOOD_COORDINATOR");
  command
      .Value("--store", &flags->store,
             "Find the token in this checkpoint directory, where the server left it for this user")
      .Takes("DIRECTORY");
  command.Value("--timeout", &flags->timeout_seconds, "Wait this long for the answer")
      .Takes("SECONDS")
      .ShowDefault()
      .Within(0.1, 600.0);
  command.Switch("--json", &flags->json, "Print JSON");
  command.Run(context, [context, flags] { return ExecuteStatus(*context, *flags); });
}

}  // namespace ringwood

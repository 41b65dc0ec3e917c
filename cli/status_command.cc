#include <cstdio>
#include <memory>

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
  command
      .Value("--coordinator,--server", &question->coordinator,
             "Ask the coordinator at this HOST:PORT")
      .Takes("ADDRESS")
      .From("RINGWOOD_COORDINATOR");
  command
      .Value("--store", &question->store,
             "Find the coordinator and its token in this checkpoint directory, where it left them "
             "for this user")
      .Takes("DIRECTORY");
  command
      .Value("--token-file", &question->token_file,
             "Read a token of the job from this file, which others cannot read; without it "
             "RINGWOOD_TOKEN or the file of RINGWOOD_TOKEN_FILE")
      .Takes("FILE");
  command
      .Value("--identity", &question->identity,
             "Speak mutual TLS, with the certificate in this folder (ca.pem, cert.pem, key.pem); "
             "with --store that of the server by default")
      .Takes("FOLDER")
      .From("RINGWOOD_IDENTITY");
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
  SignalDescriptor signals{SIGINT, SIGTERM, SIGHUP, SIGWINCH};
  RW_ASSIGN_OR_RETURN(const auto asker, StatusAsker::Open(context.environment, flags.question));
  if (flags.once) return PrintTop(asker.get());
  return RunTop(asker.get(), &signals, flags.every_seconds);
}

}  // namespace

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

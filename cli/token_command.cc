// ringwood token: makes secrets, and tokens of a role that expire.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "base/files/whole_file.h"
#include "base/random.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/flags/access_flags.h"
#include "identity/private_file.h"
#include "proto/job_token.h"
#include "proto/token_file.h"

namespace ringwood {
namespace {

struct TokenFlags {
  std::string token_file;
  std::string store;
  std::string role = "observer";
  std::string lasts = "8h";
  std::string out;
  std::string job;
};

constexpr size_t kMaxTokenFile = 4096;  // bytes; a longer file holds no token

// To a file for this user alone, or to standard output, which is the user's affair.
Status HandOut(const std::string& token, const std::string& out) {
  if (!out.empty()) return Annotate(WriteWhole(out, token + "\n", 0600), "--out");
  std::printf("%s\n", token.c_str());
  return OkStatus();
}

// A secret that another one replaces is lost, and with it what its tokens are good for.
Status HandOutSecret(const std::string& secret, const std::string& out) {
  std::error_code error;
  if (!out.empty() && std::filesystem::exists(std::filesystem::symlink_status(out, error))) {
    return AlreadyExists("--out: " + out +
                         " is there: a secret in it would be lost, and its tokens useless; name "
                         "another file");
  }
  return HandOut(secret, out);
}

// A token of a role and nothing else: no secret, which claims every role.
bool HoldsIssuedToken(const std::string& file) {
  const auto read = ReadSmallFile(file, kMaxTokenFile);
  if (!read.ok()) return false;
  const std::string word(absl::StripAsciiWhitespace(read->content));
  return ClaimedRoles(word) != kEveryRole &&
         std::all_of(word.begin(), word.end(), absl::ascii_isgraph);
}

// A token may be renewed in its file. What else is a file there would be lost.
Status HandOutToken(const std::string& token, const std::string& out) {
  std::error_code error;
  if (std::filesystem::is_regular_file(out, error) && !HoldsIssuedToken(out)) {
    return AlreadyExists("--out: " + out +
                         " is there and holds no token that `ringwood token issue` made: what is "
                         "in it would be lost; name another file");
  }
  return HandOut(token, out);
}

StatusOr<std::string> FindJobSecret(const CommandContext& context, const TokenFlags& flags) {
  const bool stores = !flags.store.empty() && flags.token_file.empty();
  RW_ASSIGN_OR_RETURN(
      const std::string secret,
      stores ? SecretLeftOn(flags.store) : FindToken(context.environment, flags.token_file));
  if (secret.empty()) {
    return Invalid(
        "which secret? Give it with --token-file or RINGWOOD_TOKEN_FILE, or its directory "
        "of checkpoints with --store while its server runs");
  }
  if (ClaimedRoles(secret) != kEveryRole) {
    return Invalid(absl::StrFormat(
        "a token of the role %s makes no tokens: give the job's secret, as its server has it",
        RoleNames(ClaimedRoles(secret))));
  }
  if (stores) return secret;
  const std::string file = TokenFileOf(context.environment, flags.token_file);
  RW_RETURN_IF_ERROR(CheckSecret(secret, file.empty() ? "RINGWOOD_TOKEN" : file));
  return secret;
}

Status Issue(const CommandContext& context, const TokenFlags& flags) {
  RW_ASSIGN_OR_RETURN(const std::string secret, FindJobSecret(context, flags));
  RW_ASSIGN_OR_RETURN(const CallerRole role, ParseRole(flags.role));
  const StatusOr<double> seconds = ParseDuration(flags.lasts);
  if (!seconds.ok()) return Annotate(seconds.status(), "--for");
  const int64_t expires = std::time(nullptr) + std::max<int64_t>(1, static_cast<int64_t>(*seconds));
  RW_RETURN_IF_ERROR(HandOutToken(IssueToken(secret, role, expires, Unpredictable()), flags.out));
  std::fprintf(stderr, "a token of the role %s until %s\n", flags.role.c_str(),
               UtcText(expires).c_str());
  return OkStatus();
}

void AddOutFlag(Command command, TokenFlags* flags, const std::string& file) {
  command
      .Value("--out", &flags->out,
             "Write it to " + file + ", which others cannot read; without it to standard output")
      .Takes("FILE");
}

void AddIssue(Command parent, CommandContext* context) {
  Command command = parent.Subcommand(
      "issue", "Make a token of a role from a job's secret; servers refuse it once it has expired");
  command.Footer("Example: ringwood token issue --role observer --for 8h --store ./store");
  auto flags = std::make_shared<TokenFlags>();
  command
      .Value("--role", &flags->role,
             "Let its bearer take part as a rank, as a server, or only read status, metrics and "
             "weights")
      .OneOf({"rank", "server", "observer"})
      .ShowDefault();
  command.Value("--for", &flags->lasts, "Let it expire after this time: 90s, 30m, 8h, 7d")
      .Takes("TIME")
      .ShowDefault();
  AddTokenFileFlag(command, "the job's secret", &flags->token_file);
  command
      .Value("--store", &flags->store,
             "Find the secret in this checkpoint directory, where the job's server left it for "
             "this user")
      .Takes("DIRECTORY");
  AddOutFlag(command, flags.get(), "this file, new or with an older token");
  command.Run(context, [context, flags] { return Issue(*context, *flags); });
}

Status MakeJobSecret(const CommandContext& context, const TokenFlags& flags) {
  RW_RETURN_IF_ERROR(CheckJobName(flags.job));
  RW_ASSIGN_OR_RETURN(const std::string secret, FindJobSecret(context, flags));
  if (!JobOfToken(secret).empty()) {
    return Invalid("the secret is that of the job " + std::string(JobOfToken(secret)) +
                   ": give the deployment's, as its servers have it");
  }
  return HandOutSecret(JobSecret(secret, flags.job), flags.out);
}

void AddJob(Command parent, CommandContext* context) {
  Command command =
      parent.Subcommand("job", "Make the secret of one job of a deployment from the deployment's");
  auto flags = std::make_shared<TokenFlags>();
  command.Value("name", &flags->job, "The job: letters, digits, '-' and '_'")
      .Takes("NAME")
      .Required();
  AddTokenFileFlag(command, "the deployment's secret", &flags->token_file);
  command
      .Value("--store", &flags->store,
             "Find the secret in this directory, where the deployment left it for this user")
      .Takes("DIRECTORY");
  AddOutFlag(command, flags.get(), "this new file");
  command.Run(context, [context, flags] { return MakeJobSecret(*context, *flags); });
}

void AddNew(Command parent, CommandContext* context) {
  Command command = parent.Subcommand("new", "Make a job's secret, for --token-file of its server");
  auto flags = std::make_shared<TokenFlags>();
  AddOutFlag(command, flags.get(), "this new file");
  command.Run(context, [flags] { return HandOutSecret(NewSecret(), flags->out); });
}

}  // namespace

void AddTokenCommand(Command app, CommandContext* context) {
  Command parent = app.Subcommand("token", "Make the secret of a job, and tokens from it");
  parent.NeedsSubcommand();
  AddNew(parent, context);
  AddJob(parent, context);
  AddIssue(parent, context);
}

}  // namespace ringwood

#include "cli/flags/access_flags.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "base/clock.h"
#include "proto/job_token.h"
#include "proto/token.h"
#include "proto/token_file.h"

namespace ringwood {
namespace {

// What a server left for this user in its store; "" where it is not there.
std::string LeftIn(const std::string& name) {
  std::ifstream file(name);
  std::string word;
  file >> word;
  return word;
}

// What the server of a store left there.
struct Left {
  Left() = default;
  explicit Left(const std::string& in) : token(LeftIn(TokenFile(in))), folder(in) {
    std::ifstream(AddressFile(in)) >> address >> start;
  }
  std::string address, start, token;
  std::string folder;  // in which its identity is named
};

struct DeployedJob {
  std::string deployment;  // its store
  std::string job;
};

// "…/jobs/NAME" is the folder of a job of a deployment, which takes the job's address and secret
// away when it closes the job; the next call opens it again. The deployment's own files stay, two
// folders up.
std::optional<DeployedJob> DeployedJobOf(const std::string& store) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(store, error).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  const std::string job = folder.filename();
  if (folder.parent_path().filename() != "jobs" || !CheckJobName(job).ok() ||
      !std::filesystem::is_directory(folder, error)) {
    return std::nullopt;
  }
  return DeployedJob{folder.parent_path().parent_path(), job};
}

std::optional<Left> LeftByDeployment(const std::string& store) {
  const std::optional<DeployedJob> found = DeployedJobOf(store);
  if (!found.has_value()) return std::nullopt;
  Left left(found->deployment);
  if (left.address.empty()) return std::nullopt;
  if (!left.token.empty()) left.token = JobSecret(left.token, found->job);
  return left;
}

Left LeftOn(const std::string& store) {
  const Left left(store);
  return left.address.empty() ? LeftByDeployment(store).value_or(left) : left;
}

Status NotOn(const std::string& store, const std::string& what) {
  std::error_code error;
  const auto type = std::filesystem::status(store, error).type();
  if (type == std::filesystem::file_type::not_found) {
    return NotFound("--store: " + store + " does not exist");
  }
  const bool is_store = std::filesystem::exists(store + "/FORMAT", error);
  return NotFound("--store: no " + what + " runs on " + store + ", or it is another user's" +
                  (is_store ? "; what it has is read without one: `ringwood checkpoint list "
                              "--store " +
                                  store + "`, `ringwood checkpoint export`"
                            : ""));
}

StatusOr<std::string> AddressOf(const ServerAccess& access, const Left& left) {
  if (!access.server.empty()) return access.server;
  if (access.store.empty()) {
    return Invalid(
        "which server? Give --server HOST:PORT, or its directory of checkpoints with --store");
  }
  if (!left.address.empty()) return left.address;
  return NotOn(access.store, "server");
}

bool UsesStoresToken(const ServerAccess& access) {
  return !access.store.empty() && access.token_file.empty();
}

StatusOr<std::string> TokenOf(const Environment& environment, const ServerAccess& access,
                              const Left& left) {
  if (!UsesStoresToken(access)) return FindToken(environment, access.token_file);
  if (!left.token.empty() || !left.address.empty()) return left.token;
  return NotOn(access.store, "server with a token");
}

std::string TokenNow(const Access& access) {
  return access.token == nullptr ? "" : access.token->At(Now());
}

}  // namespace

void AddTokenFileFlag(Command command, const std::string& what, std::string* token_file) {
  command
      .Value("--token-file", token_file,
             "Read " + what +
                 " from this file, which others cannot read; without it RINGWOOD_TOKEN or the "
                 "file of RINGWOOD_TOKEN_FILE")
      .Takes("FILE");
}

Flag AddIdentityFlag(Command command, std::string* identity, const std::string& otherwise) {
  return command
      .Value("--identity", identity,
             "Speak mutual TLS, with the certificate in this folder (ca.pem, cert.pem, key.pem)" +
                 otherwise)
      .Takes("FOLDER")
      .From("RINGWOOD_IDENTITY");
}

void AddServerAccessFlags(Command command, const std::string& names, const std::string& who,
                          ServerAccess* access) {
  Flag server = command.Value(names, &access->server, "Ask the " + who + " at this HOST:PORT")
                    .Takes("ADDRESS")
                    .From("RINGWOOD_COORDINATOR");
  const Flag store =
      command
          .Value("--store", &access->store,
                 "Find the " + who +
                     " and its token in this checkpoint directory, where it left them for this "
                     "user; wins over RINGWOOD_COORDINATOR and RINGWOOD_IDENTITY")
          .Takes("DIRECTORY");
  AddTokenFileFlag(command, "a token of the job", &access->token_file);
  Flag identity =
      AddIdentityFlag(command, &access->identity, "; with --store that of the server by default");
  // A token is sent to whom the command line names, and to nobody whom a job's environment does.
  server.YieldsTo(store);
  identity.YieldsTo(store);
}

StatusOr<FoundServer> FindServer(const Environment& environment, const ServerAccess& access) {
  const Left left = access.store.empty() ? Left() : LeftOn(access.store);
  FoundServer found;
  if (access.server.empty()) found.start = left.start;
  RW_ASSIGN_OR_RETURN(found.address, AddressOf(access, left));
  RW_ASSIGN_OR_RETURN(const std::string token, TokenOf(environment, access, left));
  const std::string token_file =
      UsesStoresToken(access) ? "" : TokenFileOf(environment, access.token_file);
  const bool kept = access.identity.empty() && !access.store.empty();
  found.identity = kept ? KeptIdentity(left.folder) : access.identity;
  RW_ASSIGN_OR_RETURN(const auto credentials, OpenCredentials(found.identity));
  found.access = Access(token, credentials, token_file);
  return found;
}

std::optional<FoundServer> FindAnother(const Environment& environment, const ServerAccess& access,
                                       const FoundServer& known) {
  if (access.store.empty() || !access.server.empty()) return std::nullopt;
  StatusOr<FoundServer> found = FindServer(environment, access);
  if (!found.ok()) return std::nullopt;  // as while it is being started again
  const bool same = found->address == known.address && found->start == known.start &&
                    found->identity == known.identity &&
                    TokenNow(found->access) == TokenNow(known.access);
  if (same) return std::nullopt;
  return *std::move(found);
}

StatusOr<std::string> SecretLeftOn(const std::string& store) {
  StatusOr<std::string> own = ReadTokenFile("--store", TokenFile(store));
  if (own.status().code() != StatusCode::kNotFound) return own;
  if (const auto of = DeployedJobOf(store); of.has_value()) {
    const auto whole = ReadTokenFile("--store", TokenFile(of->deployment));
    if (whole.ok()) return JobSecret(*whole, of->job);
    if (whole.status().code() != StatusCode::kNotFound) return whole;
  }
  return NotFound(Message(own.status()) +
                  "; a server leaves its secret there for this user while it runs: give the "
                  "--store of one that runs, or the secret with --token-file");
}

}  // namespace ringwood

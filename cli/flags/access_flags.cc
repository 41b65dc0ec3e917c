#include "cli/flags/access_flags.h"

#include <fstream>

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

Status NotOn(const std::string& store, const std::string& what) {
  return NotFound("--store: no " + what + " runs on " + store + ", or it is another user's");
}

StatusOr<std::string> AddressOf(const ServerAccess& access) {
  if (!access.server.empty()) return access.server;
  if (access.store.empty()) {
    return Invalid(
        "which server? Give --server HOST:PORT, or its directory of checkpoints with --store");
  }
  const std::string address = LeftIn(AddressFile(access.store));
  if (!address.empty()) return address;
  return NotOn(access.store, "server");
}

StatusOr<std::string> TokenOf(const Environment& environment, const ServerAccess& access) {
  if (access.store.empty()) return FindToken(environment, access.token_file);
  const std::string token = LeftIn(TokenFile(access.store));
  if (!token.empty() || !LeftIn(AddressFile(access.store)).empty()) return token;
  return NotOn(access.store, "server with a token");
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

void AddIdentityFlag(Command command, std::string* identity, const std::string& otherwise) {
  command
      .Value("--identity", identity,
             "Speak mutual TLS, with the certificate in this folder (ca.pem, cert.pem, key.pem)" +
                 otherwise)
      .Takes("FOLDER")
      .From("RINGWOOD_IDENTITY");
}

void AddServerAccessFlags(Command command, const std::string& names, const std::string& who,
                          ServerAccess* access) {
  command.Value(names, &access->server, "Ask the " + who + " at this HOST:PORT")
      .Takes("ADDRESS")
      .From("RINGWOOD_COORDINATOR");
  command
      .Value("--store", &access->store,
             "Find the " + who +
                 " and its token in this checkpoint directory, where it left them for this user")
      .Takes("DIRECTORY");
  AddTokenFileFlag(command, "a token of the job", &access->token_file);
  AddIdentityFlag(command, &access->identity, "; with --store that of the server by default");
}

StatusOr<FoundServer> FindServer(const Environment& environment, const ServerAccess& access) {
  FoundServer found;
  RW_ASSIGN_OR_RETURN(found.address, AddressOf(access));
  RW_ASSIGN_OR_RETURN(const std::string token, TokenOf(environment, access));
  const std::string token_file =
      access.store.empty() ? TokenFileOf(environment, access.token_file) : "";
  const bool kept = access.identity.empty() && !access.store.empty();
  RW_ASSIGN_OR_RETURN(const auto credentials,
                      OpenCredentials(kept ? KeptIdentity(access.store) : access.identity));
  found.access = Access(token, credentials, token_file);
  return found;
}

}  // namespace ringwood

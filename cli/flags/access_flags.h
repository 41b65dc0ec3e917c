// How a command is let into a job: the flags that name a secret or token and a certificate, and
// where a server has left both for this user.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "cli/flags/flags.h"
#include "launch/hosts.h"
#include "proto/access.h"

namespace ringwood {

// --token-file, as FindToken (proto/token_file.h) takes it; `what` is read from the file, "the
// job's secret".
void AddTokenFileFlag(Command command, const std::string& what, std::string* token_file);

// --identity, the folder of a certificate; `otherwise` ends the help: what holds without it.
Flag AddIdentityFlag(Command command, std::string* identity, const std::string& otherwise = "");

// What a command is given to find a server of a job, and to be let in there.
struct ServerAccess {
  std::string server;      // HOST:PORT; empty: the store says it
  std::string store;       // a directory in which the server left its address and token
  std::string token_file;  // empty: the store's, without a store as FindToken finds it
  std::string identity;    // folder of a certificate; empty: that which the store names, or none
};

// --store, --token-file, --identity, and the server's address as `names`; the help calls it `who`.
void AddServerAccessFlags(Command command, const std::string& names, const std::string& who,
                          ServerAccess* access);

struct FoundServer {
  std::string address;  // as it was given, or as the server left it
  Access access;
  std::string identity;  // folder of the certificate in `access`; empty: none
  // Of whom the address in the store is (proto/server_start.h); empty: not known, nor is it where
  // the command line names the server.
  std::string start;
};

// Invalid: neither a server nor a store is named. NotFound: no server runs on the store, or its
// token is another user's.
StatusOr<FoundServer> FindServer(const Environment& environment, const ServerAccess& access);

// Where the store names another server, or lets in with something else, than `known`: that one, as
// a coordinator that is started again is another. Nothing where the command line names the server.
std::optional<FoundServer> FindAnother(const Environment& environment, const ServerAccess& access,
                                       const FoundServer& known);

// The secret that a server left for this user in its store; of a closed job of a deployment it is
// made from the deployment's. NotFound: there is none, and what to do.
StatusOr<std::string> SecretLeftOn(const std::string& store);

}  // namespace ringwood

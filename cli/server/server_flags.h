// The flags of `ringwood server`: as they are given, before anything is read or checked that needs
// more than one of them.
#pragma once

#include <cstdint>
#include <string>

#include "cli/flags/flags.h"
#include "server/server_options.h"

namespace ringwood {

struct ServerFlags {
  ServerOptions server;  // what is taken as it stands; ServerOptionsGiven completes it
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
  int servers = -1;    // not given
  int of_rank = -1;    // not given
  bool drain = false;  // asked to end it first serves the epoch that runs
  uint64_t keep_checkpoints = kKeptCheckpoints;
};

// `flags` outlives the parsing.
void AddServerFlags(Command command, ServerFlags* flags);

}  // namespace ringwood

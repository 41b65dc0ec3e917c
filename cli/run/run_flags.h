// The flags of `ringwood run`: as they are given, before anything is checked that needs more than
// one of them.
#pragma once

#include <string>
#include <vector>

#include "cli/flags/flags.h"
#include "launch/hosts.h"
#include "launch/run.h"

namespace ringwood {

struct RunFlags {
  int ranks = 0;
  int servers = -1;  // not given
  std::string hosts, host_file;
  std::string rsh = "ssh";
  std::string remote_program;
  std::vector<std::string> exports;
  bool no_server = false, dry_run = false;
  bool tls = false;
  std::string resume_job;
  int max_restarts = -1;  // not given
  bool elastic = false;
  ElasticRun elastic_run;
  Environment session;  // AddSessionFlags
  RunOptions run;       // what is taken as it stands; RunOptionsGiven completes it
};

// `flags` outlives the parsing.
void AddRunFlags(Command command, RunFlags* flags);

}  // namespace ringwood

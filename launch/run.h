// `ringwood run`: starts the servers and the ranks, watches them, restarts them, ends them. The
// decisions are the supervisor's; this is its poll loop.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/hosts.h"
#include "launch/job.h"
#include "launch/output.h"
#include "launch/remote.h"
#include "launch/signals.h"

namespace ringwood {

// A job that goes on when processes end (elastic.h).
struct ElasticRun {
  int min_ranks = 1;  // fewer than these do not train
  int max_ranks = 0;  // more than these do not take part; 0: as many as were asked for
  int spares = 0;     // of the places, the last ones: processes that wait for a rank to fail
  int restarts = 10;  // of one rank lately
  double straggler_grace_seconds = 0;  // 0: the others wait for a rank that is late
  int host_failures = 5;
  double host_cooldown_seconds = 60;
};

struct RunOptions {
  std::vector<HostRanks> places;  // at least one
  std::vector<std::string> command;
  std::string directory;  // the ranks start there
  Reach reach;
  int servers = 1;  // processes, of which the first coordinates; 0: none, ranks only
  // The first server is none of the reducers: no member of the job dies with it.
  bool lone_coordinator = false;
  std::string store;
  int stores = 1;            // of the servers, the first so many keep checkpoints in `store`
  std::string update_log;    // "on" or "fsync"; empty: none is kept
  int keep_checkpoints = 2;  // newest ones of a job
  int keep_every = 0;        // steps, from each multiple of which a checkpoint stays; 0: off
  bool json_log = false;     // --log-format json: of servers, and what is printed here
  std::string http;          // of the first server: HOST:PORT of its status page; empty: none
  std::string http_tls;      // folder with the page's certificate; empty: plaintext
  std::string max_memory;    // of each server's reducer, as 4G; empty: no limit
  double failure_timeout_seconds = 5;
  double join_timeout_seconds = 120;
  double stall_timeout_seconds = 0;       // 0: only a warning
  double coordinator_grace_seconds = -1;  // of servers but the first; negative: by the job's mode
  double grace_seconds = 25;              // that ranks have after a SIGTERM to the launcher
  int max_restarts = 0;
  bool restart_on_failure = false;  // also where the command itself failed
  bool temporary_store = false;     // the first host makes `store`, which is removed at the end
  std::string output_prefix;
  Environment environment;  // of every rank, on top of what it inherits
  RankContext context;      // coordinator and master are filled in as they become known
  // All connections are under mutual TLS, by an authority of this run; `authority` is made by
  // RunJob.
  bool tls = false;
  std::shared_ptr<const Authority> authority = nullptr;
  std::optional<ElasticRun> elastic = std::nullopt;  // without: a failure ends the attempt

  // With the spares.
  int ranks() const { return places.back().first_rank + places.back().count; }
  int reducers() const { return servers - (lone_coordinator ? 1 : 0); }
};

// Runs all attempts of a job. Blocks until everything it started has ended; returns the exit code.
int RunJob(const RunOptions& options);

}  // namespace ringwood

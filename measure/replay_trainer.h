// A trainer without a model: it sleeps for a profile's compute times and exchanges gradients of the
// profile's sizes through a session, as any trainer would. Runs as a rank of a job.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringwood {

struct ReplayOptions {
  std::string profile;  // file
  double forward_seconds = 0;
  double scale = 1;  // of all compute times
  int steps = 5;     // measured
  int warmup = 4;    // before them, not measured: the first two meet new memory
  std::string route = "auto";
  double density = 0.001;
  int servers = 1;  // of the job
  uint64_t seed = 1;
};

struct ReplayResult {
  int rank = 0;
  int world = 1;
  std::string profile;         // its name
  std::string planner;         // of the job
  std::string wire;            // of dense groups
  double compute_seconds = 0;  // forward and backward, as slept
  double predicted_seconds = 0;
  double median_seconds = 0;
  std::vector<double> step_seconds;  // of the slowest rank in each step
  std::vector<double> busy_cores;    // of this rank's host in each step, by whatever
  uint64_t bytes_per_worker_per_step = 0;
  bool operator==(const ReplayResult&) const = default;
};

// Opens the session that `environment` describes. Blocks for the whole run; after an error the
// other ranks have been told of it.
StatusOr<ReplayResult> RunReplay(const ReplayOptions& options,
                                 const std::map<std::string, std::string>& environment);

// One line of JSON without its newline | a few lines for people.
std::string ToJson(const ReplayOptions& options, const ReplayResult& result);
std::string ToText(const ReplayResult& result);

}  // namespace ringwood

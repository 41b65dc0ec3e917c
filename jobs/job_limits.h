// What a job of a deployment may take, and where the operator says so. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"

namespace ringwood {

struct JobLimits {
  uint64_t memory_bytes = 0;       // of each of its reducers; 0: no limit
  uint64_t store_bytes = 0;        // of its directory in the store; 0: no limit
  uint64_t keep_checkpoints = 2;   // newest good ones, 2 at least
  uint64_t keep_every = 0;         // and the first from each multiple of so many steps; 0: none
  double calls_per_second = 5000;  // on average; a burst of twice as many is allowed
  uint64_t open_calls = 16'384;    // at once: a world of 4,096 ranks needs three times as many

  bool operator==(const JobLimits&) const = default;
};

// A line a job: "NAME memory=4G store=200G keep=3 every=1000 calls=500 open=1000", where what is
// not said is as in `defaults`; '#' begins a comment. Errors name `source` and the line.
StatusOr<std::map<std::string, JobLimits>> ParseJobLimits(const std::string& text,
                                                          const std::string& source,
                                                          const JobLimits& defaults);

}  // namespace ringwood

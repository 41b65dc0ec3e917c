// One rank of `ringwood bench sparse`: sparse all-reduces alone (encode, tree, decode), without
// selection and votes, over the reducers and the network of the job it runs in.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringwood {

struct SparseBenchOptions {
  uint64_t elements = 16000000;
  std::vector<uint64_t> entries = {25000, 250000};  // of each worker; measured in turn
  int rounds = 15;
  int fanout = 8;
  std::string codec = "block16/fp32";
  std::string merge = "gtopk";
};

struct SparseBenchCase {
  uint64_t k = 0;
  int shards = 1;
  double median_seconds = 0;  // per round, of the slowest rank: from a barrier to its end
  // Bytes per round through the busiest host's NIC, in the busier direction, as the kernel counts
  // them (headers included); 0 on loopback.
  double nic_bytes = 0;
  double worker_bytes = 0;  // payload that the busiest worker sends
};

struct SparseBenchResult {
  int rank = 0;
  int workers = 1;
  int servers = 0;
  std::vector<SparseBenchCase> cases;
};

// Joins, measures, leaves. Every rank runs the same cases.
StatusOr<SparseBenchResult> RunSparseBench(const SparseBenchOptions& options,
                                           const std::map<std::string, std::string>& environment);

}  // namespace ringwood

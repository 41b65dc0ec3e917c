// Times all-reduce on one rank of a job that is already connected; every rank calls it with the
// same options. Figures as nccl-tests defines them: algbw = S/t, busbw = algbw · 2(P-1)/P.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/loop.h"
#include "transport/transport.h"

namespace ringwood {

struct BenchOptions {
  int rank = 0;
  int world = 1;
  std::vector<uint64_t> bytes;  // of the tensor; rounded down to whole floats
  std::string wire = "fp32";
  int runs = 0;              // of every size; 0 = chosen by size, 5 to 50
  uint64_t first_round = 1;  // rounds used: as many as all runs together, and one more each size
};

struct BenchRow {
  uint64_t bytes = 0;
  int runs = 0;
  double p50_s = 0;
  double p99_s = 0;
  double algbw_gbit = 0;
  double busbw_gbit = 0;
  double cpu_s_per_gb = 0;  // of this process, per 10^9 bytes of tensor
};

// From a thread that is not the loop's. Every run starts when all ranks have finished the previous
// one (the all-reduce itself sees to that within a hop); the first of each size is a warm-up.
StatusOr<std::vector<BenchRow>> BenchAllReduce(Loop* loop, Transport* transport,
                                               const BenchOptions& options);

// {"results": [{"bytes": …, "p50_s": …, …}]}
std::string ToJson(const std::vector<BenchRow>& rows);

}  // namespace ringwood

// Times all-reduce on one rank of a job that is already connected. Figures as nccl-tests defines
// them: algbw = S/t, busbw = algbw · 2(P-1)/P.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "dense/choose.h"
#include "transport/transport.h"

namespace ringwood {

struct BenchOptions {
  int rank = 0;
  int world = 1;
  std::string wire = "fp32";
  uint64_t chunk_bytes = 0;  // of a ring; 0 = schedule and chunks chosen by size
  Hosts hosts = {};          // of the ranks; none: each on its own
  std::optional<Strategy> strategy = std::nullopt;  // nothing: chosen by size
  HopCost cost = {};                                // of the choice
};

struct BenchSamples {
  std::vector<double> seconds;  // of each run, on this rank
  double cpu_seconds = 0;       // of this process, all runs
};

struct BenchRow {
  uint64_t bytes = 0;
  int runs = 0;
  double p50_s = 0;
  double p99_s = 0;
  double algbw_gbit = 0;
  double busbw_gbit = 0;
  double cpu_s_per_gb = 0;  // of one process, per 10^9 bytes of tensor
};

// All-reduces of one size over a loop and a transport, on one rank; every rank makes the same
// calls.
class AllReduceBench {
 public:
  // `bytes` is rounded down to whole floats. Loop and transport outlive this.
  AllReduceBench(Loop* loop, Transport* transport, const BenchOptions& options, uint64_t bytes);

  uint64_t bytes() const;

  // A warm-up whose sum is checked (with codes there are several), then `runs`, as rounds *round,
  // *round + 1, … Not from the loop's thread. A run starts when all ranks have finished the
  // previous one, which the all-reduce itself ensures within a hop.
  Status Run(int runs, uint64_t* round, BenchSamples* samples);

 private:
  struct Buffers;
  StatusOr<double> RunOnce(uint64_t round);
  Status CheckSum() const;

  Loop* const loop_;
  Transport* const transport_;
  const BenchOptions options_;
  const std::shared_ptr<Buffers> buffers_;  // shared with the callbacks of abandoned runs
};

// Default number of runs of a size: 5 to 50.
int DefaultRuns(uint64_t bytes);

BenchRow Summarize(uint64_t bytes, int world, BenchSamples samples);

// {"bytes": …, "runs": …, "p50_s": …, …}: one row.
std::string ToJson(const BenchRow& row);

}  // namespace ringwood

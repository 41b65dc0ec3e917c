// PyTorch's Gloo as the peer of `ringwood bench allreduce`: a Python process beside each rank that
// runs the all-reduces it is told to, so that both are measured in turn on the same network
// interfaces.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "measure/all_reduce_bench.h"

namespace ringwood {

class Process;

class GlooPeer {
 public:
  ~GlooPeer();  // ends it

  // `environment` is that of a rank (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT); `interface` the
  // network interface, empty: loopback. Returns when the process group is ready on all ranks.
  // Unavailable carries Python's message.
  static StatusOr<std::unique_ptr<GlooPeer>> Start(
      const std::string& python, const std::map<std::string, std::string>& environment,
      const std::string& interface);

  // One warm-up, then `runs` all-reduces of float32 on every rank; adds to `samples`.
  Status Run(uint64_t bytes, int runs, BenchSamples* samples);

 private:
  explicit GlooPeer(std::unique_ptr<Process> process);
  StatusOr<std::string> ReadLine(int runs);  // with the times of so many

  const std::unique_ptr<Process> process_;
  std::string read_;  // not yet consumed
};

}  // namespace ringwood

// A rank of `ringwood bench allreduce`: joins the job, times all-reduces, its peer's in turn with
// them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dense/hop_cost.h"
#include "measure/all_reduce_bench.h"

namespace ringwood {

struct BenchPlan {
  std::vector<uint64_t> bytes = {4 << 10, 64 << 10, 1 << 20, 16 << 20};
  int runs = 0;      // of each size in each turn; 0: by size
  int turns = 5;     // ours, the peer's, ours, …; 1 without a peer
  std::string peer;  // "", "gloo", or "ring": ours, but one ring of all ranks whatever the hosts
  std::string python = "python3";
  bool adapt = false;  // choose schedules by measured costs, as jobs with --adapt do
};

struct BenchResult {
  BenchRow ours;
  BenchRow peer;  // runs = 0: none
  // Of each turn, the peer's median over ours: median, smallest and largest.
  double ratio = 0, ratio_min = 0, ratio_max = 0;
  // Bytes that the NIC of rank 0's host sent, headers included, per byte of the tensor; negative:
  // the job runs on loopback, or the peer is not one of ours.
  double nic_share = -1, peer_nic_share = -1;
};

struct BenchReport {
  int rank = 0;
  int world = 1;
  int hosts = 1;
  std::string wire;
  std::vector<BenchResult> results;
  HopCost cost;                       // used to choose the schedules
  HopCost measured;                   // before the first run
  std::vector<SwitchPoint> switches;  // of `cost`
  std::string chosen, would_choose;   // the switch points of `cost` and of `measured`, as text
};

StatusOr<BenchReport> RunBench(const BenchPlan& plan,
                               const std::map<std::string, std::string>& environment);

std::string ToText(const BenchReport& report);  // a table for people
std::string ToJson(const BenchReport& report);  // {"results": [{…}]}

}  // namespace ringwood

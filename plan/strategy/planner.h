// Planners by name: from what is known of the model and the network to a Plan, with a reason for
// every group. Pure and deterministic: the same input gives the same plan on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/model/cost.h"
#include "plan/plan.h"

namespace ringwood {

struct PlanInput {
  std::vector<TensorSpec> tensors;  // in ready order
  // When each gradient is ready, from the start of backward, non-decreasing. Empty: a fixed profile
  // made from the element counts, so that plans repeat before anything was measured.
  std::vector<double> ready_seconds;
  // Forward time of each tensor's layer; empty: `forward_seconds` shared out like backward.
  std::vector<double> forward_layer_seconds;
  double forward_seconds = 0;
  std::vector<double> selection_seconds;  // measured, of each tensor; empty: `selection`

  int world = 1;                // workers
  Hosts hosts;                  // of the workers; empty: each has one of its own
  int servers = 1;              // reducers; 0: workers exchange entries among themselves
  std::vector<int> node_hosts;  // of workers and reducers (TreeShape::hosts); empty: one each
  int fanout = 0;               // of the reducers; 0: the planner chooses
  Network network;
  std::optional<Cost> ring_cost;  // measured, bytes of a message → s; else the closed form
  std::optional<Cost> tree_cost;  // measured, bytes of one worker's entries → s
  SelectionCost selection{.fixed_seconds = 2e-5, .seconds_per_element = 2e-9};
  std::vector<CodecCost> ring_codecs = {{.name = "fp32"}};  // what the user allows
  bool on_devices = false;  // dense groups are summed by DeviceRings, fp32 as SumsByHost says
  std::string tree_codec = "block16/fp32";
  double entry_bytes = 6.1;  // of tree_codec: 2 + 4, and the block headers
  std::string merge = "gtopk";
  double keep = 0;                 // of a sparse group, as Group has it; 0: by kResultDensity
  uint64_t group_limit_bytes = 0;  // 0: none
  double max_density = 1;          // the user's upper bound on the sparse route
  double lags_max_ratio = 1000;    // c_u of LAGS
  double epsilon = 0.01;           // hybrid: plans this close to the fastest are as good
  double contention = 0.5;         // asc: slow-down of a message beside another (asc.h)
};

// input.hosts, or one for each worker.
Hosts HostsOf(const PlanInput& input);

// The hosts of all nodes where each host of workers in turn has one of `servers` reducers.
std::vector<int> NodeHostsOf(const Hosts& hosts, int servers);

// "hybrid" (the default of live jobs), "exact", "wfbp", "single", "fixed", "mgwfbp", "oasr", "asc",
// "lags", "omgs", "omgs-exact", "dear".
const std::vector<std::string>& PlannerNames();

// Whether jobs can run this planner's plans; the error names the planners whose plans they can run.
// "asc" (two messages at a time) and "dear" (halves of an all-reduce) are for comparison only.
Status CheckRunnable(const std::string& planner);

// kInvalidArgument names the tensor or the number that is wrong. Every tensor is in exactly one
// group, except with "dear", whose plans hold routes "reduce-scatter" and "all-gather", each
// covering all.
StatusOr<Plan> MakePlan(const std::string& planner, const PlanInput& input);

// Everything that MakePlan checks before it decides.
Status Validate(const PlanInput& input);

// Whether a job can run this plan on this table: each tensor in exactly one group, known routes,
// entries and density in agreement, the user's routes respected.
Status Validate(const Plan& plan, const std::vector<TensorSpec>& tensors);

// The fixed profile: when gradients would be ready at 2.5 ns an element and 20 us a tensor.
std::vector<double> FixedProfile(const std::vector<TensorSpec>& tensors);

}  // namespace ringwood

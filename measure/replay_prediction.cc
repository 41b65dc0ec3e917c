#include "measure/replay_prediction.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "absl/strings/str_format.h"
#include "plan/strategy/problem.h"
#include "plan/strategy/profile_input.h"

namespace ringwood {
namespace {

// The wire formats of the plan's dense groups, without the seconds of encoding and decoding, which
// the trainer's own time includes.
std::vector<CodecCost> CodecsOf(const Plan& plan, int world) {
  std::set<std::string> names;
  for (const Group& group : plan.groups) {
    if (group.route == "ring") names.insert(group.codec);
  }
  if (names.empty()) return {RingCodec("fp32", world)};
  std::vector<CodecCost> codecs;
  for (const std::string& name : names) {
    codecs.push_back({.name = name, .wire_ratio = RingCodec(name, world).wire_ratio});
  }
  return codecs;
}

StatusOr<PlanInput> InputFor(const ModelProfile& profile, const PredictionInput& given) {
  PlanInput input = InputOf(profile, given.density);
  input.world = given.world;
  input.hosts = given.hosts;
  input.servers = given.servers;
  input.node_hosts = NodeHostsOf(HostsOf(input), input.servers);  // where the launcher starts them
  input.forward_seconds = given.forward_seconds;
  input.forward_layer_seconds.clear();
  for (double& seconds : input.ready_seconds) seconds *= given.scale;
  for (double& seconds : input.selection_seconds) seconds *= given.scale;
  input.ring_codecs = CodecsOf(given.plan, given.world);
  if (given.world > 1) {
    RW_ASSIGN_OR_RETURN(input.ring_cost, Cost::Table(given.probe.medians));
    const AffineFit& fit = given.probe.fit;
    input.network = NetworkBehind(fit.startup_seconds, fit.seconds_per_byte, HostsOf(input),
                                  input.network.gamma);
  }
  RW_RETURN_IF_ERROR(Validate(input));
  return input;
}

// Groups are packed one after the other, in the order in which their last gradients come.
std::vector<size_t> InReadyOrder(const Plan& plan) {
  std::vector<size_t> order(plan.groups.size());
  std::iota(order.begin(), order.end(), 0);
  const auto last = [&](size_t g) {
    const std::vector<uint32_t>& tensors = plan.groups[g].tensors;
    return tensors.empty() ? 0 : *std::max_element(tensors.begin(), tensors.end());
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return last(a) < last(b); });
  return order;
}

double ElementsOf(const ModelProfile& profile, const Group& group) {
  double elements = 0;
  for (const uint32_t t : group.tensors)
    elements += static_cast<double>(profile.tensors[t].elements);
  return elements;
}

double ModelledSeconds(const Problem& problem, const ModelProfile& profile, const Group& group) {
  if (group.route == "tree") return TreeGroupSeconds(problem, group.k);
  return problem.ring.Seconds(sizeof(float) * ElementsOf(profile, group));
}

// What the warm-up's groups took, over what the model says of them: 1 where nothing was seen.
double Correction(const Problem& problem, const ModelProfile& profile, const Plan& plan, bool tree,
                  double seen) {
  double modelled = 0;
  for (const Group& group : plan.groups) {
    if ((group.route == "tree") == tree) modelled += ModelledSeconds(problem, profile, group);
  }
  return seen > 0 && modelled > 0 ? seen / modelled : 1;
}

Status CheckTensors(const ModelProfile& profile, const Plan& plan) {
  for (const Group& group : plan.groups) {
    for (const uint32_t t : group.tensors) {
      if (t < profile.tensors.size()) continue;
      return Invalid(
          absl::StrFormat("prediction: the plan names tensor %d of %d", t, profile.tensors.size()));
    }
  }
  return OkStatus();
}

}  // namespace

// Each route is a lane of its own; the warm-up's figures include that they share the NIC.
StatusOr<double> PredictStep(const ModelProfile& profile, const PredictionInput& given) {
  RW_RETURN_IF_ERROR(CheckTensors(profile, given.plan));
  RW_ASSIGN_OR_RETURN(const PlanInput input, InputFor(profile, given));
  const Problem problem = MakeProblem(input);
  const ReplayCosts& costs = given.costs;
  const double ring = Correction(problem, profile, given.plan, false, costs.ring_seconds);
  const double tree = Correction(problem, profile, given.plan, true, costs.tree_seconds);
  double compute_free = 0, ring_free = 0, tree_free = 0;
  for (const size_t g : InReadyOrder(given.plan)) {
    const Group& group = given.plan.groups[g];
    const bool sparse = group.route == "tree";
    double ready = 0;
    for (const uint32_t t : group.tensors) ready = std::max(ready, problem.ready[t]);
    compute_free = std::max(compute_free, ready) +
                   ElementsOf(profile, group) *
                       (sparse ? costs.select_seconds_per_element : costs.pack_seconds_per_element);
    double& lane_free = sparse ? tree_free : ring_free;
    lane_free = std::max(lane_free, compute_free) +
                ModelledSeconds(problem, profile, group) * (sparse ? tree : ring);
  }
  return given.forward_seconds + std::max(ring_free, tree_free) + costs.tail_seconds;
}

}  // namespace ringwood

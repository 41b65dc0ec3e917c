#include "launch/replay_prediction.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_format.h"
#include "plan/problem.h"
#include "plan/trace_input.h"

namespace ringwood {
namespace {

// With one codec allowed, the ring's cost is that codec's.
StatusOr<PlanInput> InputFor(const Trace& trace, const PredictionInput& given,
                             const std::string& ring_codec) {
  PlanInput input = InputOf(trace, given.density);
  input.world = given.world;
  input.servers = given.servers;
  input.forward_seconds = given.forward_seconds;
  input.forward_layer_seconds.clear();
  for (double& seconds : input.ready_seconds) seconds *= given.scale;
  for (double& seconds : input.selection_seconds) seconds *= given.scale;
  if (ring_codec == "bf16") input.ring_codecs = {{.name = ring_codec, .wire_ratio = 0.5}};
  if (given.world > 1) {
    RW_ASSIGN_OR_RETURN(input.ring_cost, Cost::Table(given.probe.medians));
    input.network = NetworkFromRing(given.probe.fit, given.world, input.network.gamma);
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

}  // namespace

// The routes share each host's card, so groups are taken to run one after the other.
StatusOr<double> PredictStep(const Trace& trace, const PredictionInput& given) {
  std::string codec = "fp32";
  for (const Group& group : given.plan.groups) {
    if (group.route == "ring") codec = group.codec;
  }
  RW_ASSIGN_OR_RETURN(const PlanInput input, InputFor(trace, given, codec));
  const Problem problem = MakeProblem(input);
  double compute_free = 0;
  double card_free = 0;
  for (const size_t g : InReadyOrder(given.plan)) {
    const Group& group = given.plan.groups[g];
    const bool tree = group.route == "tree";
    double ready = 0;
    double elements = 0;
    for (const uint32_t t : group.tensors) {
      if (t >= trace.tensors.size()) {
        return Invalid(
            absl::StrFormat("prediction: the plan names tensor %d of %d", t, trace.tensors.size()));
      }
      ready = std::max(ready, problem.ready[t]);
      elements += static_cast<double>(trace.tensors[t].elements);
    }
    compute_free =
        std::max(compute_free, ready) + elements * (tree ? given.costs.select_seconds_per_element
                                                         : given.costs.pack_seconds_per_element);
    card_free =
        std::max(card_free, compute_free) + (tree ? TreeGroupSeconds(problem, group.k)
                                                  : problem.ring.Seconds(sizeof(float) * elements));
  }
  return given.forward_seconds + card_free + given.costs.tail_seconds;
}

}  // namespace ringwood

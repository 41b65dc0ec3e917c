#include "launch/replay_prediction.h"

#include <algorithm>

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

}  // namespace

// The routes share each host's card, so groups are taken to run one after the other.
StatusOr<double> PredictStep(const Trace& trace, const PredictionInput& given) {
  std::string codec = "fp32";
  for (const Group& group : given.plan.groups) {
    if (group.route == "ring") codec = group.codec;
  }
  RW_ASSIGN_OR_RETURN(const PlanInput input, InputFor(trace, given, codec));
  const Problem problem = MakeProblem(input);
  double free = 0;
  for (const Group& group : given.plan.groups) {
    double ready = 0;
    double bytes = 0;
    for (const uint32_t t : group.tensors) {
      if (t >= trace.tensors.size()) {
        return Invalid(
            absl::StrFormat("prediction: the plan names tensor %d of %d", t, trace.tensors.size()));
      }
      const double selection = group.route == "tree" ? SelectionSeconds(problem, t) : 0;
      ready = std::max(ready, problem.ready[t] + selection);
      bytes += sizeof(float) * static_cast<double>(trace.tensors[t].elements);
    }
    free = std::max(free, ready) + (group.route == "tree" ? TreeGroupSeconds(problem, group.k)
                                                          : problem.ring.Seconds(bytes));
  }
  return given.forward_seconds + free;
}

}  // namespace ringwood

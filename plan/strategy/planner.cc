#include "plan/strategy/planner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "plan/strategy/problem.h"
#include "sparse/entries.h"

namespace ringwood {
namespace {

constexpr size_t kMaxTensors = 1 << 20;  // far above any model; bounds tables and messages
constexpr uint64_t kMaxElements = uint64_t{1} << 40;  // of one tensor
constexpr int kMaxNodes = 1 << 20;
constexpr double kMostRatio = 1e12;  // far above any that means something

struct DenseStrategy {
  const char* name;
  std::vector<size_t> (*choose)(const LaneInput&);
};
constexpr DenseStrategy kDense[] = {{"wfbp", Wfbp},     {"single", Single}, {"fixed", Fixed},
                                    {"mgwfbp", MgWfbp}, {"oasr", Oasr},     {"exact", Exact}};

Plan PlanDense(const DenseStrategy& strategy, const Problem& problem) {
  std::vector<uint32_t> dense, sparse;  // the second only by the user's word
  for (uint32_t t = 0; t < problem.input->tensors.size(); ++t) {
    (problem.input->tensors[t].route == "sparse" ? sparse : dense).push_back(t);
  }
  const LaneInput lane = RingLane(problem, dense);
  Grouping grouping = Play(lane, strategy.choose(lane));
  Explain(lane, grouping);
  std::vector<Group> groups = RingGroups(problem, dense, grouping);
  for (Group& group : TreeGroups(problem, sparse)) groups.push_back(std::move(group));
  return Finish(strategy.name, problem, std::move(groups));
}

Status CheckTensor(const TensorSpec& tensor, double max_density) {
  if (tensor.elements == 0 || tensor.elements > kMaxElements) {
    return Invalid(absl::StrFormat("tensor %s: %d elements; 1 to 2^40 are possible", tensor.name,
                                   tensor.elements));
  }
  if (!(tensor.density > 0 && tensor.density <= 1)) {
    return Invalid(
        absl::StrFormat("tensor %s: density %g is not in (0, 1]", tensor.name, tensor.density));
  }
  if (tensor.route != "dense" && tensor.density > max_density) {
    return Invalid(absl::StrFormat("tensor %s: density %g is above the upper bound, %g",
                                   tensor.name, tensor.density, max_density));
  }
  if (tensor.route != "auto" && tensor.route != "dense" && tensor.route != "sparse") {
    return Invalid(absl::StrFormat("tensor %s: route '%s' is not dense, sparse or auto",
                                   tensor.name, tensor.route));
  }
  if (tensor.route == "sparse" && tensor.elements > kMaxGroupElements) {
    return Invalid(absl::StrFormat(
        "tensor %s: %d elements cannot be sparse, at most %d can; make it dense or cut it",
        tensor.name, tensor.elements, kMaxGroupElements));
  }
  return OkStatus();
}

Status CheckTimes(const std::vector<double>& times, size_t tensors, bool increasing,
                  const char* what) {
  if (times.empty()) return OkStatus();
  if (times.size() != tensors) {
    return Invalid(absl::StrFormat("%d %s for %d tensors", times.size(), what, tensors));
  }
  for (size_t j = 0; j < times.size(); ++j) {
    if (!(times[j] >= 0 && times[j] <= kMostSeconds) ||
        (increasing && j > 0 && times[j] < times[j - 1])) {
      return Invalid(absl::StrFormat("%s: entry %d is %g; they must be 0 to %g s%s", what, j,
                                     times[j], kMostSeconds, increasing ? " and never fall" : ""));
    }
  }
  return OkStatus();
}

Status CheckNumbers(const PlanInput& input) {
  if (input.world < 1 || input.world > kMaxNodes || input.servers < 0 ||
      input.servers > kMaxNodes || input.fanout < 0) {
    return Invalid(absl::StrFormat("world %d with %d servers, fan-out %d cannot be planned",
                                   input.world, input.servers, input.fanout));
  }
  struct Number {
    const char* name;
    double value, most;
  };
  const Network& network = input.network;
  const Number numbers[] = {{"alpha", network.alpha, kMostSeconds},
                            {"beta", network.beta, kMostSecondsPerByte},
                            {"gamma", network.gamma, kMostSecondsPerByte},
                            {"the beta inside a host", network.inside_beta, kMostSecondsPerByte},
                            {"delay", network.delay, kMostSeconds},
                            {"the forward time", input.forward_seconds, kMostSeconds},
                            {"the bytes of an entry", input.entry_bytes, kMostRatio},
                            {"epsilon", input.epsilon, kMostRatio},
                            {"contention", input.contention, kMostRatio},
                            {"the highest ratio of LAGS", input.lags_max_ratio, kMostRatio},
                            {"the highest density", input.max_density, kMostRatio},
                            {"keep", input.keep, kMostRatio}};
  for (const auto& [name, value, most] : numbers) {
    if (!(value >= 0 && value <= most)) {
      return Invalid(
          absl::StrFormat("planner input: %s is %g; it may be 0 to %g", name, value, most));
    }
  }
  if (input.ring_codecs.empty()) return Invalid("planner input: no codec is allowed on the ring");
  return OkStatus();
}

}  // namespace

const std::vector<std::string>& PlannerNames() {
  static const auto& names =
      *new std::vector<std::string>{"wfbp",  "single", "fixed", "mgwfbp", "oasr",       "asc",
                                    "exact", "dear",   "lags",  "omgs",   "omgs-exact", "hybrid"};
  return names;
}

std::vector<double> FixedProfile(const std::vector<TensorSpec>& tensors) {
  constexpr double kSecondsPerElement = 2.5e-9;  // ResNet-50 on a V100: 64 ms for 25.6 M elements
  constexpr double kSecondsPerTensor = 2e-5;
  std::vector<double> ready;
  double now = 0;
  for (const TensorSpec& tensor : tensors) {
    now += kSecondsPerTensor + kSecondsPerElement * static_cast<double>(tensor.elements);
    ready.push_back(now);
  }
  return ready;
}

Status CheckRunnable(const std::string& planner) {
  std::vector<std::string> names = PlannerNames();
  std::erase_if(names, [](const std::string& name) { return name == "asc" || name == "dear"; });
  if (std::find(names.begin(), names.end(), planner) != names.end()) return OkStatus();
  const std::string others = absl::StrJoin(names, ", ");
  if (planner == "asc" || planner == "dear") {
    return Invalid(
        absl::StrFormat("no job can run the plans of the planner '%s', those of these it "
                        "can: %s",
                        planner, others));
  }
  return Invalid(absl::StrFormat("there is no planner '%s', there are %s", planner, others));
}

Status Validate(const PlanInput& input) {
  if (input.tensors.size() > kMaxTensors) {
    return Invalid(absl::StrFormat("%d tensors; at most %d can be planned", input.tensors.size(),
                                   kMaxTensors));
  }
  for (const TensorSpec& tensor : input.tensors) {
    RW_RETURN_IF_ERROR(CheckTensor(tensor, input.max_density));
  }
  RW_RETURN_IF_ERROR(CheckTimes(input.ready_seconds, input.tensors.size(), true, "ready times"));
  RW_RETURN_IF_ERROR(
      CheckTimes(input.forward_layer_seconds, input.tensors.size(), false, "forward times"));
  RW_RETURN_IF_ERROR(
      CheckTimes(input.selection_seconds, input.tensors.size(), false, "selection times"));
  if (!input.hosts.empty() && !IsComplete(input.hosts, input.world)) {
    return Invalid(absl::StrFormat("plan: each of %d workers must be on one host", input.world));
  }
  if (!input.node_hosts.empty() &&
      input.node_hosts.size() != static_cast<size_t>(input.world + input.servers)) {
    return Invalid(absl::StrFormat("plan: the hosts of %d nodes for %d workers and %d servers",
                                   input.node_hosts.size(), input.world, input.servers));
  }
  return CheckNumbers(input);
}

namespace {

StatusOr<Plan> MakePlanOfValid(const std::string& planner, const PlanInput& input) {
  if (const bool one_by_one = planner == "asc" || planner == "dear";
      one_by_one && input.network.delay > 0) {  // a delay is part of each start-up
    PlanInput other = input;
    other.network.alpha += std::exchange(other.network.delay, 0);
    return MakePlanOfValid(planner, other);
  }
  const Problem problem = MakeProblem(input);
  for (const DenseStrategy& strategy : kDense) {
    if (planner == strategy.name) return PlanDense(strategy, problem);
  }
  if (planner == "asc") return PlanAsc(problem);
  if (planner == "dear") return PlanDear(problem);
  if (planner == "lags") return PlanLags(problem);
  if (planner == "omgs") return PlanOmgs(problem, false);
  if (planner == "omgs-exact") return PlanOmgs(problem, true);
  if (planner == "hybrid") {
    return input.ready_seconds.empty() ? PlanFirst(problem) : PlanHybrid(problem);
  }
  return Invalid(absl::StrFormat("no planner is called '%s'; there are: %s", planner,
                                 absl::StrJoin(PlannerNames(), ", ")));
}

}  // namespace

StatusOr<Plan> MakePlan(const std::string& planner, const PlanInput& input) {
  RW_RETURN_IF_ERROR(Validate(input));
  return MakePlanOfValid(planner, input);
}

}  // namespace ringwood

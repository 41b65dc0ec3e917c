#include "client/replan/review.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "plan/density_changes.h"
#include "plan/strategy/nic.h"
#include "plan/strategy/problem.h"
#include "plan/strategy/tree_cost.h"

namespace ringwood {
namespace {

// Sizes at least this far apart tell the start-up from the bytes.
constexpr double kSpread = 4;
constexpr size_t kFewestSamples = 3;

AffineFit Line(const Cost& cost) {
  constexpr double kBytes = 1 << 20;
  AffineFit fit;
  fit.startup_seconds = cost.Seconds(0);
  fit.seconds_per_byte = (cost.Seconds(kBytes) - fit.startup_seconds) / kBytes;
  return fit;
}

double ElementsOf(const Group& group, const std::vector<TensorSpec>& table) {
  double elements = 0;
  for (uint32_t t : group.tensors) elements += static_cast<double>(table[t].elements);
  return elements;
}

double BytesOf(const Group& group, const PlanInput& input) {
  return group.route == "tree" ? input.entry_bytes * static_cast<double>(group.k)
                               : DenseBytes(input.tensors, group.tensors);
}

CodecCost CodecOf(const Group& group, const PlanInput& input) {
  for (const CodecCost& codec : input.ring_codecs) {
    if (codec.name == group.codec) return codec;
  }
  return {.name = group.codec};
}

std::string Text(const AffineFit& fit) {
  return absl::StrFormat("%s + %.2f ns/B", FormatSeconds(fit.startup_seconds),
                         1e9 * fit.seconds_per_byte);
}

// Planners want tensors in ready order; the table keeps its own.
std::vector<uint32_t> ReadyOrder(const Measured& measured) {
  std::vector<uint32_t> order(measured.ready_seconds.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return measured.ready_seconds[a] < measured.ready_seconds[b];
  });
  return order;
}

Plan Renumbered(Plan plan, const std::vector<uint32_t>& to) {
  for (Group& group : plan.groups) {
    for (uint32_t& tensor : group.tensors) tensor = to[tensor];
  }
  return plan;
}

struct Samples {
  std::vector<std::pair<double, double>> ring, tree;  // (bytes, seconds) of the groups
  double selected_elements = 0, selection_seconds = 0;
};

Samples SamplesOf(const PlanQuestion& question, const Measured& measured) {
  Samples samples;
  for (size_t g = 0; g < question.plan.groups.size(); ++g) {
    const Group& group = question.plan.groups[g];
    const double bytes = BytesOf(group, question.input);
    const double seconds = measured.group_seconds[g];
    if (group.route != "tree") {  // the planners know the wire's cost and the codec's apart
      const CodecCost codec = CodecOf(group, question.input);
      const double coding = codec.encode_seconds_per_byte + codec.decode_seconds_per_byte;
      samples.ring.emplace_back(bytes * codec.wire_ratio, std::max(0.0, seconds - bytes * coding));
      continue;
    }
    samples.tree.emplace_back(bytes, seconds);
    samples.selected_elements += ElementsOf(group, question.input.tensors);
    samples.selection_seconds += measured.pack_seconds[g];
  }
  return samples;
}

// What was probed, without the delay.
AffineFit SentIn(const PlanQuestion& question) {
  AffineFit fit = question.ring;
  const Network network{.delay = question.delay};
  const double delay = RingDelay(network, HostsOf(question.input)).seconds;
  fit.startup_seconds = std::max(0.0, fit.startup_seconds - delay);
  return fit;
}

Status CheckFit(const char* route, const AffineFit& fit) {
  for (const double number : {fit.startup_seconds, fit.seconds_per_byte}) {
    if (!std::isfinite(number) || number < 0) {
      return Internal(absl::StrFormat("what was measured of the %s, %g s + %g s/B, is no cost",
                                      route, fit.startup_seconds, fit.seconds_per_byte));
    }
  }
  return OkStatus();
}

// What the planners get, in `order`.
StatusOr<PlanInput> MeasuredInput(const PlanQuestion& question, const Measured& measured,
                                  const std::vector<uint32_t>& order, const AffineFit& ring,
                                  const Samples& samples) {
  PlanInput input = question.input;
  for (size_t i = 0; i < order.size(); ++i) {
    input.tensors[i] = question.input.tensors[order[i]];
    input.ready_seconds.push_back(measured.ready_seconds[order[i]]);
  }
  input.forward_seconds = input.ready_seconds.front();
  for (double& ready : input.ready_seconds) ready -= input.forward_seconds;
  input.network = NetworkBehind(ring.startup_seconds, ring.seconds_per_byte, HostsOf(input),
                                input.network.gamma);
  input.network.delay = question.delay;
  input.ring_cost = ring.cost();
  const int fanout = static_cast<int>(question.plan.fanout);
  const AffineFit tree = Line(TreeCost(input, fanout));
  const AffineFit refined = Refine(tree, samples.tree);
  RW_RETURN_IF_ERROR(CheckFit("tree", refined));
  input.tree_cost = refined.cost();
  if (samples.selected_elements > 0) {
    input.selection = {
        .fixed_seconds = 0,
        .seconds_per_element = samples.selection_seconds / samples.selected_elements};
  }
  return input;
}

// Both in table order; `now`: seconds of the running plan by the model that predicts the other.
bool IsBetter(const PlanQuestion& question, const Plan& better, double now) {
  if (better.predicted_seconds <= (1 - kLeastGain) * now) return true;
  const std::vector<TensorSpec>& table = question.input.tensors;
  return better.predicted_seconds <= (1 + kSameTime) * now &&
         InformationOf(better.groups, table) >=
             kLeastMoreEntries * InformationOf(question.plan.groups, table);
}

std::string Why(const PlanQuestion& question, const Measured& measured, const AffineFit& ring) {
  const std::string costs = "the ring takes " + Text(ring);
  const double own = OwnSeconds(measured);
  const std::string step =
      absl::StrFormat("a step takes %s, %s of it before the first gradient",
                      FormatSeconds(measured.round_seconds), FormatSeconds(own));
  if (question.promised == 0) return "first measurement, " + step + ", " + costs;
  return absl::StrFormat("%s, where %s was predicted (%+.0f %%), %s", step,
                         FormatSeconds(own + question.promised),
                         100 * Drift(question.promised, measured), costs);
}

}  // namespace

double OwnSeconds(const Measured& measured) {
  return *std::min_element(measured.ready_seconds.begin(), measured.ready_seconds.end());
}

double Drift(double promised, const Measured& measured) {
  return measured.round_seconds / (OwnSeconds(measured) + promised) - 1;
}

AffineFit Refine(const AffineFit& before, const std::vector<std::pair<double, double>>& samples) {
  double bytes = 0, seconds = 0, least = 0, most = 0;
  for (const auto& [size, took] : samples) {
    bytes += size;
    seconds += took;
    least = least == 0 ? size : std::min(least, size);
    most = std::max(most, size);
  }
  if (bytes == 0) return before;
  if (samples.size() >= kFewestSamples && most >= kSpread * least) {
    const StatusOr<AffineFit> fit = FitLeastSquares(samples);
    if (fit.ok() && fit->seconds_per_byte > 0) return *fit;
  }
  AffineFit after = before;
  const double startups = before.startup_seconds * static_cast<double>(samples.size());
  if (seconds > startups) {
    after.seconds_per_byte = (seconds - startups) / bytes;
  } else {  // even the start-ups take less than was thought
    const double thought = startups + before.seconds_per_byte * bytes;
    if (thought == 0) return before;  // it was free and is
    const double scale = seconds / thought;
    after.startup_seconds *= scale;
    after.seconds_per_byte *= scale;
  }
  return after;
}

double Predict(const PlanInput& input, const Plan& plan) {
  const Problem problem = MakeProblem(input);
  Nic nic(problem);
  for (Group group : plan.groups) {
    const bool tree = group.route == "tree";
    double ready = 0;
    for (uint32_t t : group.tensors) {
      ready = std::max(ready, problem.ready[t] + (tree ? SelectionSeconds(problem, t) : 0));
    }
    nic.Send(ready, &group);
  }
  const double backward = problem.ready.empty() ? 0 : problem.ready.back();
  return input.forward_seconds + std::max(backward, nic.end());
}

StatusOr<PlanAnswer> Review(const PlanQuestion& question, const Measured& measured) {
  if (question.input.tensors.empty() ||
      measured.ready_seconds.size() != question.input.tensors.size() ||
      measured.group_seconds.size() != question.plan.groups.size()) {
    return Internal("what was measured is of another plan");
  }
  const Samples samples = SamplesOf(question, measured);
  const AffineFit ring = Refine(SentIn(question), samples.ring);
  RW_RETURN_IF_ERROR(CheckFit("ring", ring));
  const std::vector<uint32_t> order = ReadyOrder(measured);
  std::vector<uint32_t> place(order.size());  // in ready order, of each tensor of the table
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  RW_ASSIGN_OR_RETURN(const PlanInput input,
                      MeasuredInput(question, measured, order, ring, samples));
  RW_ASSIGN_OR_RETURN(Plan better, MakePlan(question.planner, input));
  better = AtStage(std::move(better), input.tensors, question.stage);
  const double now = Predict(input, Renumbered(question.plan, place)) + measured.tail_seconds;
  better.predicted_seconds = Predict(input, better) + measured.tail_seconds;
  better = Renumbered(std::move(better), order);
  PlanAnswer answer;
  answer.reason = Why(question, measured, ring);
  answer.promised = measured.round_seconds - OwnSeconds(measured);
  if (Hash(better) == Hash(question.plan) || !IsBetter(question, better, now)) {
    answer.reason += absl::StrFormat("; it stays: %s by its prediction, the best other %s",
                                     FormatSeconds(now), FormatSeconds(better.predicted_seconds));
    return answer;
  }
  answer.reason += absl::StrFormat("; %s by its prediction, %s by the new one's of %d groups",
                                   FormatSeconds(now), FormatSeconds(better.predicted_seconds),
                                   better.groups.size());
  const std::string densities = DensityChanges(question.plan, better, question.input.tensors);
  if (!densities.empty()) answer.reason += "; " + densities;
  answer.promised = better.predicted_seconds - OwnSeconds(measured);
  answer.plan = std::move(better);
  return answer;
}

}  // namespace ringwood

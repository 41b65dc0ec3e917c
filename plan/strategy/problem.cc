#include "plan/strategy/problem.h"

#include <algorithm>

#include "dense/sums_by_host.h"
#include "plan/strategy/tree_cost.h"
#include "sparse/shard.h"
#include "sparse/tree.h"

namespace ringwood {
namespace {

// Whether plain sums go by hosts or over NCCL's ring by how long they are.
bool HasTwoWays(const PlanInput& input) {
  return input.on_devices && !input.ring_cost && input.hosts.size() > 1 &&
         LargestHost(input.hosts) > 1;
}

Cost WireCost(const PlanInput& input, const CodecCost& codec, double bytes) {
  if (input.ring_cost) return *input.ring_cost;
  if (HasTwoWays(input) && codec.name == "fp32" && !SumsByHost(input.hosts, bytes)) {
    return NcclRingCost(input.network, input.hosts);
  }
  return LargestHost(input.hosts) > 1 ? HierarchyCost(input.network, input.hosts)
                                      : RingCost(input.network, input.world);
}

Cost WithCodec(const PlanInput& input, const CodecCost& codec, double bytes) {
  return WireCost(input, codec, bytes)
      .Scaled(codec.wire_ratio, codec.encode_seconds_per_byte + codec.decode_seconds_per_byte);
}

// Of a message of these bytes.
double SecondsWith(const PlanInput& input, const CodecCost& codec, double bytes) {
  return WithCodec(input, codec, bytes).Seconds(bytes);
}

// The lower envelope of all allowed codecs: a table where there is a choice, or two ways.
Cost CheapestCodec(const PlanInput& input) {
  if (input.ring_codecs.size() == 1 && !HasTwoWays(input)) {
    return WithCodec(input, input.ring_codecs[0], 0);
  }
  std::vector<std::pair<double, double>> points;
  for (double bytes = 0; bytes < 0x1p60; bytes = bytes == 0 ? 64 : bytes * 1.25) {
    double least = SecondsWith(input, input.ring_codecs[0], bytes);
    for (const CodecCost& codec : input.ring_codecs) {
      least = std::min(least, SecondsWith(input, codec, bytes));
    }
    points.emplace_back(bytes, least);
  }
  return *Cost::Table(Cost::Monotone(std::move(points)));
}

}  // namespace

Hosts HostsOf(const PlanInput& input) {
  return input.hosts.empty() ? OneEach(input.world) : input.hosts;
}

std::vector<int> NodeHostsOf(const Hosts& hosts, int servers) {
  std::vector<int> numbers(static_cast<size_t>(RanksOf(hosts)));
  for (size_t h = 0; h < hosts.size(); ++h) {
    for (const int rank : hosts[h]) numbers[static_cast<size_t>(rank)] = static_cast<int>(h);
  }
  for (int s = 0; s < servers; ++s) numbers.push_back(s % static_cast<int>(hosts.size()));
  return numbers;
}

double KeepOf(const PlanInput& input, double density) {
  if (input.merge == "union") return 1;  // keeps all in any case
  if (input.keep != 0) return input.keep;
  return std::clamp(kResultDensity / density, 1.0, static_cast<double>(std::max(1, input.world)));
}

double ResultMultiple(const PlanInput& input) {
  double sent = 0, kept = 0;
  for (const TensorSpec& tensor : input.tensors) {
    if (tensor.route == "dense") continue;
    const auto entries = static_cast<double>(EntriesOf(tensor.density, tensor.elements));
    sent += entries;
    kept += entries * KeepOf(input, tensor.density);
  }
  return sent > 0 ? kept / sent : 1;
}

Problem MakeProblem(const PlanInput& input) {
  Problem problem;
  problem.input = &input;
  problem.ready = input.ready_seconds.empty() ? FixedProfile(input.tensors) : input.ready_seconds;
  problem.ring = CheapestCodec(input);
  problem.fanout = static_cast<uint32_t>(BestFanout(input));
  problem.tree =
      input.tree_cost ? *input.tree_cost : TreeCost(input, static_cast<int>(problem.fanout));
  problem.ring_delay = RingDelay(input.network, HostsOf(input));
  problem.tree_delay = TreeDelay(input.network, {.workers = input.world,
                                                 .reducers = input.servers,
                                                 .fanout = static_cast<int>(problem.fanout),
                                                 .hosts = input.node_hosts});
  return problem;
}

double TreeGroupSeconds(const Problem& problem, uint64_t k) {
  return problem.tree.Seconds(problem.input->entry_bytes * static_cast<double>(k));
}

double RingBytes(const Problem& problem, const std::vector<uint32_t>& tensors) {
  return DenseBytes(problem.input->tensors, tensors);
}

double SecondsOf(const Problem& problem, const Group& group) {
  return group.route == "tree" ? TreeGroupSeconds(problem, group.k)
                               : problem.ring.Seconds(RingBytes(problem, group.tensors));
}

double DelayOf(const Problem& problem, const Group& group) {
  return group.route == "tree" ? problem.tree_delay
                               : problem.ring_delay.Of(RingBytes(problem, group.tensors));
}

const CodecCost& BestRingCodec(const Problem& problem, double bytes) {
  const std::vector<CodecCost>& codecs = problem.input->ring_codecs;
  const auto seconds = [&](const CodecCost& codec) {
    return SecondsWith(*problem.input, codec, bytes);
  };
  const CodecCost* best = &codecs[0];
  for (const CodecCost& codec : codecs) {
    if (seconds(codec) < seconds(*best)) best = &codec;
  }
  return *best;
}

LaneInput RingLane(const Problem& problem, const std::vector<uint32_t>& tensors) {
  LaneInput lane;
  lane.cost = problem.ring;
  lane.group_limit_bytes = problem.input->group_limit_bytes;
  lane.delay = problem.ring_delay;
  lane.window = kRingsAtOnce;
  for (const uint32_t t : tensors) {
    lane.ready_seconds.push_back(problem.ready[t]);
    const TensorSpec& tensor = problem.input->tensors[t];
    lane.bytes.push_back(tensor.element_bytes * tensor.elements);
  }
  return lane;
}

std::vector<Group> RingGroups(const Problem& problem, const std::vector<uint32_t>& tensors,
                              const Grouping& grouping) {
  std::vector<Group> groups;
  for (const Run& run : grouping) {
    Group group;
    group.tensors.assign(tensors.begin() + static_cast<ptrdiff_t>(run.first),
                         tensors.begin() + static_cast<ptrdiff_t>(run.last) + 1);
    group.route = "ring";
    group.codec = BestRingCodec(problem, RingBytes(problem, group.tensors)).name;
    group.start_seconds = run.start_seconds;
    group.end_seconds = run.end_seconds;
    group.reason = run.reason;
    groups.push_back(std::move(group));
  }
  return groups;
}

uint64_t EntriesOf(const std::vector<TensorSpec>& table, const std::vector<uint32_t>& tensors,
                   double density) {
  uint64_t k = 0;
  for (const uint32_t t : tensors) k += EntriesOf(density, table[t].elements);
  return k;
}

std::vector<double> BackwardSeconds(const Problem& problem) {
  std::vector<double> seconds;
  double before = 0;
  for (const double ready : problem.ready) {
    seconds.push_back(ready - before);
    before = ready;
  }
  return seconds;
}

std::vector<double> ForwardSeconds(const Problem& problem) {
  const PlanInput& input = *problem.input;
  if (!input.forward_layer_seconds.empty()) return input.forward_layer_seconds;
  std::vector<double> seconds = BackwardSeconds(problem);
  const double backward = problem.ready.empty() ? 0 : problem.ready.back();
  const double count = static_cast<double>(seconds.size());
  for (double& s : seconds) {
    s = backward > 0 ? s / backward * input.forward_seconds : input.forward_seconds / count;
  }
  return seconds;
}

double SelectionSeconds(const Problem& problem, uint32_t tensor) {
  const PlanInput& input = *problem.input;
  if (!input.selection_seconds.empty()) return input.selection_seconds[tensor];
  return input.selection.Seconds(static_cast<double>(input.tensors[tensor].elements));
}

Group TreeGroup(const Problem& problem, std::vector<uint32_t> tensors, double density) {
  Group group;
  group.k = EntriesOf(problem.input->tensors, tensors, density);
  group.tensors = std::move(tensors);
  group.route = "tree";
  group.density = density;
  group.codec = problem.input->tree_codec;
  group.merge = problem.input->merge;
  group.keep = KeepOf(*problem.input, density);
  return group;
}

namespace {

// A ring adds up elements of one type: where a lane has merged two, each goes by itself.
void SplitTypes(const std::vector<TensorSpec>& table, std::vector<Group>* groups) {
  std::vector<Group> split;
  for (Group& group : *groups) {
    const auto is_narrow = [&table](uint32_t t) { return table[t].element_bytes < 4; };
    const auto wide = std::stable_partition(group.tensors.begin(), group.tensors.end(), is_narrow);
    if (group.route != "tree" && wide != group.tensors.begin()) {
      Group narrow = group;
      narrow.tensors.assign(group.tensors.begin(), wide);
      narrow.codec = kOwnType;
      split.push_back(std::move(narrow));
      group.tensors.erase(group.tensors.begin(), wide);
    }
    if (!group.tensors.empty()) split.push_back(std::move(group));
  }
  *groups = std::move(split);
}

}  // namespace

Plan Finish(const std::string& planner, const Problem& problem, std::vector<Group> groups) {
  SplitTypes(problem.input->tensors, &groups);
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.start_seconds < b.start_seconds;
  });
  Plan plan;
  plan.planner = planner;
  plan.fanout = problem.fanout;
  double end = problem.ready.empty() ? 0 : problem.ready.back();
  for (const Group& group : groups) end = std::max(end, group.end_seconds);
  plan.predicted_seconds = problem.input->forward_seconds + end;
  plan.groups = std::move(groups);
  return plan;
}

}  // namespace ringwood

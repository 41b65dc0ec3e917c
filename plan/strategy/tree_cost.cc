#include "plan/strategy/tree_cost.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/strategy/problem.h"
#include "sparse/shard.h"
#include "sparse/tree.h"

namespace ringwood {
double TreeSeconds(const Network& network, int workers, int reducers, int fanout, double bytes,
                   double result) {
  if (workers <= 1) return 0;
  const double wire = network.beta * bytes;
  const double add = network.gamma * bytes;
  if (reducers == 0) return (workers - 1) * (network.alpha + wire);
  const int nodes = workers + reducers;
  const Tree tree({workers, reducers, fanout});
  // Reducers are a heap: a later one is never above an earlier one.
  std::vector<double> up(nodes, 0);
  for (int node = nodes - 1; node >= workers; --node) {
    std::vector<std::pair<double, double>> arrivals;  // when, how many workers' entries
    for (const int child : tree.children(node)) {
      const double sum = std::min<double>(tree.workers_under(child), std::max(1.0, result));
      arrivals.emplace_back(up[child] + network.alpha, sum);
    }
    std::sort(arrivals.begin(), arrivals.end());
    double nic = 0;
    double adder = 0;
    for (const auto& [arrival, sum] : arrivals) {
      nic = std::max(nic, arrival) + sum * wire;
      adder = std::max(adder, nic) + sum * add;
    }
    up[node] = adder;
  }
  std::vector<double> down(nodes, 0);
  double last = 0;
  for (int node = workers; node < nodes; ++node) {
    if (tree.parent(node) < 0) down[node] = up[node];
    for (size_t i = 0; i < tree.children(node).size(); ++i) {
      const int child = tree.children(node)[i];
      down[child] = down[node] + static_cast<double>(i + 1) * result * wire + network.alpha;
      last = std::max(last, down[child]);
    }
  }
  return last;
}

namespace {

constexpr int kMaxFanout = 64;  // beyond it one NIC serves too many children to be worth a search

// The nodes that send to the roots. Amounts are multiples of what one worker sends.
struct Climbers {
  int count = 0;
  double entries = 1;  // that each of them sends, on average
  double nic = 0;      // through the busiest NIC, both ways together
  double inside = 0;   // through the memory of a host that gathers
};

Climbers ClimbersOf(const PlanInput& input) {
  const double result = ResultMultiple(input);
  const Hosts hosts = HostsOf(input);
  if (hosts.size() == 1) return {input.world, 1, 1 + result};
  const TreeShape job{.workers = input.world, .reducers = input.servers, .hosts = input.node_hosts};
  if (!Gathers(job)) return {input.world, 1, LargestHost(hosts) * (1 + result)};
  Climbers climbers;
  double entries = 0;
  for (const std::vector<int>& host : hosts) {
    const auto ranks = static_cast<double>(host.size());
    const bool has_reducer = std::find(job.hosts.begin() + job.workers, job.hosts.end(),
                                       job.hosts[static_cast<size_t>(host[0])]) != job.hosts.end();
    const double messages = has_reducer ? 1 : ranks;
    const double sent = has_reducer ? std::min(ranks, std::max(1.0, result)) : ranks;
    climbers.count += static_cast<int>(messages);
    climbers.nic = std::max(climbers.nic, sent + messages * result);
    if (has_reducer && ranks > 1) climbers.inside = std::max(climbers.inside, ranks * (1 + result));
    entries += sent;
  }
  climbers.entries = entries / climbers.count;
  return climbers;
}

double ShardedSeconds(const PlanInput& input, const Network& network, int fanout, double bytes) {
  const Climbers climbers = ClimbersOf(input);
  const double result = ResultMultiple(input);
  const double most = bytes / input.entry_bytes / static_cast<double>(kMinShardEntries);
  const int shards = static_cast<int>(std::clamp<double>(most, 1, std::max(1, input.servers)));
  const int reducers = input.servers / shards;
  const auto tree = [&](double part) {
    const int levels = climbers.count < input.world ? climbers.count : fanout;
    return TreeSeconds(network, climbers.count, reducers, levels, climbers.entries * part,
                       result / climbers.entries);
  };
  return std::max(tree(bytes / shards), tree(0) + climbers.nic * network.beta * bytes) +
         climbers.inside * network.inside_beta * bytes;
}

}  // namespace

Cost TreeCost(const PlanInput& input, int fanout) {
  if (input.world <= 1) return Cost();
  if (input.servers <= 1) {  // affine
    const auto seconds = [&](double bytes) {
      return TreeSeconds(input.network, input.world, input.servers, fanout, bytes,
                         ResultMultiple(input));
    };
    const double big = 1e9;
    return Cost::Affine(seconds(0), (seconds(big) - seconds(0)) / big);
  }
  std::vector<std::pair<double, double>> points;
  for (double bytes = 0; bytes < 0x1p50; bytes = bytes == 0 ? 64 : bytes * 1.5) {
    points.emplace_back(bytes, ShardedSeconds(input, input.network, fanout, bytes));
  }
  return *Cost::Table(Cost::Monotone(std::move(points)));
}

int BestFanout(const PlanInput& input) {
  if (input.fanout > 0) return input.fanout;
  if (input.servers <= 1 || input.world <= 2) return 8;
  double entries = 0;
  for (const TensorSpec& tensor : input.tensors) {
    entries += static_cast<double>(EntriesOf(tensor.density, tensor.elements));
  }
  const double bytes =
      input.entry_bytes * entries / static_cast<double>(std::max<size_t>(1, input.tensors.size()));
  const double whole = input.entry_bytes * 2 * static_cast<double>(kMinShardEntries);
  Network network = input.network;
  network.alpha += network.delay;  // a level more is a hop more each way
  int best = 2;
  double least = -1;
  for (int fanout = 2;; fanout *= 2) {
    const double seconds = TreeSeconds(network, input.world, input.servers, fanout,
                                       std::min(bytes, whole), ResultMultiple(input));
    if (least < 0 || seconds < least) {
      least = seconds;
      best = fanout;
    }
    if (fanout >= std::min(kMaxFanout, input.world)) break;
  }
  return best;
}

double TreeDelay(const Network& network, const TreeShape& job) {
  const Network hops{.alpha = network.delay, .beta = 0, .gamma = 0};
  // What goes to a reducer on the same host has no delay.
  return TreeSeconds(hops, job.workers, job.reducers, Gathers(job) ? job.workers : job.fanout, 0);
}

}  // namespace ringwood

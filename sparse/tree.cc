#include "sparse/tree.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "base/check.h"

namespace ringwood {
namespace {

// The node of the reducer with this number, counted from `first` on.
int NodeOf(const TreeShape& shape, int number) {
  return shape.workers + (shape.first + number) % shape.reducers;
}

// Workers of each used reducer: fills the reducers with the fewest children first.
std::vector<int> Fill(int workers, int used, int fanout) {
  std::vector<int> children(used, 0);
  for (int r = 1; r < used; ++r) ++children[(r - 1) / fanout];
  // Later reducers are deeper: on a tie they come first, so that the root carries least.
  using Load = std::pair<int, int>;  // children, minus the reducer's number
  std::priority_queue<Load, std::vector<Load>, std::greater<Load>> least;
  for (int r = 0; r < used; ++r) least.emplace(children[r], -r);
  std::vector<int> own(used, 0);
  for (int w = 0; w < workers; ++w) {
    const auto [count, minus_r] = least.top();
    least.pop();
    least.emplace(count + 1, minus_r);
    ++own[-minus_r];
  }
  return own;
}

bool EveryoneHasTwo(const std::vector<int>& own, int fanout) {
  std::vector<int> children = own;
  for (size_t r = 1; r < own.size(); ++r) ++children[(r - 1) / fanout];
  return *std::min_element(children.begin(), children.end()) >= 2;
}

// By host: its workers and its reducers, each in their order.
struct HostNodes {
  std::vector<int> workers, reducers;
};
std::vector<HostNodes> NodesByHost(const TreeShape& shape) {
  std::vector<HostNodes> nodes;
  for (int node = 0; node < static_cast<int>(shape.hosts.size()); ++node) {
    const auto host = static_cast<size_t>(shape.hosts[node]);
    if (host >= nodes.size()) nodes.resize(host + 1);
    (node < shape.workers ? nodes[host].workers : nodes[host].reducers).push_back(node);
  }
  return nodes;
}

bool CanGather(const HostNodes& host) { return host.workers.size() > 1 && !host.reducers.empty(); }

}  // namespace

bool Gathers(const TreeShape& shape) {
  if (shape.workers == 1) return false;
  const std::vector<HostNodes> hosts = NodesByHost(shape);
  return std::any_of(hosts.begin(), hosts.end(), [&](const HostNodes& host) {
    // Some root has to be elsewhere.
    return CanGather(host) && static_cast<int>(host.reducers.size()) < shape.reducers;
  });
}

std::vector<int> ShardsAt(const TreeShape& shape, int node) {
  if (!Gathers(shape)) {
    const int number = (node - shape.workers - shape.first + shape.reducers) % shape.reducers;
    return {number % shape.shards};
  }
  std::vector<int> all(static_cast<size_t>(shape.shards));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<int> HostNumbers(const std::vector<std::string>& names) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const std::string& name : names) {
    hosts.push_back(numbers.emplace(name, static_cast<int>(numbers.size())).first->second);
  }
  return hosts;
}

Tree::Tree(const TreeShape& shape, int shard)
    : workers_(shape.workers),
      parents_(shape.workers + shape.reducers, -1),
      children_(shape.workers + shape.reducers) {
  RW_CHECK(shape.workers >= 1 && shape.reducers >= 0);
  RW_CHECK(shape.shards >= 1 && shape.shards <= std::max(1, shape.reducers));
  RW_CHECK(shard >= 0 && shard < shape.shards);
  RW_CHECK(shape.first >= 0 && shape.first < std::max(1, shape.reducers));
  RW_CHECK(shape.hosts.empty() || shape.hosts.size() == parents_.size());
  if (shape.workers == 1 || shape.reducers == 0) return;
  Gathers(shape) ? GatherByHost(shape, shard) : Heap(shape, shard);
  for (int node = 0; node < static_cast<int>(parents_.size()); ++node) {
    if (parents_[node] != -1) children_[parents_[node]].push_back(node);
  }
}

void Tree::GatherByHost(const TreeShape& shape, int shard) {
  const int root = RootOf(shape, shard);
  const std::vector<HostNodes> hosts = NodesByHost(shape);
  const HostNodes* const root_host = &hosts[static_cast<size_t>(shape.hosts[root])];
  for (const HostNodes& host : hosts) {
    int parent = root;
    if (&host != root_host && CanGather(host)) {
      parent = host.reducers[static_cast<size_t>(shard) % host.reducers.size()];
      parents_[parent] = root;
    }
    for (const int worker : host.workers) parents_[worker] = parent;
  }
}

void Tree::Heap(const TreeShape& shape, int shard) {
  const int fanout = std::max(shape.fanout, 2);
  const int available = (shape.reducers - shard + shape.shards - 1) / shape.shards;
  int used = fanout >= shape.workers ? 1 : std::min(available, shape.workers - 1);
  std::vector<int> own = Fill(shape.workers, used, fanout);
  while (used > 1 && !EveryoneHasTwo(own, fanout)) own = Fill(shape.workers, --used, fanout);
  const auto node_of = [&](int r) { return NodeOf(shape, shard + r * shape.shards); };
  for (int r = 1; r < used; ++r) parents_[node_of(r)] = node_of((r - 1) / fanout);
  int worker = 0;
  for (int r = 0; r < used; ++r) {
    for (int i = 0; i < own[r]; ++i) parents_[worker++] = node_of(r);
  }
}

int Tree::workers_under(int node) const {
  if (node < workers_) return 1;
  int count = 0;
  for (int child : children(node)) count += workers_under(child);
  return count;
}

int RootOf(const TreeShape& shape, int shard) { return NodeOf(shape, shard); }

}  // namespace ringwood

#include "sparse/tree.h"

#include <algorithm>
#include <functional>
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

// What one node does in one shard's tree.
void Append(const Tree& tree, int shard, int node, Schedule* schedule) {
  const int parent = tree.parent(node);
  const std::vector<int>& children = tree.children(node);
  for (int child : children) schedule->push_back({Op::kReceiveReduce, child, shard});
  if (parent != -1) {
    schedule->push_back({Op::kSend, parent, shard});
    schedule->push_back({Op::kReceive, parent, shard});
  }
  for (int child : children) schedule->push_back({Op::kSend, child, shard});
}

Schedule GatherSchedule(const TreeShape& shape, int node) {
  Schedule schedule;
  for (int shift = 1; shift < shape.workers; ++shift) {
    const int from = (node + shape.workers - shift) % shape.workers;
    schedule.push_back({Op::kSend, (node + shift) % shape.workers, node});
    schedule.push_back({Op::kReceive, from, from});
  }
  return schedule;
}

// A worker sends all its shards before it waits for the first of them.
Schedule ScheduleOf(const TreeShape& shape, const std::vector<Tree>& trees, int node) {
  Schedule schedule;
  if (shape.workers == 1) return schedule;
  if (shape.reducers == 0) return GatherSchedule(shape, node);
  for (int shard = 0; shard < shape.shards; ++shard) {
    Append(trees[shard], shard, node, &schedule);
  }
  if (node < shape.workers) {
    std::stable_partition(schedule.begin(), schedule.end(),
                          [](const Step& step) { return step.op == Op::kSend; });
  }
  return schedule;
}

std::vector<Tree> TreesOf(const TreeShape& shape) {
  std::vector<Tree> trees;
  for (int shard = 0; shard < shape.shards; ++shard) trees.emplace_back(shape, shard);
  return trees;
}

}  // namespace

Tree::Tree(const TreeShape& shape, int shard)
    : workers_(shape.workers),
      parents_(shape.workers + shape.reducers, -1),
      children_(shape.workers + shape.reducers) {
  RW_CHECK(shape.workers >= 1 && shape.reducers >= 0);
  RW_CHECK(shape.shards >= 1 && shape.shards <= std::max(1, shape.reducers));
  RW_CHECK(shard >= 0 && shard < shape.shards);
  RW_CHECK(shape.first >= 0 && shape.first < std::max(1, shape.reducers));
  if (shape.workers == 1 || shape.reducers == 0) return;
  const int fanout = std::max(shape.fanout, 2);
  const int available = (shape.reducers - shard + shape.shards - 1) / shape.shards;
  int used = std::min(available, shape.workers - 1);
  std::vector<int> own = Fill(shape.workers, used, fanout);
  while (used > 1 && !EveryoneHasTwo(own, fanout)) own = Fill(shape.workers, --used, fanout);
  const auto node_of = [&](int r) { return NodeOf(shape, shard + r * shape.shards); };
  for (int r = 1; r < used; ++r) parents_[node_of(r)] = node_of((r - 1) / fanout);
  int worker = 0;
  for (int r = 0; r < used; ++r) {
    for (int i = 0; i < own[r]; ++i) parents_[worker++] = node_of(r);
  }
  for (int node = 0; node < static_cast<int>(parents_.size()); ++node) {
    if (parents_[node] != -1) children_[parents_[node]].push_back(node);
  }
}

int Tree::workers_under(int node) const {
  if (node < workers_) return 1;
  int count = 0;
  for (int child : children(node)) count += workers_under(child);
  return count;
}

int ShardOfReducer(const TreeShape& shape, int node) {
  const int number = (node - shape.workers - shape.first + shape.reducers) % shape.reducers;
  return number % shape.shards;
}

int RootOf(const TreeShape& shape, int shard) { return NodeOf(shape, shard); }

std::vector<Schedule> TreeSchedules(const TreeShape& shape) {
  const std::vector<Tree> trees = TreesOf(shape);
  std::vector<Schedule> schedules;
  for (int node = 0; node < shape.workers + shape.reducers; ++node) {
    schedules.push_back(ScheduleOf(shape, trees, node));
  }
  return schedules;
}

}  // namespace ringwood

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
  int used = fanout >= shape.workers ? 1 : std::min(available, shape.workers - 1);
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

namespace {

using Kind = TreeSlot::Kind;

// One node's part, made in the order in which it is run.
class TreeMaker {
 public:
  TreeMaker(const TreeShape& shape, int chunks, const std::vector<Tree>& trees, int node)
      : shape_(shape), chunks_(chunks), trees_(trees), node_(node) {}

  Schedule Worker() {
    // Each worker begins with another range, or all of them would send to one server at a time.
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      for (int i = 0; i < shape_.shards; ++i) {
        const int shard = (node_ + i) % shape_.shards;
        Add(Op::kSend, Parent(shard), {Kind::kEntries, shard, chunk});
      }
    }
    for (int shard = 0; shard < shape_.shards; ++shard) {
      for (int chunk = 0; chunk < chunks_; ++chunk) {
        Add(Op::kReceive, Parent(shard), {Kind::kResult, shard, chunk});
      }
      Add(Op::kReceive, Parent(shard), {Kind::kAccepted, shard});
    }
    return std::move(schedule_);
  }

  Schedule Reducer() {
    const int shard = ShardOfReducer(shape_, node_);
    const std::vector<int>& children = trees_[shard].children(node_);
    if (children.empty()) return {};
    const int parent = Parent(shard);
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      for (const int child : children) {
        Add(Op::kReceiveReduce, child, {Kind::kEntries, shard, chunk});
      }
    }
    for (int chunk = 0; chunk < chunks_ && parent != -1; ++chunk) {
      Add(Op::kSend, parent, {Kind::kEntries, shard, chunk});
    }
    for (int chunk = 0; chunk < chunks_; ++chunk) PassDown({Kind::kResult, shard, chunk}, children);
    PassDown({Kind::kAccepted, shard}, children);
    return std::move(schedule_);
  }

 private:
  int Parent(int shard) const { return trees_[shard].parent(node_); }

  // To all children. Each server begins with another, or they would all send to one worker at a
  // time.
  void PassDown(const TreeSlot& slot, const std::vector<int>& children) {
    if (Parent(slot.shard) != -1) Add(Op::kReceive, Parent(slot.shard), slot);
    for (size_t i = 0; i < children.size(); ++i) {
      Add(Op::kSend, children[(static_cast<size_t>(node_) + i) % children.size()], slot);
    }
  }

  void Add(Op op, int peer, const TreeSlot& slot) {
    schedule_.push_back({op, peer, NumberOf(slot, chunks_)});
  }

  const TreeShape& shape_;
  const int chunks_;
  const std::vector<Tree>& trees_;
  const int node_;
  Schedule schedule_;
};

Schedule GatherSchedule(const TreeShape& shape, int node) {
  Schedule schedule;
  for (int shift = 1; shift < shape.workers; ++shift) {
    schedule.push_back({Op::kSend, (node + shift) % shape.workers, node});
  }
  for (int shift = 1; shift < shape.workers; ++shift) {
    const int from = (node + shape.workers - shift) % shape.workers;
    schedule.push_back({Op::kReceive, from, from});
  }
  return schedule;
}

std::vector<Tree> TreesOf(const TreeShape& shape) {
  std::vector<Tree> trees;
  for (int shard = 0; shard < shape.shards; ++shard) trees.emplace_back(shape, shard);
  return trees;
}

Schedule ScheduleIn(const TreeShape& shape, int chunks, const std::vector<Tree>& trees, int node) {
  if (shape.workers == 1) return {};
  if (shape.reducers == 0) return GatherSchedule(shape, node);
  TreeMaker maker(shape, chunks, trees, node);
  return node < shape.workers ? maker.Worker() : maker.Reducer();
}

}  // namespace

int NumberOf(const TreeSlot& slot, int chunks) {
  return slot.shard * SlotsOfShard(chunks) + static_cast<int>(slot.kind) * chunks + slot.chunk;
}

TreeSlot SlotOfNumber(int number, int chunks) {
  const int in_shard = number % SlotsOfShard(chunks);
  return {static_cast<Kind>(in_shard / chunks), number / SlotsOfShard(chunks), in_shard % chunks};
}

MessageName NameIn(uint64_t round, uint32_t group, const TreeSlot& slot) {
  return {Lane::kSparse, round, group, static_cast<uint32_t>(slot.chunk),
          slot.kind == Kind::kAccepted ? kAcceptedSlot : kEntriesSlot};
}

Schedule TreeSchedule(const TreeShape& shape, int chunks, int node) {
  RW_CHECK(chunks >= 1 && node >= 0 && node < shape.workers + shape.reducers);
  return ScheduleIn(shape, chunks, TreesOf(shape), node);
}

std::vector<Schedule> TreeSchedules(const TreeShape& shape, int chunks) {
  RW_CHECK(chunks >= 1);
  const std::vector<Tree> trees = TreesOf(shape);
  std::vector<Schedule> schedules;
  for (int node = 0; node < shape.workers + shape.reducers; ++node) {
    schedules.push_back(ScheduleIn(shape, chunks, trees, node));
  }
  return schedules;
}

Schedule LevelSchedule(const TreeShape& shape, int shard) {
  Schedule schedule;
  for (const Op op : {Op::kSend, Op::kReceive}) {
    for (int other = 0; other < shape.shards; ++other) {
      if (other == shard) continue;
      schedule.push_back({op, RootOf(shape, other), op == Op::kSend ? shard : other});
    }
  }
  return schedule;
}

}  // namespace ringwood

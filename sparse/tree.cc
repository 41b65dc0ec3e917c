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

namespace {

using Kind = TreeSlot::Kind;

// One node's part, made in the order in which it is run.
class TreeMaker {
 public:
  TreeMaker(const TreeShape& shape, int chunks, const std::vector<Tree>& trees, int node)
      : shape_(shape), chunks_(chunks), trees_(trees), node_(node) {}

  // Messages to and from one reducer come in the order of its schedule.
  Schedule Worker() {
    std::vector<int> gathered;  // ranges that a reducer here gathers for their root
    std::vector<int> others;
    const bool gathers = Gathers(shape_);
    for (int shard = 0; shard < shape_.shards; ++shard) {
      (gathers && Parent(shard) != RootOf(shape_, shard) ? gathered : others).push_back(shard);
    }
    for (const int shard : gathered) SendUp(shard);
    // Each worker begins with another range, or all of them would send to one server at a time.
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      for (size_t i = 0; i < others.size(); ++i) {
        const int shard = others[(static_cast<size_t>(node_) + i) % others.size()];
        Add(Op::kSend, Parent(shard), {Kind::kEntries, shard, chunk});
      }
    }
    for (const std::vector<int>& shards : {others, gathered}) {
      for (const int shard : shards) {
        for (int chunk = 0; chunk < chunks_; ++chunk) {
          Add(Op::kReceive, Parent(shard), {Kind::kResult, shard, chunk});
        }
        Add(Op::kReceive, Parent(shard), {Kind::kAccepted, shard});
      }
    }
    return std::move(schedule_);
  }

  Schedule Reducer() {
    std::vector<int> gathered;  // ranges whose root is another node
    int root_of = -1;
    for (const int shard : ShardsAt(shape_, node_)) {
      if (Children(shard).empty()) continue;
      if (Parent(shard) == -1) {
        root_of = shard;
      } else {
        gathered.push_back(shard);
      }
    }
    for (const int shard : gathered) Gather(shard);
    for (const int shard : gathered) SendUp(shard);
    if (root_of != -1) {
      Gather(root_of);
      PassDown(root_of);
    }
    for (const int shard : gathered) PassDown(shard);
    return std::move(schedule_);
  }

 private:
  int Parent(int shard) const { return trees_[shard].parent(node_); }
  const std::vector<int>& Children(int shard) const { return trees_[shard].children(node_); }

  void Gather(int shard) {
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      for (const int child : Children(shard)) {
        Add(Op::kReceiveReduce, child, {Kind::kEntries, shard, chunk}, TermsOf(child, shard));
      }
    }
  }

  void SendUp(int shard) {
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      Add(Op::kSend, Parent(shard), {Kind::kEntries, shard, chunk}, TermsOf(node_, shard));
    }
  }

  void PassDown(int shard) {
    for (int chunk = 0; chunk < chunks_; ++chunk) PassDown({Kind::kResult, shard, chunk});
    PassDown({Kind::kAccepted, shard});
  }

  // To all children. Each server begins with another, or they would all send to one worker at a
  // time.
  void PassDown(const TreeSlot& slot) {
    const std::vector<int>& children = Children(slot.shard);
    // The result is the same for all; accepted bits are of the entries that the receiver has sent.
    const auto terms = [&](int receiver) {
      return slot.kind == Kind::kAccepted ? TermsOf(receiver, slot.shard) : 1;
    };
    if (Parent(slot.shard) != -1) Add(Op::kReceive, Parent(slot.shard), slot, terms(node_));
    for (size_t i = 0; i < children.size(); ++i) {
      const int child = children[(static_cast<size_t>(node_) + i) % children.size()];
      Add(Op::kSend, child, slot, terms(child));
    }
  }

  int TermsOf(int node, int shard) const { return trees_[shard].workers_under(node); }

  void Add(Op op, int peer, const TreeSlot& slot, int terms = 1) {
    schedule_.push_back({op, peer, NumberOf(slot, chunks_), false, terms});
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
  const uint32_t kind = slot.kind == Kind::kAccepted ? kAcceptedSlot : kEntriesSlot;
  return {Lane::kSparse, round, group, static_cast<uint32_t>(slot.chunk),
          static_cast<uint32_t>(slot.shard) * kSlotsOfRange + kind};
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

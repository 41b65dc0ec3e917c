#include "sparse/tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "sparse/tree_schedule.h"

namespace ringwood {
namespace {

std::vector<TreeShape> Shapes() {
  std::vector<TreeShape> shapes;
  for (int workers = 1; workers <= 33; ++workers) {
    for (int reducers = 0; reducers <= 7; ++reducers) {
      for (int fanout : {1, 2, 3, 5, 8}) shapes.push_back({workers, reducers, fanout});
      for (int shards = 2; shards <= reducers; ++shards) {
        shapes.push_back({workers, reducers, 3, shards, workers % reducers});
      }
    }
  }
  return shapes;
}

// Workers and reducers on hosts of all sizes, some with reducers and some without.
std::vector<TreeShape> ShapesOnHosts() {
  std::vector<TreeShape> shapes;
  for (int workers = 2; workers <= 12; ++workers) {
    for (int reducers = 1; reducers <= 5; ++reducers) {
      for (int ranks = 2; ranks <= 4; ++ranks) {
        for (int shards = 1; shards <= reducers; ++shards) {
          TreeShape shape{workers, reducers, 2 + workers % 7, shards, workers % reducers};
          for (int w = 0; w < workers; ++w) shape.hosts.push_back(w / ranks);
          for (int r = 0; r < reducers; ++r) shape.hosts.push_back(r % (1 + workers / ranks));
          shapes.push_back(shape);
          std::rotate(shape.hosts.begin(), shape.hosts.begin() + 1,
                      shape.hosts.begin() + workers);  // no longer in the order of ranks
          shapes.push_back(std::move(shape));
        }
      }
    }
  }
  return shapes;
}

// Runs all nodes' schedules; a slot's content is the multiset of the workers in it. The root has
// the result's chunks from what it reduced; accepted bits are told by nobody's content.
using Contributions = std::multiset<int>;
struct Played {
  std::vector<std::map<int, Contributions>> slots;
  bool deadlock = false;
  size_t unread = 0;
};

Contributions ToSend(const TreeShape& shape, int chunks, const std::map<int, Contributions>& slots,
                     int slot) {
  const auto known = slots.find(slot);
  if (known != slots.end()) return known->second;
  EXPECT_GT(shape.reducers, 0);
  TreeSlot from = SlotOfNumber(slot, chunks);
  if (from.kind == TreeSlot::Kind::kAccepted) return {};
  EXPECT_EQ(from.kind, TreeSlot::Kind::kResult);
  from.kind = TreeSlot::Kind::kEntries;
  return slots.at(NumberOf(from, chunks));
}

Played Interpret(const TreeShape& shape, int chunks) {
  const int nodes = shape.workers + shape.reducers;
  Played run{std::vector<std::map<int, Contributions>>(nodes), false, 0};
  const std::vector<Schedule> schedules = TreeSchedules(shape, chunks);
  for (int node = 0; node < shape.workers; ++node) {
    if (shape.reducers == 0) run.slots[node][node] = {node};
    for (int s = 0; s < shape.shards && shape.reducers > 0; ++s) {
      for (int c = 0; c < chunks; ++c) {
        run.slots[node][NumberOf({TreeSlot::Kind::kEntries, s, c}, chunks)] = {node};
      }
    }
  }
  // Between two nodes messages are taken in the order in which they are sent.
  std::map<std::pair<int, int>, std::deque<std::pair<int, Contributions>>> wires;
  std::vector<size_t> at(nodes, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int node = 0; node < nodes; ++node) {
      for (; at[node] < schedules[node].size(); ++at[node], moved = true) {
        const Step step = schedules[node][at[node]];
        if (step.op == Op::kSend) {
          wires[{node, step.peer}].emplace_back(step.slot,
                                                ToSend(shape, chunks, run.slots[node], step.slot));
          continue;
        }
        auto& wire = wires[{step.peer, node}];
        if (wire.empty()) break;
        EXPECT_EQ(wire.front().first, step.slot);
        Contributions& slot = run.slots[node][step.slot];
        if (step.op == Op::kReceive) slot.clear();
        slot.insert(wire.front().second.begin(), wire.front().second.end());
        wire.pop_front();
      }
    }
  }
  for (int node = 0; node < nodes; ++node) run.deadlock |= at[node] < schedules[node].size();
  for (const auto& [key, wire] : wires) run.unread += wire.size();
  return run;
}

// Of shard 0's tree.
std::vector<int> ChildrenOf(const TreeShape& shape, int node) { return Tree(shape).children(node); }

void ExpectEveryContributionOnce(const std::vector<TreeShape>& shapes) {
  for (const TreeShape& shape : shapes) {
    const int chunks = shape.reducers == 0 ? 1 : 1 + shape.workers % 3;
    const Played run = Interpret(shape, chunks);
    ASSERT_FALSE(run.deadlock) << shape.workers << " " << shape.reducers << " " << shape.fanout;
    ASSERT_EQ(run.unread, 0u);
    Contributions everyone;
    for (int worker = 0; worker < shape.workers; ++worker) everyone.insert(worker);
    for (int worker = 0; worker < shape.workers && shape.workers > 1; ++worker) {
      for (int s = 0; s < shape.shards && shape.reducers > 0; ++s) {
        for (int c = 0; c < chunks; ++c) {
          const int slot = NumberOf({TreeSlot::Kind::kResult, s, c}, chunks);
          ASSERT_EQ(run.slots[worker].at(slot), everyone);
        }
        ASSERT_EQ(run.slots[worker].count(NumberOf({TreeSlot::Kind::kAccepted, s}, chunks)), 1u);
      }
      if (shape.reducers > 0) continue;
      for (int from = 0; from < shape.workers; ++from) {
        ASSERT_EQ(run.slots[worker].at(from), Contributions{from});
      }
    }
  }
}

TEST(TreeSchedule, EveryContributionReachesEveryWorkerOnceAndNothingDeadlocks) {
  ExpectEveryContributionOnce(Shapes());
}

TEST(TreeSchedule, NorDoesItWhereHostsGather) { ExpectEveryContributionOnce(ShapesOnHosts()); }

TEST(TreeSchedule, SlotsAndNumbersAreTheSameThing) {
  for (const int chunks : {1, 2, 5}) {
    for (int number = 0; number < 4 * SlotsOfShard(chunks); ++number) {
      const TreeSlot slot = SlotOfNumber(number, chunks);
      ASSERT_EQ(NumberOf(slot, chunks), number);
      ASSERT_LT(slot.chunk, slot.kind == TreeSlot::Kind::kAccepted ? 1 : chunks);
    }
  }
}

TEST(TreeSchedule, RootsOfAllShardsHearEachOtherOnceALevel) {
  const TreeShape shape{5, 4, 8, 3, 2};
  for (int shard = 0; shard < 3; ++shard) {
    std::multiset<int> sent, received;
    for (const Step& step : LevelSchedule(shape, shard)) {
      if (step.op == Op::kSend) {
        EXPECT_EQ(step.slot, shard);
        sent.insert(step.peer);
      } else {
        EXPECT_EQ(step.peer, RootOf(shape, step.slot));
        received.insert(step.peer);
      }
    }
    std::multiset<int> others;
    for (int other = 0; other < 3; ++other) {
      if (other != shard) others.insert(RootOf(shape, other));
    }
    EXPECT_EQ(sent, others);
    EXPECT_EQ(received, others);
  }
}

TEST(Tree, ParentsAndChildrenAgreeAndEveryUsedReducerHasTwo) {
  for (const TreeShape& shape : Shapes()) {
    if (shape.workers == 1 || shape.reducers == 0) continue;
    const int nodes = shape.workers + shape.reducers;
    std::set<int> used;  // no reducer serves two shards
    for (int s = 0; s < shape.shards; ++s) {
      const Tree tree(shape, s);
      for (int node = 0; node < nodes; ++node) {
        for (int child : tree.children(node)) ASSERT_EQ(tree.parent(child), node);
        const size_t children = tree.children(node).size();
        if (node < shape.workers) {
          ASSERT_EQ(children, 0u);
          ASSERT_GE(tree.parent(node), shape.workers);
        } else if (children > 0) {
          ASSERT_GE(children, 2u);
          ASSERT_TRUE(used.insert(node).second);
          ASSERT_EQ(tree.parent(node) == -1, node == RootOf(shape, s));
        }
      }
      ASSERT_EQ(tree.workers_under(RootOf(shape, s)), shape.workers);
    }
  }
}

// Of each host with several workers and a reducer one message goes to a root elsewhere.
TEST(Tree, AHostGathersWhatItsWorkersSend) {
  size_t gathered = 0;
  for (const TreeShape& shape : ShapesOnHosts()) {
    if (!Gathers(shape)) continue;
    for (int s = 0; s < shape.shards; ++s) {
      const Tree tree(shape, s);
      const int root = RootOf(shape, s);
      std::map<int, int> workers, reducers, messages;  // of a host; messages to the root
      for (int node = 0; node < static_cast<int>(shape.hosts.size()); ++node) {
        ++(node < shape.workers ? workers : reducers)[shape.hosts[node]];
        messages[shape.hosts[node]] += tree.parent(node) == root;
        const int parent = tree.parent(node);
        if (parent == -1 || parent == root) continue;
        ASSERT_LT(node, shape.workers);  // two levels
        ASSERT_EQ(shape.hosts[node], shape.hosts[parent]);
        ++gathered;
      }
      ASSERT_EQ(tree.workers_under(root), shape.workers);
      for (const auto& [host, number] : workers) {
        const bool gathers = host != shape.hosts[root] && number > 1 && reducers[host] > 0;
        ASSERT_EQ(messages[host], gathers ? 1 : number);
      }
    }
  }
  EXPECT_GT(gathered, 1000u);
}

TEST(Tree, NothingIsGatheredWhereItWouldSaveNoMessage) {
  EXPECT_FALSE(Gathers({.workers = 4, .reducers = 2}));                               // unknown
  EXPECT_FALSE(Gathers({.workers = 4, .reducers = 2, .hosts = {0, 1, 2, 3, 0, 1}}));  // one each
  EXPECT_FALSE(Gathers({.workers = 4, .reducers = 2, .hosts = {0, 0, 0, 0, 0, 0}}));  // one host
  EXPECT_FALSE(Gathers({.workers = 4, .reducers = 1, .hosts = {0, 0, 1, 1, 0}}));     // one root
  EXPECT_FALSE(Gathers({.workers = 4, .reducers = 2, .hosts = {0, 0, 1, 1, 2, 3}}));  // apart
  EXPECT_TRUE(Gathers({.workers = 4, .reducers = 2, .hosts = {0, 0, 1, 1, 0, 1}}));
  EXPECT_TRUE(Gathers({.workers = 3, .reducers = 2, .hosts = {0, 0, 1, 0, 2}}));
}

TEST(Tree, HostsAreNumberedByTheirNames) {
  EXPECT_EQ(HostNumbers({"b", "a", "b", "", "a"}), (std::vector<int>{0, 1, 0, 2, 1}));
}

TEST(Tree, FanOutIsKeptWhenTheReducersSuffice) {
  for (const TreeShape& shape : Shapes()) {
    if (shape.workers == 1 || shape.reducers == 0 || shape.fanout < 2 || shape.shards > 1) continue;
    const Tree tree(shape);
    size_t used = 0, widest = 0;
    for (int r = 0; r < shape.reducers; ++r) {
      const size_t children = tree.children(shape.workers + r).size();
      used += children > 0;
      widest = std::max(widest, children);
    }
    const size_t links = shape.workers + used - 1;
    ASSERT_LE(widest, std::max<size_t>(shape.fanout, (links + used - 1) / used));
  }
}

TEST(Tree, AFanOutForAllWorkersTakesOneReducer) {
  const TreeShape narrow{4, 3, 2};
  EXPECT_EQ(ChildrenOf(narrow, 4), (std::vector<int>{5, 6}));
  EXPECT_EQ(ChildrenOf(narrow, 5), (std::vector<int>{0, 1}));
  EXPECT_EQ(ChildrenOf(narrow, 6), (std::vector<int>{2, 3}));
  // One is enough: those beside it would only make the way longer, by two hops.
  const TreeShape wide{4, 3, 8};
  EXPECT_EQ(ChildrenOf(wide, 4), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_TRUE(ChildrenOf(wide, 5).empty());
  EXPECT_TRUE(ChildrenOf(wide, 6).empty());
  const TreeShape second{4, 3, 8, 1, 1};  // another group's
  EXPECT_EQ(ChildrenOf(second, 5), (std::vector<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace ringwood

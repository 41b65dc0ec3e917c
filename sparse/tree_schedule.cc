#include "sparse/tree_schedule.h"

#include <utility>

#include "base/check.h"

namespace ringwood {
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

// The simulator plays what the engines run: what each node sends and receives over a transport
// (peers, names, bytes, order) is the schedule in the simulator's hands, message by message.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "dense/all_reduce.h"
#include "dense/shares.h"
#include "plan/predict/simulate.h"
#include "plan/sparse_groups.h"
#include "sparse/climb.h"
#include "sparse/reducer/reducer.h"
#include "sparse/tree_schedule.h"
#include "tests/plan/recorded_nodes.h"

namespace ringwood {
namespace {

// What the simulator has node `node` do in a play, chunk by chunk; named as engines do.
std::vector<std::vector<Recorded>> Simulated(const Performance& play, int node,
                                             const MessageName& name) {
  std::vector<std::vector<Recorded>> chunks(play.slot_bytes.size());
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    std::map<std::pair<bool, int>, uint32_t> messages;  // (sent, peer) → so far
    for (const Step& step : (*play.schedules)[static_cast<size_t>(node)]) {
      MessageName full = name;
      full.chunk = static_cast<uint32_t>(chunk);
      full.slot = messages[{step.op == Op::kSend, step.peer}]++;
      const double bytes = BytesOf(play, chunk, step);
      if (bytes < 0) continue;
      chunks[chunk].push_back(
          {step.op == Op::kSend, step.peer, full, static_cast<uint64_t>(bytes)});
    }
  }
  return chunks;
}

// Each chunk's messages in order. Chunks mix, but never more than a few are under way.
void ExpectSame(const std::vector<std::vector<Recorded>>& simulated,
                const std::vector<Recorded>& engine, const std::string& what) {
  std::vector<std::vector<Recorded>> chunks(simulated.size());
  size_t ended = static_cast<size_t>(std::ranges::count_if(
      simulated, [](const std::vector<Recorded>& chunk) { return chunk.empty(); }));
  for (const Recorded& recorded : engine) {
    ASSERT_LT(recorded.name.chunk, chunks.size()) << what << ": " << recorded;
    std::vector<Recorded>& chunk = chunks[recorded.name.chunk];
    if (chunk.empty()) {
      EXPECT_LT(recorded.name.chunk, ended + kChunksInFlight) << what;
    }
    chunk.push_back(recorded);
    ended += chunk.size() == simulated[recorded.name.chunk].size();
  }
  for (size_t chunk = 0; chunk < simulated.size(); ++chunk) {
    ASSERT_EQ(chunks[chunk], simulated[chunk]) << what << ", chunk " << chunk;
  }
}

std::vector<Hosts> HostsOfEveryWorld() {
  std::vector<Hosts> all;
  for (int world = 1; world <= 9; ++world) {
    for (const int ranks : {1, 2, 4, world}) {
      if (ranks <= world) all.push_back(EvenHosts(world, ranks));
    }
  }
  return all;
}

PlanScene SceneOn(const Hosts& hosts) {
  PlanScene scene;
  scene.workers = RanksOf(hosts);
  scene.hosts = hosts;
  return scene;
}

std::string Describe(const char* what, const Hosts& hosts, uint64_t elements) {
  return absl::StrFormat("%s of %d elements on %d ranks of %d hosts", what, elements,
                         RanksOf(hosts), hosts.size());
}

// A plan of one dense group, as the simulator is given it.
Performance GroupPlay(const Hosts& hosts, uint64_t elements, const std::string& codec) {
  Plan plan;
  plan.groups.push_back({.tensors = {0}, .route = "ring", .codec = codec});
  const auto stage = StageOf(SceneOn(hosts), plan, {{"t", elements, "dense"}}, {0});
  EXPECT_TRUE(stage.ok()) << Message(stage.status());
  return stage->scene.plays.at(0);
}

// Runs `start(rank, done)` on every rank and compares what each does with the play.
void ExpectPlayed(RecordedNodes* nodes, const Performance& play, int ranks, const MessageName& name,
                  const std::string& what,
                  const std::function<void(int, std::function<void(Status)>)>& start) {
  nodes->Run(ranks, start);
  for (int rank = 0; rank < ranks; ++rank) {
    ExpectSame(Simulated(play, rank, name), nodes->TakeLog(rank),
               absl::StrFormat("%s, rank %d", what, rank));
  }
}

struct Memory {
  explicit Memory(size_t count)
      : input(count, 1),
        output(count),
        error(count),
        next(count),
        reach(LatticeBlocks(count)),
        next_reach(reach.size()) {}
  std::vector<float> input, output, error, next;
  std::vector<BlockReach> reach, next_reach;
};

AllReduceRequest RequestOf(const Hosts& hosts, int rank, const char* codec, Memory* memory) {
  AllReduceRequest request;
  request.place = {rank, RanksOf(hosts), hosts};
  request.wire = codec;
  request.input = std::as_bytes(std::span(memory->input));
  request.output = std::as_writable_bytes(std::span(memory->output));
  if (request.wire != "fp32") {
    request.error = memory->error;
    request.next_error = memory->next;
  }
  if (CodeBits(request.wire) != 0) {
    request.reach = memory->reach;
    request.next_reach = memory->next_reach;
  }
  return request;
}

TEST(SameSchedule, AnAllReduceRunsWhatTheSimulatorPlaysOfAPlan) {
  std::set<Strategy> seen;
  for (const Hosts& hosts : HostsOfEveryWorld()) {
    const int ranks = RanksOf(hosts);
    RecordedNodes nodes(ranks);
    MessageName name = {Lane::kDense, 0, 3};
    for (const char* codec : {"fp32", "bf16", "int8", "int4"}) {
      for (const uint64_t elements : {1u, 300u, 12'000u, 100'003u}) {
        const Performance play = GroupPlay(hosts, elements, codec);
        ++name.round;
        std::vector<Memory> memory(static_cast<size_t>(ranks), Memory(elements));
        const auto start = [&](int rank, std::function<void(Status)> done) {
          AllReduceRequest request =
              RequestOf(hosts, rank, codec, &memory[static_cast<size_t>(rank)]);
          request.name = name;
          const Collective collective = CollectiveFor(SpecOf(request), request.place);
          EXPECT_EQ(collective.schedule, (*play.schedules)[static_cast<size_t>(rank)]);
          if (ranks > 1) seen.insert(collective.strategy);
          StartAllReduce(nodes.at(rank), request,
                         [done](StatusOr<AllReduceResult> result) { done(result.status()); });
        };
        ExpectPlayed(&nodes, play, ranks, name, Describe(codec, hosts, elements), start);
      }
    }
  }
  EXPECT_EQ(seen, (std::set<Strategy>{Strategy::kRing, Strategy::kRecursiveDoubling,
                                      Strategy::kDirect, Strategy::kHierarchy}));
}

TEST(SameSchedule, EveryStrategyRunsAsItIsPlayedWhateverTheSize) {
  for (const Hosts& hosts : HostsOfEveryWorld()) {
    const int ranks = RanksOf(hosts);
    RecordedNodes nodes(ranks);
    MessageName name = {Lane::kImmediate};
    for (const Strategy strategy :
         {Strategy::kRing, Strategy::kRecursiveDoubling, Strategy::kDirect, Strategy::kHierarchy}) {
      for (const uint64_t elements : {5u, 70'001u}) {
        CollectiveSpec spec;
        spec.elements = elements;
        spec.strategy = strategy;
        ++name.round;
        std::vector<Memory> memory(static_cast<size_t>(ranks), Memory(elements));
        const auto start = [&](int rank, std::function<void(Status)> done) {
          AllReduceRequest request =
              RequestOf(hosts, rank, "fp32", &memory[static_cast<size_t>(rank)]);
          request.name = name;
          request.strategy = strategy;
          StartAllReduce(nodes.at(rank), request,
                         [done](StatusOr<AllReduceResult> result) { done(result.status()); });
        };
        ExpectPlayed(&nodes, PlayOf(spec, SceneOn(hosts)), ranks, name,
                     Describe(NameOf(strategy), hosts, elements), start);
      }
    }
  }
}

TEST(SameSchedule, TheHalvesRunAsTheyArePlayed) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    RecordedNodes nodes(ranks);
    MessageName name = {Lane::kImmediate};
    for (const Verb verb : {Verb::kReduceScatter, Verb::kAllGather}) {
      for (const uint64_t elements : {7u, 9'000u, 150'001u}) {
        CollectiveSpec spec;
        spec.verb = verb;
        spec.elements = elements;
        ++name.round;
        std::vector<std::vector<float>> data(static_cast<size_t>(ranks),
                                             std::vector<float>(elements));
        const auto start = [&](int rank, std::function<void(Status)> done) {
          SharesRequest request;
          request.place = {rank, ranks};
          request.name = name;
          request.data = std::as_writable_bytes(std::span(data[static_cast<size_t>(rank)]));
          (verb == Verb::kAllGather ? StartAllGather : StartReduceScatter)(nodes.at(rank), request,
                                                                           done);
        };
        ExpectPlayed(&nodes, PlayOf(spec, SceneOn(OneEach(ranks))), ranks, name,
                     Describe(NameOf(verb), OneEach(ranks), elements), start);
      }
    }
  }
}

TEST(SameSchedule, ABroadcastRunsAsItIsPlayed) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    RecordedNodes nodes(ranks);
    MessageName name = {Lane::kImmediate};
    for (int root = 0; root < ranks; ++root) {
      for (const uint64_t bytes : {1u, 5'000u, 1'500'000u}) {
        CollectiveSpec spec;
        spec.verb = Verb::kBroadcast;
        spec.type = DataType::kUInt8;
        spec.elements = bytes;
        spec.root = root;
        ++name.round;
        std::vector<std::vector<std::byte>> data(static_cast<size_t>(ranks),
                                                 std::vector<std::byte>(bytes));
        const auto start = [&](int rank, std::function<void(Status)> done) {
          StartBroadcast(
              nodes.at(rank),
              {{rank, ranks}, root, name, DataType::kUInt8, data[static_cast<size_t>(rank)]}, done);
        };
        ExpectPlayed(&nodes, PlayOf(spec, SceneOn(OneEach(ranks))), ranks, name,
                     Describe("broadcast", OneEach(ranks), bytes), start);
      }
    }
  }
}

// ---- trees ----

constexpr uint64_t kTensorElements = 12 * kBlockElements;

// `k` of them, evenly spread, the same for all workers: so merging leaves k.
Entries Spread(uint64_t k) {
  Entries entries;
  for (uint64_t i = 0; i < k; ++i) {
    entries.push_back(static_cast<uint32_t>(i * (kTensorElements / k)), 1);
  }
  return entries;
}

// Receives that follow each other may come in any order.
std::vector<Recorded> Sorted(std::vector<Recorded> messages) {
  const auto is_send = [](const Recorded& recorded) { return recorded.sent; };
  for (auto begin = messages.begin(); begin != messages.end();) {
    begin = std::find_if_not(begin, messages.end(), is_send);
    const auto end = std::find_if(begin, messages.end(), is_send);
    std::sort(begin, end, [](const Recorded& a, const Recorded& b) {
      return std::tie(a.peer, a.name) < std::tie(b.peer, b.name);
    });
    begin = end;
  }
  return messages;
}

std::vector<Recorded> SimulatedTree(const Performance& play, int node, const SparseGroup& group,
                                    const TreeShape& shape, int chunks) {
  std::vector<Recorded> messages;
  for (const Step& step : (*play.schedules)[static_cast<size_t>(node)]) {
    const TreeSlot slot = shape.reducers == 0 ? TreeSlot{} : SlotOfNumber(step.slot, chunks);
    messages.push_back({step.op == Op::kSend, step.peer, NameIn(1, group.group, slot),
                        static_cast<uint64_t>(BytesOf(play, 0, step))});
  }
  return Sorted(messages);
}

// Bytes of entries are modelled by their number; how many bytes an index takes, the values decide.
void ExpectAbout(const std::vector<Recorded>& simulated, const std::vector<Recorded>& engine,
                 const std::string& what) {
  ASSERT_EQ(engine.size(), simulated.size()) << what;
  for (size_t i = 0; i < engine.size(); ++i) {
    Recorded expected = simulated[i];
    const bool accepted = expected.name.slot % kSlotsOfRange == kAcceptedSlot;
    const double about = accepted ? 0 : 0.03 * static_cast<double>(expected.bytes) + 64;
    EXPECT_NEAR(static_cast<double>(engine[i].bytes), static_cast<double>(expected.bytes), about)
        << what << ": " << engine[i];
    expected.bytes = engine[i].bytes;
    ASSERT_EQ(engine[i], expected) << what << ", message " << i;
  }
}

struct TreeCase {
  int workers, reducers;
  uint64_t k;
  const char* merge;
  std::vector<int> hosts = {};
};

TreeShape JobOf(const TreeCase& c) {
  return {.workers = c.workers, .reducers = c.reducers, .fanout = 8, .hosts = c.hosts};
}

// A reducer serves each of its ranges at its own pace.
std::vector<Recorded> OfRange(const std::vector<Recorded>& messages, int shard) {
  std::vector<Recorded> some;
  std::copy_if(messages.begin(), messages.end(), std::back_inserter(some),
               [shard](const Recorded& recorded) {
                 return recorded.name.slot / kSlotsOfRange == static_cast<uint32_t>(shard);
               });
  return some;
}

std::string Describe(const TreeCase& c, int node) {
  return absl::StrFormat("%s of %d entries, %d workers, %d reducers, node %d", c.merge, c.k,
                         c.workers, c.reducers, node);
}

// What the roots of all ranges ask each other for "exact" is no part of the play: level by level it
// is LevelSchedule.
void TakeHistograms(const TreeShape& shape, int node, std::vector<Recorded>* log) {
  int root_of = -1;
  for (int shard = 0; shard < shape.shards && shape.reducers > 0; ++shard) {
    if (node == RootOf(shape, shard)) root_of = shard;
  }
  std::map<uint32_t, std::set<std::pair<bool, int>>> levels;
  std::erase_if(*log, [&](const Recorded& recorded) {
    if (recorded.name.slot % kSlotsOfRange < kHistogramSlot) return false;
    levels[recorded.name.slot].insert({recorded.sent, recorded.peer});
    return true;
  });
  std::set<std::pair<bool, int>> expected;
  if (!levels.empty()) {
    ASSERT_NE(root_of, -1);
    for (const Step& step : LevelSchedule(shape, root_of)) {
      expected.insert({step.op == Op::kSend, step.peer});
    }
  }
  for (const auto& [slot, level] : levels) EXPECT_EQ(level, expected);
}

void RunTree(const TreeCase& c, const SparseGroup& group, RecordedNodes* nodes) {
  const TreeShape job = JobOf(c);
  std::vector<std::unique_ptr<Reducer>> reducers;
  nodes->Call([&] {
    for (int node = c.workers; node < c.workers + c.reducers; ++node) {
      reducers.push_back(
          std::make_unique<Reducer>(nodes->at(node), job, node, std::vector<SparseGroup>{group},
                                    [](Status status) { ADD_FAILURE() << Message(status); }));
      reducers.back()->Start(1);
    }
  });
  const Entries up = Spread(c.k);
  nodes->Run(c.workers, [&](int rank, std::function<void(Status)> done) {
    Climb::Of(job, rank, group)->Start(nodes->at(rank), 1, up, [done](StatusOr<Descent> descent) {
      done(descent.status());
    });
  });
  nodes->Call([&] { reducers.clear(); });
}

void ExpectTreePlayed(const TreeCase& c) {
  Plan plan;
  plan.groups.push_back(
      {.tensors = {0}, .route = "tree", .k = c.k, .codec = "block16/fp32", .merge = c.merge});
  PlanScene scene;
  scene.workers = c.workers;
  scene.reducers = c.reducers;
  scene.node_hosts = c.hosts;
  const auto stage = StageOf(scene, plan, {{"t", kTensorElements, "sparse"}}, {0});
  ASSERT_TRUE(stage.ok()) << Message(stage.status());
  const TreeShape job = JobOf(c);
  const SparseGroup group = SparseGroupsOf(plan, job, {kTensorElements})->at(0);
  const TreeShape shape = *ShapeOf(job, group);
  const int chunks = ChunksOf(shape, group, *ParseCodec(group.codec));
  RecordedNodes nodes(c.workers + c.reducers);
  RunTree(c, group, &nodes);
  for (int node = 0; node < c.workers + c.reducers; ++node) {
    std::vector<Recorded> log = nodes.TakeLog(node);
    TakeHistograms(shape, node, &log);
    const std::vector<Recorded> played =
        SimulatedTree(stage->scene.plays.at(0), node, group, shape, chunks);
    for (int shard = 0; shard < shape.shards; ++shard) {
      ExpectAbout(Sorted(OfRange(played, shard)), Sorted(OfRange(log, shard)), Describe(c, node));
    }
  }
}

TEST(SameSchedule, SoItDoesWhereHostsGather) {
  for (const uint64_t k : {uint64_t{384}, uint64_t{3} * 512, uint64_t{3} << 14}) {
    for (const char* merge : {"gtopk", "union", "exact"}) {
      ExpectTreePlayed({4, 2, k, merge, {0, 0, 1, 1, 0, 1}});
      ExpectTreePlayed({7, 3, k, merge, {0, 0, 0, 1, 1, 2, 3, 2, 1, 0}});
    }
  }
}

TEST(SameSchedule, ASparseGroupClimbsTheTreesThatArePlayed) {
  for (int workers = 1; workers <= 9; ++workers) {
    for (int reducers = 0; reducers <= 3; ++reducers) {
      for (const uint64_t k : {uint64_t{384}, uint64_t{3} * 512, uint64_t{3} << 14}) {
        for (const char* merge : {"gtopk", "union", "exact"}) {
          ExpectTreePlayed({workers, reducers, k, merge});
        }
      }
    }
  }
}

}  // namespace
}  // namespace ringwood

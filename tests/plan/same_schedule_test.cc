// The simulator plays what the engines run: what each node sends and receives over a transport
// (peers, names, bytes, order) is the schedule in the simulator's hands, message by message.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "dense/all_reduce.h"
#include "dense/shares.h"
#include "plan/predict/simulate.h"
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
  explicit Memory(size_t count) : input(count, 1), output(count), error(count), next(count) {}
  std::vector<float> input, output, error, next;
};

AllReduceRequest RequestOf(const Hosts& hosts, int rank, const char* codec, Memory* memory) {
  AllReduceRequest request;
  request.place = {rank, RanksOf(hosts), hosts};
  request.wire = codec;
  request.input = std::as_bytes(std::span(memory->input));
  request.output = std::as_writable_bytes(std::span(memory->output));
  if (request.wire == "bf16") {
    request.error = memory->error;
    request.next_error = memory->next;
  }
  return request;
}

TEST(SameSchedule, AnAllReduceRunsWhatTheSimulatorPlaysOfAPlan) {
  std::set<Strategy> seen;
  for (const Hosts& hosts : HostsOfEveryWorld()) {
    const int ranks = RanksOf(hosts);
    RecordedNodes nodes(ranks);
    MessageName name = {Lane::kDense, 0, 3};
    for (const char* codec : {"fp32", "bf16"}) {
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
          StartBroadcast(nodes.at(rank),
                         {{rank, ranks}, root, name, data[static_cast<size_t>(rank)]}, done);
        };
        ExpectPlayed(&nodes, PlayOf(spec, SceneOn(OneEach(ranks))), ranks, name,
                     Describe("broadcast", OneEach(ranks), bytes), start);
      }
    }
  }
}

}  // namespace
}  // namespace ringwood

// A coded reduction over NCCL without a device: its plan is run over memory of the host, kernels in
// the emulation, messages by a stand-in for NCCL. The results have the bits of a host's ring.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/digest.h"
#include "base/random.h"
#include "dense/all_reduce.h"
#include "dense/cuda/coded_run.h"
#include "tests/dense/stand_in_nccl.h"
#include "tests/transport/world.h"

namespace ringwood {
namespace {

// One rank's memory. Nothing is written behind the staging memory that the plan asks for.
struct PlannedRank {
  explicit PlannedRank(size_t count)
      : input(count),
        output(count, -1),
        error(count),
        next_error(count, -1),
        reach(LatticeBlocks(count)),
        next_reach(reach.size(), 7) {}

  // The next errors come into the input, as in a DeviceBucket, or into memory of their own.
  float* MemoryOfNextErrors() { return in_place ? input.data() : next_error.data(); }

  cuda::CodedMemory Stage(const cuda::CodedPlan& plan) {
    staging.assign(plan.staging_bytes + 64, kGuard);
    most = 0;
    return {input.data(),  error.data(), MemoryOfNextErrors(), reach.data(), next_reach.data(),
            output.data(), &most,        staging.data()};
  }
  bool Intact() const {
    return std::all_of(staging.end() - 64, staging.end(), [](std::byte b) { return b == kGuard; });
  }

  static constexpr std::byte kGuard{0x5a};
  std::vector<float> input, output, error, next_error;
  std::vector<BlockReach> reach, next_reach;
  std::vector<std::byte> staging;
  uint32_t most = 0;
  bool in_place = false;
  bool non_finite = false;
};

void Commit(PlannedRank& rank) {
  rank.error.swap(rank.next_error);
  rank.reach.swap(rank.next_reach);
}

// All ranks, from exchange to exchange. Returns how many bytes left each host.
std::vector<uint64_t> OverNccl(std::vector<PlannedRank>& ranks, const Hosts& hosts, int levels,
                               uint64_t chunk_packs) {
  const int world = static_cast<int>(ranks.size());
  StandInNccl nccl(hosts);
  std::vector<cuda::CodedPlan> plans;
  std::vector<cuda::CodedMemory> memory;
  std::vector<size_t> next(world);
  for (int r = 0; r < world; ++r) {
    plans.push_back(cuda::CodedPlanFor({r, hosts, levels, ranks[r].input.size()}, chunk_packs));
    memory.push_back(ranks[r].Stage(plans[r]));
  }
  uint64_t sent = 0;
  for (bool any = true; any; sent += nccl.Deliver()) {
    any = false;
    for (int r = 0; r < world; ++r) {
      EmulatedDevice device(nccl.rank(r));
      for (bool exchanged = false; !exchanged && next[r] < plans[r].steps.size(); any = true) {
        const cuda::CodedStep& step = plans[r].steps[next[r]++];
        EXPECT_TRUE(cuda::RunStep(plans[r], step, memory[r], &device).ok());
        exchanged = step.op == cuda::CodedOp::kExchange;
      }
    }
  }
  EXPECT_EQ(sent, plans[0].sent_bytes);
  EXPECT_FALSE(StandInNccl::open());
  for (PlannedRank& rank : ranks) {
    EXPECT_TRUE(rank.Intact());
    rank.non_finite = rank.most > kLargestReach;
    if (rank.in_place) rank.next_error = rank.input;
  }
  return nccl.left_host();
}

void OverAHostRing(World& world, uint64_t round, const std::string& wire,
                   std::vector<PlannedRank>& ranks) {
  world.RunAll([&](int rank, std::function<void()> finished) {
    PlannedRank& mine = ranks[rank];
    AllReduceRequest request;
    request.place = {rank, world.size()};
    request.name.round = round;
    request.wire = wire;
    request.input = std::as_bytes(std::span(mine.input));
    request.output = std::as_writable_bytes(std::span(mine.output));
    request.error = mine.error;
    request.next_error = mine.next_error;
    request.reach = mine.reach;
    request.next_reach = mine.next_reach;
    request.strategy = Strategy::kRing;
    StartAllReduce(world.transport(rank), request,
                   [&mine, finished](StatusOr<AllReduceResult> result) {
                     EXPECT_TRUE(result.ok()) << Message(result.status());
                     if (result.ok()) mine.non_finite = result->non_finite;
                     finished();
                   });
  });
}

// Heavy tails, blocks of very different size.
std::vector<float> HeavyGradient(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const double unit = random.Unit() * 2 - 1;
    const int size = static_cast<int>(i / kLatticeBlock % 30) - 20;
    values[i] = static_cast<float>(std::ldexp(unit * unit * unit, size));
  }
  return values;
}

template <typename T>
uint64_t DigestOfAll(const std::vector<T>& values) {
  return Digest(std::as_bytes(std::span(values)));
}

void ExpectTheBitsOfARing(const std::vector<PlannedRank>& mine,
                          const std::vector<PlannedRank>& ring) {
  for (size_t r = 0; r < mine.size(); ++r) {
    ASSERT_EQ(DigestOfAll(mine[r].output), DigestOfAll(ring[0].output)) << r;
    ASSERT_EQ(DigestOfAll(mine[r].next_error), DigestOfAll(ring[r].next_error)) << r;
    ASSERT_EQ(mine[r].next_reach, ring[0].next_reach) << r;
    EXPECT_EQ(mine[r].non_finite, ring[r].non_finite) << r;
  }
}

// Three rounds of each length, in short and in long chunks; these with the next errors in place.
void ExpectTheBitsOfAHostRing(const Hosts& hosts, const std::vector<size_t>& counts) {
  World world(Kind::kInProcess, RanksOf(hosts));
  uint64_t round = 0;
  for (const int bits : {8, 4}) {
    for (const size_t count : counts) {
      for (const uint64_t chunk : {uint64_t{5}, cuda::kCodedChunkPacks}) {
        std::vector<PlannedRank> mine(world.size(), PlannedRank(count)), ring = mine;
        for (uint64_t seed = 1; seed <= 3; ++seed) {
          for (int r = 0; r < world.size(); ++r) {
            mine[r].input = ring[r].input = HeavyGradient(count, 100 * seed + r);
            mine[r].in_place = chunk == cuda::kCodedChunkPacks;
          }
          OverNccl(mine, hosts, LatticeLevels(bits), chunk);
          OverAHostRing(world, ++round, bits == 8 ? "int8" : "int4", ring);
          ExpectTheBitsOfARing(mine, ring);
          for (int r = 0; r < world.size(); ++r) {
            Commit(mine[r]);
            Commit(ring[r]);
          }
        }
        const auto any = std::ranges::any_of(mine[0].output, [](float x) { return x != 0; });
        EXPECT_TRUE(any || count == 1);
      }
    }
  }
}

TEST(CudaCoded, OverNcclThereAreTheBitsOfAHostRing) {
  for (int size = 2; size <= 9; ++size) {
    ExpectTheBitsOfAHostRing(OneEach(size), {1, 255, 257, 12 * kLatticePack + 17});
  }
}

TEST(CudaCoded, WhateverHostsTheRanksAreOnThereAreTheBitsOfAHostRing) {
  const Hosts layouts[] = {
      EvenHosts(4, 4),     EvenHosts(4, 2),       EvenHosts(6, 2),
      EvenHosts(8, 4),     {{0, 1, 2}, {3}},      {{0, 2}, {1, 3}},
      {{0}, {1, 2, 3, 4}}, {{0, 1}, {2, 3}, {4}}, {{0, 3, 5}, {1, 4}, {2}},
  };
  for (const Hosts& hosts : layouts) {
    SCOPED_TRACE(absl::StrJoin(HostOrder(hosts), " "));
    ExpectTheBitsOfAHostRing(hosts, {1, 12 * kLatticePack + 17});
  }
}

TEST(CudaCoded, ARankAloneHasTheBitsOfItsOwnCodes) {
  for (const int bits : {8, 4}) {
    const int levels = LatticeLevels(bits);
    std::vector<PlannedRank> mine(1, PlannedRank(1000));
    mine[0].input = HeavyGradient(1000, 1);
    OverNccl(mine, OneEach(1), levels, 3);
    Commit(mine[0]);
    PlannedRank plain = mine[0];
    OverNccl(mine, OneEach(1), levels, 3);
    const size_t blocks = LatticeBlocks(1000);
    std::vector<std::byte> sum(PackedBytes(blocks, LatticeWidth(levels, 1)));
    AddSource({plain.input.data(), plain.error.data(), plain.next_error.data(), plain.reach.data(),
               1000, levels},
              nullptr, 0, sum.data());
    DecodeSum(sum.data(), 1,
              {plain.output.data(), plain.reach.data(), plain.next_reach.data(), 1000, levels});
    ExpectTheBitsOfARing(mine, {plain});
  }
}

TEST(CudaCoded, OutliersWaitAndWhatIsNoNumberIsSeenByAllRanks) {
  constexpr size_t kCount = 7 * kLatticePack + 5;
  World world(Kind::kInProcess, 3);
  uint64_t round = 0;
  for (const float odd : {1e20f, -3e38f, std::nanf(""), INFINITY, -INFINITY}) {
    std::vector<PlannedRank> mine(3, PlannedRank(kCount)), ring = mine;
    for (int r = 0; r < 3; ++r) mine[r].input = ring[r].input = HeavyGradient(kCount, r);
    for (const float value : {0.5f, odd}) {
      mine[1].input[300] = ring[1].input[300] = value;
      OverNccl(mine, OneEach(3), 7, 4);
      OverAHostRing(world, ++round, "int4", ring);
      ExpectTheBitsOfARing(mine, ring);
      EXPECT_EQ(mine[2].non_finite, !(std::fabs(value) < 1e30f)) << value;
      for (const float sum : mine[0].output) ASSERT_TRUE(std::isfinite(sum));
      if (value != odd) {
        for (int r = 0; r < 3; ++r) {
          Commit(mine[r]);
          Commit(ring[r]);
        }
      }
    }
    EXPECT_EQ(mine[1].next_error[300] == odd || std::isnan(odd), true);  // nothing of it was sent
  }
}

// In bytes of a plan that fills its parts: int4 on 8 ranks is 4 bits there and 7 back.
TEST(CudaCoded, BytesAreThoseOfTheFormula) {
  constexpr uint64_t kPacks = 1024, kElements = kPacks * kLatticePack;
  const auto sent = [](const Hosts& hosts, int bits) {
    return cuda::CodedPlanFor({0, hosts, LatticeLevels(bits), kElements}).sent_bytes;
  };
  EXPECT_EQ(sent(OneEach(8), 4), kPacks / 8 * 7 * (32 * (4 + 7) + 2 * 4));
  EXPECT_EQ(sent(EvenHosts(8, 8), 4), sent(OneEach(8), 4));
  EXPECT_EQ(sent(OneEach(4), 8), kPacks / 4 * 3 * (32 * (8 + 10) + 2 * 4));
  EXPECT_EQ(sent(OneEach(1), 8), 0u);
  EXPECT_EQ(cuda::CodedPlanFor({0, OneEach(4), 7, 0}).steps.size(), 0u);
}

// Sums of its ranks leave a host, and the sum of all for its share: as many bytes as if it had one.
TEST(CudaCoded, AHostsNicCarriesOneSumHoweverManyRanksItHas) {
  constexpr uint64_t kPacks = 64, kElements = kPacks * kLatticePack;
  const auto left = [](const Hosts& hosts) {
    std::vector<PlannedRank> ranks(RanksOf(hosts), PlannedRank(kElements));
    return OverNccl(ranks, hosts, 7, cuda::kCodedChunkPacks);
  };
  const auto share = [](uint64_t hosts, int up, int down) {
    return kPacks / hosts * (hosts - 1) * (32 * (up + down) + 2 * 4);
  };
  EXPECT_EQ(left(EvenHosts(8, 4)), std::vector<uint64_t>(2, share(2, 6, 7)));
  EXPECT_EQ(left(EvenHosts(8, 2)), std::vector<uint64_t>(4, share(4, 5, 7)));
  EXPECT_EQ(left(EvenHosts(8, 8)), std::vector<uint64_t>(1, 0));
  EXPECT_EQ(left({{0, 1, 2, 3}, {4}}), std::vector<uint64_t>(2, share(2, 6, 7)));
}

TEST(CudaCoded, AGroupOfNcclIsEndedWhateverIsRefusedInIt) {
  StandInNccl nccl(OneEach(3));
  nccl.rank(0)->refused_peer = 2;
  std::vector<std::byte> memory(300);
  const cuda::SendView sends[] = {{1, memory.data(), 100}, {2, memory.data(), 100}};
  const cuda::ReceiveView receives[] = {{1, &memory[100], 100}, {2, &memory[200], 100}};
  EXPECT_EQ(nccl::Exchange(StandInNccl::Library(), nccl.rank(0), sends, receives, nullptr), 4);
  EXPECT_EQ(StandInNccl::groups(), 1);
  EXPECT_FALSE(StandInNccl::open());
}

// Of any length, for as many ranks as a sum can have.
TEST(CudaCoded, StagingMemoryIsBounded) {
  for (const int bits : {8, 4}) {
    const int levels = LatticeLevels(bits);
    for (const Hosts& hosts : {OneEach(1), OneEach(2), OneEach(8), OneEach(33), OneEach(258),
                               EvenHosts(8, 4), EvenHosts(32, 8), EvenHosts(258, 8)}) {
      for (const uint64_t elements : {uint64_t{1}, uint64_t{1} << 20, uint64_t{1} << 33}) {
        const cuda::CodedPlan plan =
            cuda::CodedPlanFor({RanksOf(hosts) - 1, hosts, levels, elements});
        EXPECT_LE(plan.staging_bytes, uint64_t{80} << 20);
      }
    }
  }
}

// Every block of the tensor is in one chunk, and no message leaves the staging memory.
TEST(CudaCoded, ChunksCoverTheTensor) {
  for (const Hosts& hosts : {OneEach(1), OneEach(3), OneEach(33), EvenHosts(6, 4)}) {
    for (const uint64_t elements : {1, 256, 5000, 100'000}) {
      const cuda::CodedPlan plan = cuda::CodedPlanFor({0, hosts, 7, elements}, 50);
      uint64_t covered = 0;
      for (const cuda::CodedStep& step : plan.steps) {
        for (const auto& messages : {step.sends, step.receives}) {
          for (const cuda::CodedMessage& message : messages) {
            EXPECT_LE(message.at + message.bytes, plan.staging_bytes);
          }
        }
        if (step.op != cuda::CodedOp::kEncode) continue;
        EXPECT_EQ(step.first, covered);
        EXPECT_GE(step.packs * kPackBlocks, step.blocks);
        covered += step.blocks;
      }
      EXPECT_EQ(covered, LatticeBlocks(elements));
    }
  }
}

}  // namespace
}  // namespace ringwood

// A coded reduction over NCCL without a device: its plan is run over memory of the host, kernels in
// the emulation, messages by a stand-in for NCCL. The results have the bits of a host's ring.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#define RW_DEVICE

#include "base/digest.h"
#include "base/random.h"
#include "dense/all_reduce.h"
#include "dense/cuda/coded_run.h"
#include "dense/cuda/lattice_step.h"
#include "dense/cuda/nccl_exchange.h"
#include "tests/base/emulated_grid.h"
#include "tests/transport/world.h"

namespace ringwood {
namespace {}  // namespace

// A rank's end of a stand-in for NCCL, which moves bytes when all ranks have made the call.
struct nccl::Communicator {
  struct Message {
    const void* from = nullptr;
    void* to = nullptr;
    size_t bytes = 0;
  };
  int rank = 0;
  std::map<int, Message> sends, receives;  // by peer
  Message gather;
  int refused_peer = -1;
};

namespace {

// NCCL's functions over such ranks. A group is the thread's.
class StandInNccl {
 public:
  using Rank = nccl::Communicator;

  explicit StandInNccl(int world) : ranks_(world) {
    for (int r = 0; r < world; ++r) ranks_[r].rank = r;
    groups_ = groups_open_ = 0;
  }
  Rank* rank(int r) { return &ranks_[r]; }
  static int groups() { return groups_; }
  static bool open() { return groups_open_ != 0; }

  static nccl::Library Library() {
    nccl::Library library;
    library.group_start = [] {
      ++groups_;
      return ++groups_open_ == 1 ? nccl::kSuccess : 5;  // ncclInvalidUsage
    };
    library.group_end = [] {
      --groups_open_;
      return static_cast<int>(nccl::kInProgress);
    };
    library.send = [](const void* from, size_t bytes, int type, int peer, Rank* rank,
                      nccl::Stream) {
      EXPECT_EQ(type, 1);  // bytes
      EXPECT_EQ(groups_open_, 1);
      if (peer == rank->refused_peer) return 4;  // ncclInvalidArgument
      EXPECT_TRUE(rank->sends.emplace(peer, Rank::Message{from, nullptr, bytes}).second);
      return static_cast<int>(nccl::kSuccess);
    };
    library.recv = [](void* to, size_t bytes, int type, int peer, Rank* rank, nccl::Stream) {
      EXPECT_EQ(type, 1);
      EXPECT_EQ(groups_open_, 1);
      EXPECT_TRUE(rank->receives.emplace(peer, Rank::Message{nullptr, to, bytes}).second);
      return static_cast<int>(nccl::kSuccess);
    };
    library.all_gather = [](const void* from, void* to, size_t bytes, int type, Rank* rank,
                            nccl::Stream) {
      EXPECT_EQ(type, 1);
      EXPECT_EQ(groups_open_, 0);
      EXPECT_EQ(from, static_cast<std::byte*>(to) + rank->rank * bytes);  // in place
      rank->gather = {from, to, bytes};
      return static_cast<int>(nccl::kInProgress);
    };
    return library;
  }

  // Every receive has its send, of as many bytes. Returns what rank 0 sent.
  uint64_t Deliver() {
    uint64_t sent = 0;
    for (Rank& to : ranks_) {
      EXPECT_EQ(to.sends.size(), to.receives.size());
      for (const auto& [peer, receive] : to.receives) {
        EXPECT_NE(peer, to.rank);
        const Rank::Message& send = ranks_[peer].sends[to.rank];
        EXPECT_EQ(send.bytes, receive.bytes) << "rank " << to.rank << " waits for rank " << peer;
        if (send.bytes == receive.bytes) std::memcpy(receive.to, send.from, send.bytes);
        if (peer == 0) sent += send.bytes;
      }
    }
    for (Rank& to : ranks_) {
      for (const Rank& from : ranks_) {
        EXPECT_EQ(from.gather.bytes, to.gather.bytes);
        if (from.rank == to.rank || to.gather.bytes == 0) continue;
        std::memcpy(static_cast<std::byte*>(to.gather.to) + from.rank * from.gather.bytes,
                    from.gather.from, from.gather.bytes);
        if (from.rank == 0) sent += from.gather.bytes;
      }
    }
    for (Rank& rank : ranks_) {
      rank.sends.clear();
      rank.receives.clear();
      rank.gather = {};
    }
    return sent;
  }

 private:
  static inline int groups_ = 0, groups_open_ = 0;
  std::vector<Rank> ranks_;
};

class EmulatedDevice : public cuda::CodedDevice {
 public:
  explicit EmulatedDevice(nccl::Communicator* rank) : rank_(rank) {}
  Status Encode(const cuda::EncodeView& view) override {
    EmulatedGrid::RunEach(2, [&](EmulatedThread& thread) { cuda::EncodeParts(thread, view); });
    return OkStatus();
  }
  Status Exchange(std::span<const cuda::CodedMessage> messages, const std::byte* sent,
                  std::byte* came) override {
    return Taken(nccl::AllToAll(library_, rank_, messages, sent, came, nullptr));
  }
  Status Add(const cuda::AddView& view) override {
    EmulatedGrid::RunEach(2, [&](EmulatedThread& thread) { cuda::AddParts(thread, view); });
    return OkStatus();
  }
  Status Gather(uint64_t own, uint64_t bytes, std::byte* sums) override {
    return Taken(nccl::AllGatherInPlace(library_, rank_, own, bytes, sums, nullptr));
  }
  Status Decode(const cuda::DecodeView& view) override {
    EmulatedGrid::RunEach(2, [&](EmulatedThread& thread) { cuda::DecodeParts(thread, view); });
    return OkStatus();
  }

 private:
  static Status Taken(int result) {
    return result == nccl::kInProgress ? OkStatus() : Internal("refused");
  }
  nccl::Communicator* const rank_;
  const nccl::Library library_ = StandInNccl::Library();
};

// One rank's memory. Nothing is written behind the staging memory that the plan asks for.
struct PlannedRank {
  explicit PlannedRank(size_t count)
      : input(count),
        output(count, -1),
        error(count),
        next_error(count, -1),
        reach(LatticeBlocks(count)),
        next_reach(reach.size(), 7) {}

  cuda::CodedMemory Stage(const cuda::CodedPlan& plan) {
    const auto room = [](uint64_t bytes) { return std::vector<std::byte>(bytes + 64, kGuard); };
    sent = room(plan.code_bytes);
    came = room(plan.code_bytes);
    sums = room(plan.sum_bytes);
    most = 0;
    return {input.data(),  error.data(), next_error.data(), reach.data(), next_reach.data(),
            output.data(), &most,        sent.data(),       came.data(),  sums.data()};
  }
  bool Intact() const {
    const auto intact = [](const std::vector<std::byte>& bytes) {
      return std::all_of(bytes.end() - 64, bytes.end(), [](std::byte b) { return b == kGuard; });
    };
    return intact(sent) && intact(came) && intact(sums);
  }

  static constexpr std::byte kGuard{0x5a};
  std::vector<float> input, output, error, next_error;
  std::vector<BlockReach> reach, next_reach;
  std::vector<std::byte> sent, came, sums;
  uint32_t most = 0;
  bool non_finite = false;
};

void Commit(PlannedRank& rank) {
  rank.error.swap(rank.next_error);
  rank.reach.swap(rank.next_reach);
}

// All ranks in step.
void OverNccl(std::vector<PlannedRank>& ranks, int levels, uint64_t chunk_packs) {
  const int world = static_cast<int>(ranks.size());
  StandInNccl nccl(world);
  std::vector<cuda::CodedPlan> plans;
  std::vector<cuda::CodedMemory> memory;
  for (int r = 0; r < world; ++r) {
    plans.push_back(cuda::CodedPlanFor({r, world, levels, ranks[r].input.size()}, chunk_packs));
    memory.push_back(ranks[r].Stage(plans[r]));
  }
  uint64_t sent = 0;
  for (size_t s = 0; s < plans[0].steps.size(); ++s) {
    for (int r = 0; r < world; ++r) {
      EmulatedDevice device(nccl.rank(r));
      ASSERT_TRUE(cuda::RunStep(plans[r], plans[r].steps[s], memory[r], &device).ok());
    }
    sent += nccl.Deliver();
  }
  EXPECT_EQ(sent, plans[0].sent_bytes);
  EXPECT_FALSE(StandInNccl::open());
  for (PlannedRank& rank : ranks) {
    EXPECT_TRUE(rank.Intact());
    rank.non_finite = rank.most > kLargestReach;
  }
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

constexpr size_t kPlannedCounts[] = {1, 255, 257, 12 * kLatticePack + 17};

TEST(CudaCoded, OverNcclThereAreTheBitsOfAHostRing) {
  for (int size = 2; size <= 9; ++size) {
    World world(Kind::kInProcess, size);
    uint64_t round = 0;
    for (const int bits : {8, 4}) {
      for (const size_t count : kPlannedCounts) {
        for (const uint64_t chunk : {uint64_t{5}, cuda::kCodedChunkPacks}) {
          std::vector<PlannedRank> mine(size, PlannedRank(count)), ring = mine;
          for (uint64_t seed = 1; seed <= 3; ++seed) {
            for (int r = 0; r < size; ++r) {
              mine[r].input = ring[r].input = HeavyGradient(count, 100 * seed + r);
            }
            OverNccl(mine, LatticeLevels(bits), chunk);
            OverAHostRing(world, ++round, bits == 8 ? "int8" : "int4", ring);
            ExpectTheBitsOfARing(mine, ring);
            for (int r = 0; r < size; ++r) {
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
}

TEST(CudaCoded, ARankAloneHasTheBitsOfItsOwnCodes) {
  for (const int bits : {8, 4}) {
    const int levels = LatticeLevels(bits);
    std::vector<PlannedRank> mine(1, PlannedRank(1000));
    mine[0].input = HeavyGradient(1000, 1);
    OverNccl(mine, levels, 3);
    Commit(mine[0]);
    PlannedRank plain = mine[0];
    OverNccl(mine, levels, 3);
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
      OverNccl(mine, 7, 4);
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
  const auto sent = [](int world, int bits) {
    return cuda::CodedPlanFor({0, world, LatticeLevels(bits), kElements}).sent_bytes;
  };
  EXPECT_EQ(sent(8, 4), kPacks / 8 * 7 * (32 * (4 + 7) + 2 * 4));
  EXPECT_EQ(sent(4, 8), kPacks / 4 * 3 * (32 * (8 + 10) + 2 * 4));
  EXPECT_EQ(sent(1, 8), 0u);
  EXPECT_EQ(cuda::CodedPlanFor({0, 4, 7, 0}).steps.size(), 0u);
}

TEST(CudaCoded, AGroupOfNcclIsEndedWhateverIsRefusedInIt) {
  StandInNccl nccl(3);
  nccl.rank(0)->refused_peer = 2;
  std::vector<std::byte> memory(300);
  const cuda::CodedMessage messages[] = {{1, 100, 100}, {2, 200, 100}};
  EXPECT_EQ(nccl::AllToAll(StandInNccl::Library(), nccl.rank(0), messages, memory.data(),
                           memory.data(), nullptr),
            4);
  EXPECT_EQ(StandInNccl::groups(), 1);
  EXPECT_FALSE(StandInNccl::open());
}

// Of any length, for as many ranks as a sum can have.
TEST(CudaCoded, StagingMemoryIsBounded) {
  for (const int bits : {8, 4}) {
    const int levels = LatticeLevels(bits);
    for (const int world : {1, 2, 8, 33, 258}) {
      uint64_t most = 0;
      for (const uint64_t elements : {uint64_t{1}, uint64_t{1} << 20, uint64_t{1} << 33}) {
        const cuda::CodedPlan plan = cuda::CodedPlanFor({world - 1, world, levels, elements});
        const uint64_t staged = 2 * plan.code_bytes + plan.sum_bytes;
        most = std::max(most, staged);
        const uint64_t packs = std::min(LatticePacks(elements), cuda::kCodedChunkPacks) + world - 1;
        EXPECT_LE(staged,
                  packs * (kLatticePack * sizeof(float) + 3 * kPackBlocks * sizeof(ReachWord)));
      }
      EXPECT_LE(most, uint64_t{66} << 20);
    }
  }
}

// Every block of the tensor is in one chunk, and every part of a chunk goes to its rank.
TEST(CudaCoded, ChunksCoverTheTensorAndMessagesFitTogether) {
  for (const int world : {1, 2, 3, 8, 33}) {
    for (const uint64_t elements : {1, 256, 5000, 100'000}) {
      std::vector<cuda::CodedPlan> plans;
      for (int r = 0; r < world; ++r) {
        plans.push_back(cuda::CodedPlanFor({r, world, 7, elements}, 50));
      }
      uint64_t covered = 0;
      for (const cuda::CodedStep& step : plans[0].steps) {
        EXPECT_GE(step.part * static_cast<uint64_t>(world), step.blocks);
        if (step.op == cuda::CodedOp::kEncode) {
          EXPECT_EQ(step.first, covered);
          covered += step.blocks;
        }
        if (step.op != cuda::CodedOp::kExchange) continue;
        for (int r = 0; r < world; ++r) {
          const auto messages = cuda::MessagesOf(plans[r], step);
          ASSERT_EQ(messages.size(), static_cast<size_t>(world - 1));
          for (const cuda::CodedMessage& message : messages) {
            EXPECT_LE(message.offset + message.bytes, plans[r].code_bytes);
          }
        }
      }
      EXPECT_EQ(covered, LatticeBlocks(elements));
    }
  }
}

}  // namespace
}  // namespace ringwood

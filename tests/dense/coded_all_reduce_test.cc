// All-reduce as int8 and int4: no bit depends on the schedule, and nothing is lost.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <span>

#include "base/digest.h"
#include "base/random.h"
#include "dense/all_reduce.h"
#include "tests/transport/world.h"

namespace ringwood {
namespace {

constexpr size_t kCount = 40 * kLatticePack + 17;

// Heavy tails; multiples of 2^-20, so that sums of nine ranks are exact in double.
std::vector<float> Gradient(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    const double unit = random.Unit() * 2 - 1;
    value = static_cast<float>(std::ldexp(std::round(std::ldexp(unit * unit * unit, 18)), -20));
  }
  return values;
}

struct CodedRank {
  explicit CodedRank(size_t count)
      : input(count),
        output(count, -1),
        error(count),
        next_error(count, -1),
        reach(LatticeBlocks(count)),
        next_reach(reach.size(), 7) {}
  std::vector<float> input, output, error, next_error;
  std::vector<BlockReach> reach, next_reach;
  AllReduceResult result;
};

struct Way {
  std::string wire = "int4";
  Hosts hosts = {};
  size_t chunk_bytes = 0;
  std::optional<Strategy> strategy = std::nullopt;
};

// `ends` of each rank: instead of input and output.
void AllReduce(World& world, uint64_t round, const Way& way, std::vector<CodedRank>& ranks,
               const std::vector<CodedEnds>& ends = {}) {
  world.RunAll([&](int rank, std::function<void()> finished) {
    CodedRank& mine = ranks[rank];
    AllReduceRequest request;
    request.place = {rank, world.size(), way.hosts};
    request.name.round = round;
    request.wire = way.wire;
    if (ends.empty()) {
      request.input = std::as_bytes(std::span(mine.input));
      request.output = std::as_writable_bytes(std::span(mine.output));
    } else {
      request.coded = ends[rank];
    }
    request.error = mine.error;
    request.next_error = mine.next_error;
    request.reach = mine.reach;
    request.next_reach = mine.next_reach;
    request.chunk_bytes = way.chunk_bytes;
    request.strategy = way.strategy;
    StartAllReduce(world.transport(rank), request,
                   [&mine, finished](StatusOr<AllReduceResult> result) {
                     EXPECT_TRUE(result.ok()) << Message(result.status());
                     if (result.ok()) mine.result = *result;
                     finished();
                   });
  });
}

void ExpectTheSameBits(const std::vector<CodedRank>& ranks) {
  for (const CodedRank& rank : ranks) {
    ASSERT_EQ(Digest(std::as_bytes(std::span(rank.output))),
              Digest(std::as_bytes(std::span(ranks[0].output))));
    ASSERT_EQ(rank.next_reach, ranks[0].next_reach);
    EXPECT_EQ(rank.result.digest, ranks[0].result.digest);
    EXPECT_FALSE(rank.result.non_finite);
  }
}

void ExpectNothingLost(const std::vector<CodedRank>& ranks) {
  for (size_t i = 0; i < ranks[0].output.size(); ++i) {
    double before = 0, after = ranks[0].output[i];
    for (const CodedRank& rank : ranks) {
      before += rank.input[i] + rank.error[i];  // in fp32
      after += rank.next_error[i];
    }
    ASSERT_EQ(before, after) << i;
  }
}

void Commit(std::vector<CodedRank>& ranks) {
  for (CodedRank& rank : ranks) {
    rank.error.swap(rank.next_error);
    rank.reach.swap(rank.next_reach);
  }
}

// Three rounds; of all that came out of them, the errors of every rank included.
uint64_t DigestOf(World& world, uint64_t* round, const Way& way, size_t count) {
  std::vector<CodedRank> ranks(world.size(), CodedRank(count));
  uint64_t digest = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    for (int r = 0; r < world.size(); ++r) ranks[r].input = Gradient(count, 100 * seed + r);
    AllReduce(world, ++*round, way, ranks);
    ExpectTheSameBits(ranks);
    ExpectNothingLost(ranks);
    for (const CodedRank& rank : ranks) {
      digest = Combine(digest, Digest(std::as_bytes(std::span(rank.output))));
      digest = Combine(digest, Digest(std::as_bytes(std::span(rank.next_error))));
      digest = Combine(digest, Digest(std::as_bytes(std::span(rank.next_reach))));
    }
    Commit(ranks);
  }
  double applied = 0;
  for (const float value : ranks[0].output) applied += std::fabs(value);
  EXPECT_GT(applied, 0);
  return digest;
}

std::vector<Way> WaysOf(int world, const std::string& wire) {
  std::vector<Way> ways = {{wire}};
  for (const size_t chunk_bytes : {size_t{1}, size_t{5000}, size_t{1} << 20}) {
    ways.push_back({wire, {}, chunk_bytes});
  }
  for (const Strategy strategy :
       {Strategy::kRing, Strategy::kRecursiveDoubling, Strategy::kDirect, Strategy::kHierarchy}) {
    for (const int ranks : {1, 2, 3, world}) {
      if (ranks <= world) ways.push_back({wire, EvenHosts(world, ranks), 0, strategy});
    }
  }
  return ways;
}

class CodedOver : public testing::TestWithParam<Kind> {};

TEST_P(CodedOver, EveryScheduleAndEveryCutGivesOneDigestAndLosesNothing) {
  for (int size = 1; size <= 9; ++size) {
    if (GetParam() == Kind::kUcx && size != 2 && size != 5) continue;  // the rest in memory
    World world(GetParam(), size);
    uint64_t round = 0;
    for (const char* wire : {"int8", "int4"}) {
      const std::vector<Way> ways = WaysOf(size, wire);
      const uint64_t digest = DigestOf(world, &round, ways[0], kCount);
      for (size_t w = 1; w < ways.size(); ++w) {
        ASSERT_EQ(DigestOf(world, &round, ways[w], kCount), digest)
            << wire << ", " << size << " ranks, way " << w;
      }
    }
  }
}

// The larger worlds, by every strategy, in memory.
TEST(Coded, OneDigestAndNothingLostInAllWorldsUpTo33) {
  constexpr size_t kFew = 34 * kLatticePack + 5;  // a pack a slot, and one that is not whole
  for (int size = 10; size <= 33; ++size) {
    World world(Kind::kInProcess, size);
    uint64_t round = 0;
    for (const char* wire : {"int8", "int4"}) {
      const uint64_t digest = DigestOf(world, &round, {wire, {}, 0, Strategy::kRing}, kFew);
      for (const Way& way :
           {Way{wire, {}, 0, Strategy::kRecursiveDoubling}, Way{wire, {}, 0, Strategy::kDirect},
            Way{wire, EvenHosts(size, 1 + size % 7), 0, Strategy::kHierarchy}}) {
        ASSERT_EQ(DigestOf(world, &round, way, kFew), digest) << wire << ", " << size << " ranks";
      }
    }
  }
}

TEST_P(CodedOver, ShortTensorsAndEmptyOnesGoToo) {
  for (const int size : {1, 2, 3, 8}) {
    World world(GetParam(), size);
    uint64_t round = 0;
    for (const size_t count : {size_t{0}, size_t{1}, size_t{255}, size_t{257}}) {
      for (const char* wire : {"int8", "int4"}) {
        std::vector<CodedRank> ranks(size, CodedRank(count));
        for (int again = 0; again < 2; ++again) {
          for (int r = 0; r < size; ++r) ranks[r].input = Gradient(count, 10 + r);
          AllReduce(world, ++round, {wire}, ranks);
          ExpectTheSameBits(ranks);
          ExpectNothingLost(ranks);
          Commit(ranks);
        }
      }
    }
  }
}

// What is applied lags by a round, and by half a scale of each rank: sums of many rounds agree.
TEST_P(CodedOver, WhatIsAppliedFollowsTheSumsOfManyRounds) {
  World world(GetParam(), 4);
  for (const char* wire : {"int8", "int4"}) {
    std::vector<CodedRank> ranks(4, CodedRank(kCount));
    std::vector<double> applied(kCount), brought(kCount);
    for (uint64_t round = 1; round <= 12; ++round) {
      for (int r = 0; r < 4; ++r) {
        ranks[r].input = Gradient(kCount, 100 * round + static_cast<uint64_t>(r));
        for (size_t i = 0; i < kCount; ++i) brought[i] += ranks[r].input[i];
      }
      AllReduce(world, round + (wire[3] == '4' ? 100 : 0), {wire}, ranks);
      for (size_t i = 0; i < kCount; ++i) applied[i] += ranks[0].output[i];
      Commit(ranks);
    }
    for (size_t i = 0; i < kCount; ++i) ASSERT_NEAR(applied[i], brought[i], 4 * 0.5) << i;
  }
}

TEST_P(CodedOver, SendsWhatTheWidthsOfItsSumsSay) {
  World world(GetParam(), 4);
  constexpr size_t kPacks = 64;
  std::vector<CodedRank> ranks(4, CodedRank(kPacks * kLatticePack));
  AllReduce(world, 1, {.wire = "int4", .strategy = Strategy::kRing}, ranks);
  // 4, 5, 6 bits on the way to the sum, thrice 6 with it; a byte for each block.
  const uint64_t of_pack = 32 * (4 + 5 + 6 + 3 * 6) + 6 * 4;
  EXPECT_EQ(ranks[0].result.sent_bytes, kPacks / 4 * of_pack);
  AllReduce(world, 2, {.wire = "int8", .strategy = Strategy::kDirect}, ranks);
  EXPECT_EQ(ranks[0].result.sent_bytes, kPacks / 4 * (32 * (3 * 8 + 3 * 10) + 6 * 4));
}

TEST_P(CodedOver, NotANumberIsSeenByAllAndNothingOfItIsApplied) {
  World world(GetParam(), 3);
  uint64_t round = 0;
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    std::vector<CodedRank> ranks(3, CodedRank(kCount));
    for (int r = 0; r < 3; ++r) ranks[r].input = Gradient(kCount, r);
    AllReduce(world, ++round, {}, ranks);
    Commit(ranks);
    ranks[1].input[300] = bad;
    AllReduce(world, ++round, {}, ranks);
    for (const CodedRank& rank : ranks) {
      EXPECT_TRUE(rank.result.non_finite);
      EXPECT_EQ(rank.result.digest, ranks[0].result.digest);
      for (const float value : rank.output) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

// Scales that differ between ranks are a defect: the digest shows it.
TEST_P(CodedOver, ADifferenceOfScalesShowsInTheDigest) {
  World world(GetParam(), 2);
  std::vector<CodedRank> ranks(2, CodedRank(kCount));
  for (CodedRank& rank : ranks) std::fill(rank.reach.begin(), rank.reach.end(), BlockReach{0x3f80});
  ranks[1].reach[3] = 0x4000;
  AllReduce(world, 1, {}, ranks);
  EXPECT_NE(ranks[0].result.digest, ranks[1].result.digest);
}

TEST(Coded, ARequestThatDoesNotFitIsRefused) {
  World world(Kind::kInProcess, 1);
  const auto refused = [&](const std::function<void(AllReduceRequest*)>& change) {
    CodedRank mine(kCount);
    AllReduceRequest request;
    request.place = {0, 1};
    request.wire = "int4";
    request.input = std::as_bytes(std::span(mine.input));
    request.output = std::as_writable_bytes(std::span(mine.output));
    request.error = mine.error;
    request.next_error = mine.next_error;
    request.reach = mine.reach;
    request.next_reach = mine.next_reach;
    change(&request);
    std::string message;
    world.RunAll([&](int rank, std::function<void()> finished) {
      StartAllReduce(world.transport(rank), request,
                     [&, finished](StatusOr<AllReduceResult> result) {
                       message = result.ok() ? "" : Message(result.status());
                       finished();
                     });
    });
    return message;
  };
  EXPECT_EQ(refused([](AllReduceRequest*) {}), "");
  EXPECT_NE(refused([](AllReduceRequest* request) { request->wire = "int2"; }).find("int8, int4"),
            std::string::npos);
  EXPECT_NE(refused([](AllReduceRequest* request) { request->op = ReduceOp::kMax; }).find("sums"),
            std::string::npos);
  EXPECT_NE(refused([](AllReduceRequest* request) { request->reach = {}; }).find("164 blocks"),
            std::string::npos);
  EXPECT_NE(refused([](AllReduceRequest* request) {
              request->wire = "int8";
              request->place.world = 259;
            }).find("up to 258 ranks"),
            std::string::npos);
  const std::vector<CodedPiece> apart = {{nullptr, 0, 1}, {nullptr, 2 * kLatticePack, 1}};
  const auto with = [&](std::span<const CodedPiece> pieces, size_t packed) {
    return refused([&, memory = std::vector<std::byte>(packed)](AllReduceRequest* request) mutable {
      request->place.world = 2;
      request->coded = {pieces, 1, memory};
    });
  };
  EXPECT_NE(with(apart, 0).find("a piece at 512 behind one that ends at 1"), std::string::npos);
  EXPECT_NE(with(std::span(apart).first(1), 0).find("pieces up to 1,"), std::string::npos);
  EXPECT_NE(with({}, 9).find("9 bytes of"), std::string::npos);
  EXPECT_NE(refused([&](AllReduceRequest* request) {
              request->coded.pieces = apart;
            }).find("of several ranks"),
            std::string::npos);
}

// Tensors of a group where they lie, and their averages decoded there: by pieces and a packed sum.
TEST_P(CodedOver, PiecesAndPackedSumsHaveTheBitsOfAnInputAndAnOutput) {
  constexpr size_t kTensors[] = {1, 300, 512, 20'000, 7};
  constexpr float kWeight = 3, kDivisor = 7;
  std::vector<size_t> begin;
  size_t elements = 0;
  for (const size_t count : kTensors) {
    begin.push_back(elements);
    elements += LatticePacks(count) * kLatticePack;
  }
  for (const int size : {2, 5}) {
    World world(GetParam(), size);
    uint64_t round = 0;
    for (const Way& way : WaysOf(size, size == 2 ? "int8" : "int4")) {
      std::vector<CodedRank> flat(size, CodedRank(elements)), pieces = flat;
      for (const float weight : {kWeight, kWeight, 0.0f}) {
        std::vector<std::vector<float>> gradients(size);
        std::vector<CodedEnds> ends(size);
        std::vector<std::vector<CodedPiece>> lists(size);
        const int levels = LatticeLevels(CodeBits(way.wire));
        const int width = LatticeWidth(levels, size);
        const size_t blocks = LatticeBlocks(elements);
        std::vector<std::vector<std::byte>> packed(
            size, std::vector<std::byte>(PackedBytes(blocks, width)));
        for (int r = 0; r < size; ++r) {
          gradients[r] = Gradient(elements, 10 * round + r);
          if (weight == 0) gradients[r][5] = NAN;  // not read
          std::ranges::fill(flat[r].input, 0.0f);
          for (size_t t = 0; t < std::size(kTensors); ++t) {
            lists[r].push_back({gradients[r].data() + begin[t], begin[t], kTensors[t]});
            for (size_t i = begin[t]; weight != 0 && i < begin[t] + kTensors[t]; ++i) {
              flat[r].input[i] = weight * gradients[r][i];
            }
          }
          ends[r] = {lists[r], weight, packed[r]};
        }
        AllReduce(world, ++round, way, flat);
        AllReduce(world, ++round, way, pieces, ends);
        for (int r = 0; r < size; ++r) {
          ASSERT_EQ(pieces[r].result.digest, flat[r].result.digest) << way.wire << weight;
          ASSERT_EQ(pieces[r].next_reach, flat[r].next_reach);
          for (size_t t = 0; t < std::size(kTensors); ++t) {
            const auto error = flat[r].next_error.begin() + begin[t];
            ASSERT_TRUE(
                std::equal(error, error + kTensors[t], pieces[r].next_error.begin() + begin[t]));
            std::vector<float> average(kTensors[t]);
            LatticeResult into;
            into.values = average.data();
            into.reach = flat[r].reach.data() + begin[t] / kLatticeBlock;
            into.count = average.size();
            into.levels = levels;
            into.divisor = kDivisor;
            DecodeSum(packed[r].data() + PackedBytes(LatticeBlocks(begin[t]), width), size, into);
            for (size_t i = 0; i < average.size(); ++i) {
              ASSERT_EQ(average[i], flat[r].output[begin[t] + i] / kDivisor);
            }
          }
        }
        Commit(flat);
        Commit(pieces);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, CodedOver, testing::Values(Kind::kInProcess, Kind::kUcx),
                         [](const auto& info) { return NameOfKind(info.param); });

}  // namespace
}  // namespace ringwood

// All-reduce with bf16 on the wire: who rounds keeps the error.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "base/random.h"
#include "dense/all_reduce.h"
#include "dense/arithmetic/half.h"
#include "dense/slots.h"
#include "tests/transport/world.h"

namespace ringwood {
namespace {

constexpr size_t kChunk = 4096;  // elements

// Multiples of 2^-4 below 2^15: sums of nine of them and of the errors are exact in fp32.
std::vector<float> CoarseValues(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(random.Below(1 << 20)) / 16 - (1 << 15);
  }
  return values;
}

struct RoundedRank {
  std::vector<float> input, output, error, next_error;
  AllReduceResult result;
};

std::vector<RoundedRank> Ranks(int world, size_t count) {
  std::vector<RoundedRank> ranks(world);
  for (int r = 0; r < world; ++r) {
    ranks[r].input = CoarseValues(count, r + 1);
    ranks[r].error = CoarseValues(count, 100 + r);
    for (float& error : ranks[r].error) error /= 256;
    for (float& error : ranks[r].error) error = std::round(error * 16) / 16;
    ranks[r].output.resize(count);
    ranks[r].next_error.assign(count, -1);
  }
  return ranks;
}

void AllReduce(World& world, uint64_t round, size_t chunk_bytes, std::vector<RoundedRank>& ranks) {
  world.RunAll([&](int rank, std::function<void()> finished) {
    RoundedRank& mine = ranks[rank];
    AllReduceRequest request;
    request.place.rank = rank;
    request.place.world = world.size();
    request.name.round = round;
    request.wire = "bf16";
    request.input = std::as_bytes(std::span(mine.input));
    request.output = std::as_writable_bytes(std::span(mine.output));
    request.error = mine.error;
    request.next_error = mine.next_error;
    request.chunk_bytes = chunk_bytes;
    StartAllReduce(world.transport(rank), request,
                   [&mine, finished](StatusOr<AllReduceResult> result) {
                     EXPECT_TRUE(result.ok()) << Message(result.status());
                     if (result.ok()) mine.result = *result;
                     finished();
                   });
  });
}

// Sequential, in the order that dense/ring.h documents, rounding at every hop.
std::vector<float> Reference(const std::vector<RoundedRank>& ranks) {
  const int world = static_cast<int>(ranks.size());
  const size_t count = ranks[0].input.size();
  std::vector<float> sum(count);
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const auto slots = CutEvenly(std::min(kChunk, count - begin), world);
    for (int s = 0; s < world; ++s) {
      for (size_t i = begin + slots[s].begin; i < begin + slots[s].begin + slots[s].count; ++i) {
        sum[i] = FromBFloat16(ToBFloat16(ranks[s].input[i] + ranks[s].error[i]));
        for (int k = 1; k < world; ++k) {
          const RoundedRank& next = ranks[(s + k) % world];
          sum[i] = FromBFloat16(ToBFloat16(sum[i] + (next.input[i] + next.error[i])));
        }
      }
    }
  }
  return sum;
}

void ExpectNothingLost(const std::vector<RoundedRank>& ranks) {
  for (size_t i = 0; i < ranks[0].output.size(); ++i) {
    double before = 0, after = ranks[0].output[i];
    for (const RoundedRank& rank : ranks) {
      before += static_cast<double>(rank.input[i]) + rank.error[i];
      after += rank.next_error[i];
    }
    ASSERT_EQ(before, after) << i;
  }
}

void ExpectTheSameBits(const std::vector<RoundedRank>& ranks) {
  for (const RoundedRank& rank : ranks) {
    ASSERT_TRUE(std::ranges::equal(std::as_bytes(std::span(rank.output)),
                                   std::as_bytes(std::span(ranks[0].output))));
    EXPECT_EQ(rank.result.digest, ranks[0].result.digest);
  }
}

// What docs/dense.md says of bf16 on a ring, element by element: each rank rounds the sum so far
// and keeps what is cut off, and the last one also that of the result. Its own rounding, on bits.
struct PlainRing {
  std::vector<float> output;
  std::vector<std::vector<float>> next_error;  // by rank
};

float RoundedToHalfOfItsBits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t low = bits & 0xffffu, even = bits >> 16 & 1;
  const uint32_t up = low > 0x8000u || (low == 0x8000u && even == 1) ? 1 : 0;
  return std::bit_cast<float>(((bits >> 16) + up) << 16);
}

PlainRing PlainRingOf(const std::vector<RoundedRank>& ranks) {
  const size_t world = ranks.size(), count = ranks[0].input.size();
  PlainRing plain{std::vector<float>(count),
                  std::vector<std::vector<float>>(world, std::vector<float>(count))};
  for (size_t i = 0; i < count; ++i) {
    // The slot of the element: chunks of kChunk, of which the first slots are one longer.
    const size_t chunk = std::min(kChunk, count - i / kChunk * kChunk), at = i % kChunk;
    size_t slot = 0;
    for (size_t end = 0; slot < world; ++slot) {
      end += chunk / world + (slot < chunk % world ? 1 : 0);
      if (at < end) break;
    }
    float sum = 0;
    for (size_t k = 0; k < world; ++k) {
      const size_t rank = (slot + k) % world;
      const float own = ranks[rank].input[i] + ranks[rank].error[i];
      const float value = k == 0 ? own : sum + own;
      sum = RoundedToHalfOfItsBits(value);
      plain.next_error[rank][i] = value - sum;
    }
    plain.output[i] = sum;
  }
  return plain;
}

// Denormals, signed zeros, neighbours of very different size, values that cancel.
float Uneasy(Random& random, int rank) {
  const double unit = random.Unit() * 2 - 1;
  switch (random.Below(7)) {
    case 0:
      return rank % 2 == 0 ? -0.0f : 0.0f;
    case 1:
      return std::bit_cast<float>(static_cast<uint32_t>(random.Below(1 << 23)) |
                                  (unit < 0 ? 0x80000000u : 0));
    case 2:
      return static_cast<float>(unit * 1e36);
    case 3:
      return rank % 2 == 0 ? 1.00390625f : -1.00390625f;  // half of the last bit that stays
    default:
      return static_cast<float>(unit * unit * unit);
  }
}

bool AlikeToTheBit(const std::vector<float>& one, const std::vector<float>& other) {
  return std::ranges::equal(std::as_bytes(std::span(one)), std::as_bytes(std::span(other)));
}

TEST(RoundedRing, OutputAndErrorsHaveTheBitsOfTheDocumentationForManyRounds) {
  for (const int size : {2, 3, 5}) {
    World world(Kind::kInProcess, size);
    std::vector<RoundedRank> ranks = Ranks(size, 2 * kChunk + 77);
    for (RoundedRank& rank : ranks) std::ranges::fill(rank.error, 0.0f);
    Random random(size);
    for (uint64_t round = 1; round <= 4; ++round) {
      for (int r = 0; r < size; ++r) {
        for (float& value : ranks[r].input) value = Uneasy(random, r);
      }
      const PlainRing plain = PlainRingOf(ranks);
      AllReduce(world, round, kChunk * sizeof(float), ranks);
      for (int r = 0; r < size; ++r) {
        ASSERT_TRUE(AlikeToTheBit(ranks[r].output, plain.output)) << size << ", round " << round;
        ASSERT_TRUE(AlikeToTheBit(ranks[r].next_error, plain.next_error[r]))
            << size << ", " << round;
        ranks[r].error.swap(ranks[r].next_error);
      }
    }
  }
}

class RoundedRingOver : public testing::TestWithParam<Kind> {};

TEST_P(RoundedRingOver, LosesNothingAndGivesTheSameBitsOnAllRanks) {
  for (int size = 1; size <= 9; ++size) {
    World world(GetParam(), size);
    uint64_t round = 0;
    for (size_t count : {0, 1, 3, 1000, 50021}) {
      auto ranks = Ranks(size, count);
      const auto before = ranks;
      AllReduce(world, ++round, kChunk * sizeof(float), ranks);
      ExpectTheSameBits(ranks);
      ExpectNothingLost(ranks);
      if (size > 1) {
        ASSERT_EQ(ranks[0].output, Reference(ranks));
      }
      uint64_t sent = 0;
      for (int r = 0; r < size; ++r) {
        EXPECT_EQ(ranks[r].input, before[r].input);
        EXPECT_EQ(ranks[r].error, before[r].error);
        sent += ranks[r].result.sent_bytes;
      }
      EXPECT_EQ(sent, 2u * (size - 1) * count * sizeof(uint16_t));
    }
  }
}

TEST_P(RoundedRingOver, ShortTensorsGoUnroundedAndTakeTheErrorAlong) {
  for (int size : {2, 3, 5, 8}) {
    World world(GetParam(), size);
    auto ranks = Ranks(size, 1000);
    AllReduce(world, 1, 0, ranks);
    ExpectTheSameBits(ranks);
    ExpectNothingLost(ranks);
    for (const RoundedRank& rank : ranks) EXPECT_EQ(rank.next_error, std::vector<float>(1000));
  }
}

TEST_P(RoundedRingOver, ManyRoundsStayWithinOneRoundingOfTheTrueSum) {
  World world(GetParam(), 4);
  auto ranks = Ranks(4, 5000);
  for (RoundedRank& rank : ranks) rank.error.assign(5000, 0);
  constexpr int kRounds = 20;
  std::vector<double> applied(5000), truth(5000), largest(5000);
  for (int round = 1; round <= kRounds; ++round) {
    AllReduce(world, round, kChunk * sizeof(float), ranks);
    for (RoundedRank& rank : ranks) rank.error.swap(rank.next_error);
    for (size_t i = 0; i < applied.size(); ++i) {
      applied[i] += ranks[0].output[i];
      double partial = 0;
      for (const RoundedRank& rank : ranks) {
        truth[i] += rank.input[i];
        partial += std::fabs(rank.input[i]) * 1.1;
      }
      largest[i] = partial;
    }
  }
  // Without the errors the difference would grow with the rounds.
  for (size_t i = 0; i < applied.size(); ++i) {
    ASSERT_LE(std::fabs(applied[i] - truth[i]), 4 * largest[i] / 256) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, RoundedRingOver, testing::Values(Kind::kInProcess, Kind::kUcx),
                         [](const auto& info) { return NameOfKind(info.param); });

}  // namespace
}  // namespace ringwood

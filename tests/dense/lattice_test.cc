// The codec of int8 and int4: sums of codes lose nothing, whatever their order.
#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "base/buffer.h"
#include "base/random.h"
#include "dense/lattice/codes.h"

namespace ringwood {
namespace {

constexpr int kBits[] = {4, 8};

// What one rank has of a tensor.
struct Share {
  std::vector<float> values, error, next_error;
  BlockReach less = 0;
};

LatticeSource SourceOf(Share& share, const std::vector<BlockReach>& reach, int levels) {
  return {share.values.data(), share.error.data(),  share.next_error.data(),
          reach.data(),        share.values.size(), levels,
          share.less};
}

Share Make(std::vector<float> values) {
  const size_t count = values.size();
  return {std::move(values), std::vector<float>(count), std::vector<float>(count, -1)};
}

// Multiples of 2^-4 below 2^12: sums over 33 ranks and some rounds are exact in fp32.
std::vector<float> Coarse(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.Below(1 << 17)) / 16 - (1 << 12);
  return values;
}

// As gradients are: heavy tails, blocks of very different size, zeros in between.
std::vector<float> Heavy(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const double size = std::ldexp(1.0, static_cast<int>(i / kLatticeBlock % 60) - 40);
    const double unit = random.Unit() * 2 - 1;
    if (random.Below(8) != 0) values[i] = static_cast<float>(size * unit * unit * unit);
  }
  return values;
}

std::vector<BlockReach> Unknown(size_t count) {
  return std::vector<BlockReach>(LatticeBlocks(count));
}

std::vector<std::byte> Room(size_t count, int levels, int terms) {
  return std::vector<std::byte>(PackedBytes(LatticeBlocks(count), LatticeWidth(levels, terms)));
}

struct Sum {
  std::vector<std::byte> packed;
  int terms = 0;
};

Sum Alone(Share& share, const std::vector<BlockReach>& reach, int levels) {
  Sum sum{Room(share.values.size(), levels, 1), 1};
  AddSource(SourceOf(share, reach, levels), nullptr, 0, sum.packed.data());
  return sum;
}

// As a ring adds: every rank to what came from the one before.
Sum Chain(std::vector<Share>& ranks, const std::vector<BlockReach>& reach, int levels) {
  Sum sum;
  for (Share& rank : ranks) {
    Sum next{Room(rank.values.size(), levels, sum.terms + 1), sum.terms + 1};
    AddSource(SourceOf(rank, reach, levels), sum.packed.data(), sum.terms, next.packed.data());
    sum = std::move(next);
  }
  return sum;
}

Sum Together(Sum left, const Sum& right, size_t count, int levels) {
  const int terms = left.terms + right.terms;
  left.packed.resize(Room(count, levels, terms).size());
  AddPacked({left.packed.data(), left.terms}, right.packed.data(), right.terms,
            LatticeBlocks(count), levels);
  return {std::move(left.packed), terms};
}

// As doubling adds: halves of the ranks.
Sum Tree(std::vector<Share>& ranks, const std::vector<BlockReach>& reach, int levels, size_t begin,
         size_t end) {
  if (end - begin == 1) return Alone(ranks[begin], reach, levels);
  const size_t middle = (begin + end) / 2;
  return Together(Tree(ranks, reach, levels, begin, middle),
                  Tree(ranks, reach, levels, middle, end), ranks[0].values.size(), levels);
}

struct Decoded {
  std::vector<float> values;
  std::vector<BlockReach> next_reach;
};

Decoded Decode(const Sum& sum, const std::vector<BlockReach>& reach, size_t count, int levels) {
  Decoded decoded{std::vector<float>(count, -1), std::vector<BlockReach>(reach.size())};
  DecodeSum(sum.packed.data(), sum.terms,
            {decoded.values.data(), reach.data(), decoded.next_reach.data(), count, levels});
  return decoded;
}

// One round of all ranks; their errors become the new ones.
Decoded Round(std::vector<Share>& ranks, std::vector<BlockReach>* reach, int levels) {
  const Sum sum = Chain(ranks, *reach, levels);
  Decoded decoded = Decode(sum, *reach, ranks[0].values.size(), levels);
  for (Share& rank : ranks) rank.error.swap(rank.next_error);
  *reach = decoded.next_reach;
  return decoded;
}

TEST(Lattice, NoSumOfCodesOverflowsItsWidthOrNeedsMoreThanTheLogarithmOfTheRanks) {
  for (const int bits : kBits) {
    const int levels = LatticeLevels(bits);
    for (int terms = 1; terms <= MostLatticeTerms(levels); ++terms) {
      const int width = LatticeWidth(levels, terms);
      ASSERT_LT(2 * levels * terms, 1 << width) << terms;
      ASSERT_LE(width, 16);
      ASSERT_LE(width, bits + std::bit_width(static_cast<unsigned>(terms - 1))) << terms;
    }
    EXPECT_EQ(LatticeWidth(levels, 1), bits);
    EXPECT_GT(LatticeWidth(levels, MostLatticeTerms(levels) + 1), 16);
  }
}

TEST(Lattice, AScaleReachesWhatItsBlockHasAndAQuarterMoreAtMost) {
  for (const int bits : kBits) {
    const auto levels = static_cast<float>(LatticeLevels(bits));
    int known = 0;
    for (uint32_t reach = 0; reach <= kLargestReach; ++reach) {
      const float scale = ScaleOf(static_cast<BlockReach>(reach), LatticeLevels(bits));
      if (scale == 0) continue;
      const float largest = std::bit_cast<float>(reach << 16);
      const float wanted = largest * LatticeHeadroom(static_cast<int>(levels));
      ASSERT_GE(levels * scale, wanted * (1 - FLT_EPSILON)) << reach;
      ASSERT_LE(levels * scale, wanted * 1.2501f) << reach;
      ASSERT_EQ(std::bit_cast<uint32_t>(scale) & 0x1fffff, 0u) << reach;
      ++known;
    }
    EXPECT_GT(known, 20000);
  }
}

// Of two codecs with the same sums, block for block: vectors and plain loops.
TEST(Lattice, VectorsGiveTheBitsOfPlainLoops) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const int bits : kBits) {
    const int levels = LatticeLevels(bits);
    for (const size_t count : {1, 255, 256, 257, 2000}) {
      for (const int terms : {0, 1, 2, 4, 9, 32, 200}) {
        Share mine = Make(Heavy(count, 1));
        mine.error = Heavy(count, 2);
        mine.values[count / 2] = terms == 1 ? inf : std::nanf("");
        mine.values[count / 3] = 1e30f;
        mine.values[0] = mine.error[0] = -0.0f;
        std::vector<BlockReach> reach = Unknown(count);
        for (size_t b = 0; b < reach.size(); ++b)
          reach[b] = static_cast<BlockReach>(0x3000 + 77 * b);
        Sum partial;
        std::vector<Share> others(terms);
        for (int t = 0; t < terms; ++t) others[t] = Make(Heavy(count, 10 + t));
        if (terms > 0) partial = Chain(others, reach, levels);
        Share copy = mine;
        std::vector<std::byte> sum = Room(count, levels, terms + 1), same = sum;
        AddSource(SourceOf(mine, reach, levels), partial.packed.data(), terms, sum.data());
        ReferenceAddSource(SourceOf(copy, reach, levels), partial.packed.data(), terms,
                           same.data());
        ASSERT_EQ(sum, same) << count << " " << terms;
        for (size_t i = 0; i < count; ++i) {
          if (std::isnan(copy.next_error[i])) continue;
          ASSERT_EQ(std::bit_cast<uint32_t>(mine.next_error[i]),
                    std::bit_cast<uint32_t>(copy.next_error[i]));
        }
        const Sum one = Alone(others.empty() ? copy : others[0], reach, levels);
        const size_t room = Room(count, levels, terms + 2).size();
        sum.resize(room);
        same.resize(room);
        AddPacked({sum.data(), terms + 1}, one.packed.data(), 1, reach.size(), levels);
        ReferenceAddPacked({same.data(), terms + 1}, one.packed.data(), 1, reach.size(), levels);
        ASSERT_EQ(sum, same);
        const Decoded decoded = Decode({sum, terms + 2}, reach, count, levels);
        Decoded plain = decoded;
        plain.values.assign(count, -2);
        ReferenceDecodeSum(
            same.data(), terms + 2,
            {plain.values.data(), reach.data(), plain.next_reach.data(), count, levels});
        ASSERT_EQ(decoded.values, plain.values);
        ASSERT_EQ(decoded.next_reach, plain.next_reach);
      }
    }
  }
}

// Vectors write past the cache where memory begins with a whole one.
TEST(Lattice, WhereMemoryBeginsChangesNoBit) {
  constexpr size_t kCount = 1300;
  const int levels = LatticeLevels(4);
  Share plain = Make(Heavy(kCount, 1));
  plain.error = Heavy(kCount, 2);
  const std::vector<BlockReach> reach(LatticeBlocks(kCount), 0x3f80);
  std::vector<std::byte> packed = Room(kCount, levels, 1), same = packed;
  ReferenceAddSource(SourceOf(plain, reach, levels), nullptr, 0, packed.data());
  const Decoded decoded = Decode({packed, 1}, reach, kCount, levels);
  for (size_t at = 0; at < 20; ++at) {
    Buffer<float> next_error(at + kCount), values(at + kCount);
    LatticeSource source = SourceOf(plain, reach, levels);
    source.next_error = next_error.data() + at;
    AddSource(source, nullptr, 0, same.data());
    EXPECT_EQ(packed, same) << at;
    EXPECT_TRUE(std::equal(plain.next_error.begin(), plain.next_error.end(), source.next_error));
    std::vector<BlockReach> next_reach(reach.size());
    DecodeSum(packed.data(), 1,
              {values.data() + at, reach.data(), next_reach.data(), kCount, levels});
    EXPECT_TRUE(std::equal(decoded.values.begin(), decoded.values.end(), values.data() + at)) << at;
  }
}

TEST(Lattice, SumsHaveTheSameBitsInEveryOrderAndInPieces) {
  for (const int bits : kBits) {
    const int levels = LatticeLevels(bits);
    constexpr size_t kCount = 5 * kLatticePack + 17;
    for (const int world : {1, 2, 3, 5, 8, 9, 17, 33}) {
      std::vector<Share> ranks;
      for (int r = 0; r < world; ++r) ranks.push_back(Make(Heavy(kCount, r + 1)));
      std::vector<BlockReach> reach = Unknown(kCount);
      Round(ranks, &reach, levels);
      std::vector<Share> again = ranks;
      const Sum chain = Chain(ranks, reach, levels);
      std::vector<Share> reversed(again.rbegin(), again.rend());
      EXPECT_EQ(chain.packed, Chain(reversed, reach, levels).packed) << world;
      EXPECT_EQ(chain.packed, Tree(again, reach, levels, 0, again.size()).packed) << world;
      for (int r = 0; r < world; ++r) ASSERT_EQ(ranks[r].next_error, again[r].next_error);
      // The second half of the packs by itself.
      const Decoded whole = Decode(chain, reach, kCount, levels);
      constexpr size_t kFrom = 2 * kLatticePack;
      std::vector<Share> tails;
      for (const Share& rank : again) {
        tails.push_back(Make({rank.values.begin() + kFrom, rank.values.end()}));
        tails.back().error.assign(rank.error.begin() + kFrom, rank.error.end());
      }
      const std::vector<BlockReach> tail_reach(reach.begin() + 2 * kPackBlocks, reach.end());
      const Decoded tail =
          Decode(Chain(tails, tail_reach, levels), tail_reach, kCount - kFrom, levels);
      EXPECT_EQ(tail.values, std::vector<float>(whole.values.begin() + kFrom, whole.values.end()));
    }
  }
}

TEST(Lattice, NothingIsLostOfWholeNumbersInAnyWorld) {
  for (const int bits : kBits) {
    const int levels = LatticeLevels(bits);
    for (int world = 1; world <= 33; ++world) {
      for (const size_t count : {size_t{1}, size_t{700}}) {
        std::vector<Share> ranks(world);
        for (Share& rank : ranks) {
          rank = Make(std::vector<float>(count));
          if (&rank != ranks.data()) rank.less = LessFor(levels, 0.5);
        }
        std::vector<BlockReach> reach = Unknown(count);
        std::vector<double> brought(count), applied(count);
        for (uint64_t round = 1; round <= 6; ++round) {
          for (int r = 0; r < world; ++r) {
            ranks[r].values = Coarse(count, 100 * round + static_cast<uint64_t>(r));
            for (size_t i = 0; i < count; ++i) brought[i] += ranks[r].values[i];
          }
          const Decoded decoded = Round(ranks, &reach, levels);
          for (size_t i = 0; i < count; ++i) {
            applied[i] += decoded.values[i];
            double owed = 0;
            for (const Share& rank : ranks) owed += rank.error[i];
            ASSERT_EQ(brought[i], applied[i] + owed) << world << " ranks, round " << round;
          }
        }
        double all = 0;
        for (const double value : applied) all += std::fabs(value);
        EXPECT_GT(all, 0);
      }
    }
  }
}

// Of real gradients fl(x + error) is what counts: its rounding, half a unit in the last place, is
// all that there is.
TEST(Lattice, OfGradientsNothingIsLostButTheRoundingOfTheOneAddition) {
  for (const int bits : kBits) {
    const int levels = LatticeLevels(bits);
    constexpr size_t kCount = 61 * kLatticeBlock + 3;
    for (const int world : {1, 2, 7, 33}) {
      std::vector<Share> ranks(world);
      for (int r = 0; r < world; ++r) ranks[r] = Make(Heavy(kCount, r + 1));
      std::vector<BlockReach> reach = Unknown(kCount);
      Round(ranks, &reach, levels);
      for (int r = 0; r < world; ++r) ranks[r].values = Heavy(kCount, 100 + r);
      const std::vector<Share> before = ranks;
      std::vector<double> sent(kCount);
      for (Share& rank : ranks) {
        const Decoded alone = Decode(Alone(rank, reach, levels), reach, kCount, levels);
        for (size_t i = 0; i < kCount; ++i) {
          const float value = rank.values[i] + rank.error[i];
          ASSERT_EQ(value, static_cast<double>(alone.values[i]) + rank.next_error[i]) << i;
          const float scale = ScaleOf(reach[i / kLatticeBlock], levels);
          if (std::fabs(value) <= scale * static_cast<float>(levels)) {
            ASSERT_LE(std::fabs(rank.next_error[i]), scale * 0.500001f);
          }
          sent[i] += alone.values[i];
        }
      }
      ranks = before;
      const Decoded decoded = Round(ranks, &reach, levels);
      for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(decoded.values[i], sent[i]);
    }
  }
}

TEST(Lattice, ValuesWaitUntilTheirScaleIsKnown) {
  for (const int bits : kBits) {
    const int levels = LatticeLevels(bits);
    std::vector<Share> ranks = {Make({1, -3, 0}), Make({2, 0, 0})};
    std::vector<BlockReach> reach = Unknown(3);
    EXPECT_EQ(Round(ranks, &reach, levels).values, std::vector<float>({0, 0, 0}));
    EXPECT_EQ(ranks[0].error, ranks[0].values);
    for (Share& rank : ranks) rank.values.assign(3, 0);
    const Decoded second = Round(ranks, &reach, levels);
    EXPECT_NEAR(second.values[1], -3, 3 * LatticeHeadroom(levels) * 0.625 / levels);
    // A value that is too large for any code waits for one round, and its neighbours go on.
    ranks[1].values = {1, 0, 1e20f};
    const Decoded third = Round(ranks, &reach, levels);
    EXPECT_EQ(third.values[2], 0);
    EXPECT_EQ(ranks[1].error[2], 1e20f);
    ranks[1].values.assign(3, 0);
    const Decoded fourth = Round(ranks, &reach, levels);
    EXPECT_NEAR(fourth.values[2], 1e20f, 1e20f * LatticeHeadroom(levels) * 1.25f / levels);
  }
}

// Each by its own: 8 told as 4 is below 5 told as 5.
TEST(Lattice, ARankMayTellLessThanItsLargest) {
  const int levels = LatticeLevels(4);
  const BlockReach half = LessFor(levels, 0.5), least = 0x80;
  EXPECT_EQ(half, 128);
  EXPECT_EQ(LessFor(levels, 1), 0);
  EXPECT_EQ(LessFor(LatticeLevels(8), 0.5), 0) << "it has headroom";
  std::vector<Share> ranks = {Make({8, 1, 0}), Make({2, 5, 0})};
  ranks[0].less = half;
  std::vector<BlockReach> reach = Unknown(3);
  Round(ranks, &reach, levels);
  EXPECT_EQ(reach[0], 0x4100) << "5, in octaves at first";
  const Decoded second = Round(ranks, &reach, levels);
  EXPECT_EQ(second.values[0] + ranks[0].error[0] + ranks[1].error[0], 2 * (8 + 2)) << "twice";
  for (const BlockReach present : {BlockReach{0}, BlockReach{0x3f80}, kLargestReach}) {
    EXPECT_EQ(ReachWordOf(0x7f800001, present, half), kNoNumber) << "a NaN";
    EXPECT_EQ(ReachWordOf(0x7f800000, present, half), kNoNumber) << "Inf";
    EXPECT_EQ(ReachWordOf(0x7f7fffff, present, half), kNoNumber) << "too large for a sum";
    EXPECT_EQ(ReachWordOf(least << 16, present, half), 0);
    EXPECT_EQ(ReachWordOf(0, present, half), 0);
  }
}

constexpr BlockReach kOne = 0x3f80, kTwo = 0x4000, kFour = 0x4080;

// After a round in which `seen` was the largest.
BlockReach After(BlockReach reach, BlockReach seen) {
  return NextReach(reach, ReachWordOf(static_cast<uint32_t>(seen) << 16, reach, 0));
}

TEST(Lattice, AReachGrowsAtOnceAndFallsSlowly) {
  const BlockReach quarter_octave = 0x20;
  EXPECT_EQ(After(kOne, kFour), kFour);
  EXPECT_EQ(After(kTwo, kTwo), kTwo);
  EXPECT_EQ(After(kFour, kOne), kFour - quarter_octave);
  EXPECT_EQ(After(kTwo, kTwo - 40), kTwo - 10);
  EXPECT_EQ(After(0, 0), 0);
  EXPECT_EQ(After(0x0018, 0), 0x0012);
  BlockReach reach = 0x3f80 + (10 << 7);  // a thousand times as large as what follows
  for (int round = 0; round < 40; ++round) reach = After(reach, kOne);
  EXPECT_LT(reach, kTwo);
}

// Of every reach and everything that can be seen: never too low.
TEST(Lattice, AWordSaysWhatWasSeenOrALittleMore) {
  Random random(1);
  for (int i = 0; i < 2'000'000; ++i) {
    const auto reach = static_cast<BlockReach>(random.Below(kLargestReach + 1));
    const auto seen = static_cast<BlockReach>(random.Below(kLargestReach + 1));
    const BlockReach next = After(reach, seen);
    const bool known = reach >= kLeastReach;
    if (seen >= reach && seen >= kLeastReach) {
      if (known && seen > reach + 130 * 128) continue;  // more than a byte can say
      ASSERT_GE(next, seen) << reach;
      ASSERT_LT(next, seen + (known && seen <= reach + 7 * 128 ? 8 : 128)) << reach;
    } else if (known) {
      ASSERT_LE(next, reach);
      ASSERT_GE(next, reach - 32);
    } else {
      ASSERT_LE(next, kLeastReach) << reach << " " << seen;
    }
  }
  EXPECT_EQ(After(0, kOne), kOne) << "a power of two is told as it is";
  EXPECT_GE(After(After(kLeastReach, kLargestReach - 1), kLargestReach - 1), kLargestReach - 1)
      << "what a byte cannot say is said in two rounds";
}

TEST(Lattice, ANumberThatIsNoneShowsInTheReachOfEveryRank) {
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY, FLT_MAX}) {
    std::vector<Share> ranks = {Make({1, 2}), Make({bad, 1}), Make({3, 4})};
    std::vector<BlockReach> reach = Unknown(2);
    Round(ranks, &reach, 7);
    EXPECT_GT(reach[0], kLargestReach);
  }
  std::vector<Share> ranks = {Make({1, 2}), Make({1e34f, 1})};
  std::vector<BlockReach> reach = Unknown(2);
  Round(ranks, &reach, 7);
  EXPECT_LE(reach[0], kLargestReach);
}

TEST(Lattice, TheLargestReachOverflowsNoSum) {
  for (const int bits : kBits) {
    const int levels = LatticeLevels(bits);
    const float scale = ScaleOf(kLargestReach, levels);
    EXPECT_TRUE(std::isfinite(static_cast<float>(MostLatticeTerms(levels) * levels) * scale));
  }
}

}  // namespace
}  // namespace ringwood

// The kernels of codes, run by an emulation of the device's threads, against the CPU's codec: the
// same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#define RW_DEVICE

#include "base/random.h"
#include "dense/cuda/lattice_step.h"
#include "tests/base/emulated_grid.h"

namespace ringwood {
namespace {

using Words = std::vector<uint16_t>;

// Blocks of very different size, heavy tails, zeros of both signs; what no code holds, in places.
struct RankBlocks {
  RankBlocks(size_t count, uint64_t seed)
      : values(count), error(count), next_error(count, -1.0f), reach(LatticeBlocks(count)) {
    Random random(seed);
    const auto number = [&](size_t i) {
      const double size = std::ldexp(1.0, static_cast<int>(i / kLatticeBlock % 50) - 30);
      const double unit = random.Unit() * 2 - 1;
      return random.Below(8) == 0 ? -0.0f : static_cast<float>(size * unit * unit * unit);
    };
    for (size_t i = 0; i < count; ++i) {
      values[i] = number(i);
      error[i] = number(i);
    }
    values[count / 2] = 1e30f;
  }
  // What the blocks of all ranks reach: some not known yet, some far too small, some too large.
  void Know(const Words& known) { reach = known; }
  LatticeSource Source(int levels) {
    return {values.data(), error.data(), next_error.data(), reach.data(), values.size(),
            levels,        less};
  }

  std::vector<float> values, error, next_error;
  Words reach;
  uint16_t less = 0;
};

Words ReachOf(size_t count, uint64_t seed) {
  Random random(seed);
  Words reach(LatticeBlocks(count));
  for (size_t b = 0; b < reach.size(); ++b) {
    const int exponent = 127 - 30 + static_cast<int>(b % 50);
    reach[b] = static_cast<uint16_t>(exponent << 7 | random.Below(128));
    if (random.Below(7) == 0) reach[b] = 0;
    if (random.Below(9) == 0) reach[b] = static_cast<uint16_t>(random.Below(0x7f00));
  }
  return reach;
}

Words RoomFor(size_t blocks, int width) { return Words(PackedBytes(blocks, width) / 2, 0xdead); }
std::byte* BytesOf(Words& words) { return reinterpret_cast<std::byte*>(words.data()); }

bool EqualBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <typename Kernel>
void OnAGrid(uint32_t blocks, const Kernel& kernel) {
  EmulatedGrid::RunEach(blocks, [&](EmulatedThread& thread) { kernel(thread); });
}

cuda::EncodeView EncodeViewOf(RankBlocks& rank, int levels, Words& codes, uint64_t blocks) {
  cuda::EncodeView view;
  view.values = rank.values.data();
  view.error = rank.error.data();
  view.next_error = rank.next_error.data();
  view.reach = rank.reach.data();
  view.elements = rank.values.size();
  view.packs = blocks / kPackBlocks;
  view.levels = levels;
  view.less = rank.less;
  view.codes = {codes.data(), LatticeWidth(levels, 1)};
  return view;
}

constexpr size_t kCounts[] = {1, 255, 256, 257, 9 * kLatticePack + 13, 70 * kLatticePack};

TEST(CudaLattice, EncodesTheBitsOfTheCpu) {
  for (const int levels : {7, 127}) {
    for (const size_t count : kCounts) {
      RankBlocks mine(count, count);
      mine.Know(ReachOf(count, 3));
      mine.less = LessFor(levels, 0.5);
      RankBlocks plain = mine;
      const size_t blocks = LatticeBlocks(count);
      Words codes = RoomFor(blocks, LatticeWidth(levels, 1)), expected = codes;
      const cuda::EncodeView view = EncodeViewOf(mine, levels, codes, blocks);
      OnAGrid(3, [&](EmulatedThread& thread) { cuda::EncodePacks(thread, view); });
      AddSource(plain.Source(levels), nullptr, 0, BytesOf(expected));
      ASSERT_EQ(codes, expected) << count;
      ASSERT_TRUE(EqualBits(mine.next_error, plain.next_error)) << count;
    }
  }
}

// What is beyond the tensor's end are the codes of zeros.
TEST(CudaLattice, MorePacksThanTheTensorHasAreFilledUpWithZeros) {
  constexpr size_t kCount = 10 * kLatticePack + 3;
  constexpr uint64_t kBlocks = 20 * kPackBlocks;
  const int levels = 7;
  RankBlocks mine(kCount, 5);
  mine.Know(ReachOf(kCount, 6));
  RankBlocks plain = mine;
  plain.values.resize(kBlocks * kLatticeBlock);
  plain.error.resize(plain.values.size());
  plain.next_error.resize(plain.values.size());
  plain.reach.resize(kBlocks);
  Words codes = RoomFor(kBlocks, LatticeWidth(levels, 1)), expected = codes;
  const cuda::EncodeView view = EncodeViewOf(mine, levels, codes, kBlocks);
  OnAGrid(2, [&](EmulatedThread& thread) { cuda::EncodePacks(thread, view); });
  AddSource(plain.Source(levels), nullptr, 0, BytesOf(expected));
  EXPECT_EQ(codes, expected);
  plain.next_error.resize(kCount);
  EXPECT_TRUE(EqualBits(mine.next_error, plain.next_error));
}

// All widths of a sum: worlds 1..9, and one with as many ranks as a sum can have.
TEST(CudaLattice, AddsAndDecodesTheBitsOfTheCpu) {
  for (const int levels : {7, 127}) {
    for (const int world : {1, 2, 3, 4, 5, 6, 7, 8, 9, 40, 100, MostLatticeTerms(levels)}) {
      const size_t count = world > 9 ? kLatticePack + 9 : 6 * kLatticePack + 77;
      const size_t blocks = LatticeBlocks(count);
      const Words reach = ReachOf(count, 8);
      const int width = LatticeWidth(levels, 1), sum_width = LatticeWidth(levels, world);
      const size_t one = PackedBytes(blocks, width) / 2;
      Words codes(one * world), expected = RoomFor(blocks, sum_width), sums = expected;
      for (int r = 0; r < world; ++r) {
        RankBlocks rank(count, 10 + r);
        rank.Know(reach);
        AddSource(rank.Source(levels), nullptr, 0, BytesOf(codes) + r * one * 2);
        if (r == 0) {
          std::memcpy(expected.data(), codes.data(), one * 2);
        } else {
          AddPacked({BytesOf(expected), r}, BytesOf(codes) + r * one * 2, 1, blocks, levels);
        }
      }
      cuda::AddView add;
      add.own = {codes.data(), width};
      add.rest = {codes.data() + one, width};
      add.others = world - 1;
      add.packs = blocks / kPackBlocks;
      add.sums = {sums.data(), sum_width};
      OnAGrid(2, [&](EmulatedThread& thread) { cuda::AddPacks(thread, add); });
      ASSERT_EQ(sums, expected) << world;

      std::vector<float> values(count, -1), plain(count, -2);
      Words next(blocks, 1), plain_next(blocks, 2);
      uint32_t most = 0;
      cuda::DecodeView decode;
      decode.sums = add.sums;
      decode.reach = reach.data();
      decode.next_reach = next.data();
      decode.values = values.data();
      decode.elements = count;
      decode.levels = levels;
      decode.terms = world;
      decode.most = &most;
      OnAGrid(2, [&](EmulatedThread& thread) { cuda::DecodePacks(thread, decode); });
      DecodeSum(BytesOf(expected), world,
                {plain.data(), reach.data(), plain_next.data(), count, levels});
      ASSERT_TRUE(EqualBits(values, plain)) << world;
      ASSERT_EQ(next, plain_next) << world;
      ASSERT_EQ(most, *std::max_element(next.begin(), next.end())) << world;
    }
  }
}

TEST(CudaLattice, AllWidthsAreAddedAndPackedBackAndForth) {
  for (int width = 1; width <= 16; ++width) {
    Random random(width);
    Words codes(kLatticePack), packed = RoomFor(kPackBlocks, width);
    std::vector<uint32_t> seen(kLatticePack);
    for (uint16_t& code : codes) code = static_cast<uint16_t>(random.Below(1 << width));
    uint16_t* const words = packed.data() + kPackBlocks / 2;
    OnAGrid(1, [&](EmulatedThread& thread) {
      if (thread.warp() != 0) return;
      cuda::LaneCodes mine, back;
      for (uint32_t r = 0; r < cuda::kHalf; ++r) mine.at[r] = codes[cuda::ElementOf(thread, r)];
      cuda::PackLane(thread, mine, width, words);
      thread.WarpMax(0);  // what the other lanes have written is read
      cuda::AddLane(thread, words, width, &back);
      for (uint32_t r = 0; r < cuda::kHalf; ++r) {
        seen[cuda::ElementOf(thread, r)] = back.at[r];
      }
    });
    EXPECT_EQ(std::vector<uint32_t>(codes.begin(), codes.end()), seen) << width;
  }
}

TEST(CudaLattice, EveryReachHasTheScaleOfTheCpu) {
  for (const int levels : {7, 127}) {
    for (uint32_t reach = 0; reach <= kLargestReach; ++reach) {
      const cuda::LaneScale lane = cuda::LaneScaleOf<EmulatedThread>(reach, levels);
      const float scale = ScaleOf(static_cast<BlockReach>(reach), levels);
      ASSERT_EQ(lane.scale, scale) << reach;
      ASSERT_EQ(lane.inverse, scale == 0 ? 0 : 1 / scale);
      ASSERT_EQ(lane.limit, scale * 0x1p21f);
    }
  }
}

TEST(CudaLattice, WhatIsNoNumberIsSeenAsOnTheCpuAndNothingOfItIsSent) {
  constexpr size_t kBlocks = 3 * kPackBlocks, kCount = kBlocks * kLatticeBlock;
  for (const float bad : {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const int levels : {7, 127}) {
      RankBlocks mine(kCount, 1);
      mine.Know(Words(kBlocks, 0x3f80));
      mine.values[300] = bad;
      RankBlocks plain = mine;
      Words codes = RoomFor(kBlocks, LatticeWidth(levels, 1)), expected = codes;
      const cuda::EncodeView view = EncodeViewOf(mine, levels, codes, kBlocks);
      OnAGrid(1, [&](EmulatedThread& thread) { cuda::EncodePacks(thread, view); });
      AddSource(plain.Source(levels), nullptr, 0, BytesOf(expected));
      EXPECT_EQ(codes, expected);
      const size_t word = PackedBytes(kPackBlocks, LatticeWidth(levels, 1)) * (300 / kLatticePack) +
                          300 % kLatticePack / kLatticeBlock;
      EXPECT_EQ(static_cast<ReachWord>(BytesOf(codes)[word]), kNoNumber);
      EXPECT_FALSE(std::isfinite(mine.next_error[300]));  // of a round that is not committed
    }
  }
}

}  // namespace
}  // namespace ringwood

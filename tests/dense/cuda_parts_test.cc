// The bodies of the dense kernels, run by an emulation of the device's threads, against plain
// loops: the same bits, over all parts of a group in one launch.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>

#define RW_DEVICE

#include "base/buffer.h"
#include "base/random.h"
#include "dense/arithmetic/half.h"
#include "dense/cuda/part_table.h"
#include "dense/cuda/parts_step.h"
#include "tests/base/emulated_grid.h"

namespace ringwood {
namespace {

// Parts of the given sizes in memory of their own, each `shift` floats behind an aligned address.
struct Parts {
  explicit Parts(const std::vector<uint64_t>& sizes, size_t shift = 0) {
    Random random(sizes.size() + shift);
    for (const uint64_t size : sizes) {
      memory.push_back(Buffer<float>(size + shift));
      float* const data = memory.back().data() + shift;
      for (uint64_t i = 0; i < size; ++i) {
        data[i] = static_cast<float>((random.Unit() - 0.5) * (1 << random.Below(20)));
      }
      parts.push_back({data, size, nullptr, elements});
      elements += size;
    }
  }
  std::vector<float> Flat() const {
    std::vector<float> flat;
    for (size_t p = 0; p < parts.size(); ++p) {
      flat.insert(flat.end(), Of(p), Of(p) + parts[p].elements);
    }
    return flat;
  }
  float* Of(size_t part) const { return static_cast<float*>(parts[part].data); }

  std::vector<Buffer<float>> memory;
  std::vector<DeviceBucket::Part> parts;
  uint64_t elements = 0;
};

cuda::PartsView ViewOf(const cuda::PartTable& table, const cuda::StreamParts& of) {
  return {table.parts.data() + of.first, of.count, of.elements};
}

struct Packed {
  Buffer<float> flat;
  uint32_t largest = 0;
};

Packed Pack(const Parts& from, float weight, const float* owed = nullptr, uint32_t blocks = 3) {
  Packed packed{Buffer<float>(from.elements)};
  std::memset(packed.flat.data(), 0xff, from.elements * sizeof(float));  // nothing may be left out
  const cuda::PartTable table = cuda::TableOf(from.parts);
  for (const cuda::StreamParts& of : table.streams) {
    EmulatedGrid::RunEach(blocks, [&](EmulatedThread& thread) {
      cuda::PackParts(thread, cuda::PackPass<float>{packed.flat.data(), weight, owed, 0},
                      ViewOf(table, of), &packed.largest);
    });
  }
  return packed;
}

template <typename Wide>
void Unpack(const Parts& into, const float* flat, Wide total) {
  const cuda::PartTable table = cuda::TableOf(into.parts);
  for (const cuda::StreamParts& of : table.streams) {
    EmulatedGrid::RunEach(2, [&](EmulatedThread& thread) {
      cuda::UnpackPass<float, Wide> pass{flat, total, total == 0};
      cuda::PassParts(thread, pass, ViewOf(table, of));
    });
  }
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// One part larger than some tiles, many in one tile, borders on and beside those of tiles.
const std::vector<std::vector<uint64_t>> kSizes = {
    {1}, {3, 4096, 1}, {12290}, {4096, 4096}, {64, 64, 10, 640, 1000, 5000, 1, 2, 3, 4, 9}};

TEST(CudaParts, AllPartsArePackedByOneLaunchWithTheBitsOfALoop) {
  for (const auto& sizes : kSizes) {
    for (const size_t shift : {0, 1, 2}) {
      const Parts parts(sizes, shift);
      EXPECT_EQ(cuda::TableOf(parts.parts).streams.size(), 1u);
      const Packed packed = Pack(parts, 0.3f);
      std::vector<float> expected = parts.Flat();
      uint32_t largest = 0;
      for (float& x : expected) {
        x *= 0.3f;
        largest = std::max(largest, std::bit_cast<uint32_t>(x) & 0x7fffffffu);
      }
      EXPECT_TRUE(SameBits(packed.flat.span(), expected));
      EXPECT_EQ(packed.largest, largest);
    }
  }
}

TEST(CudaParts, WithWeightZeroThePartsAreNotReadAndWhatIsOwedIsAdded) {
  Parts parts({4100, 7, 300});
  for (DeviceBucket::Part& part : parts.parts) part.data = nullptr;  // a fault where one is read
  Buffer<float> owed(parts.elements);
  for (size_t i = 0; i < owed.size(); ++i) owed[i] = static_cast<float>(i) - 7;
  const Packed packed = Pack(parts, 0, owed.data());
  EXPECT_TRUE(SameBits(packed.flat.span(), owed.span()));
  EXPECT_TRUE(SameBits(Pack(parts, 0).flat.span(), Buffer<float>(parts.elements).span()));
}

// As groups with codes have it: every tensor begins with a block.
TEST(CudaParts, BetweenPartsThatDoNotTouchNothingIsWritten) {
  Parts parts({300, 256, 5000});
  const std::vector<float> values = parts.Flat();
  uint64_t end = 0;
  for (DeviceBucket::Part& part : parts.parts) {
    part.first = end;
    end = (end + part.elements + 255) / 256 * 256;
  }
  Buffer<float> flat(end);
  uint32_t largest = 0;
  const cuda::PartTable table = cuda::TableOf(parts.parts);
  const auto run = [&](auto pass) {
    EmulatedGrid::RunEach(3, [&](EmulatedThread& thread) {
      cuda::PassParts(thread, pass, ViewOf(table, table.streams[0]));
    });
  };
  run(cuda::PackPass<float>{flat.data(), 1, nullptr, largest});
  std::vector<float> expected(end);
  size_t at = 0;
  for (const DeviceBucket::Part& part : parts.parts) {
    std::copy_n(values.begin() + at, part.elements, expected.begin() + part.first);
    at += part.elements;
  }
  EXPECT_TRUE(SameBits(flat.span(), expected));
  for (size_t p = 0; p < 3; ++p) std::fill_n(parts.Of(p), parts.parts[p].elements, -1.0f);
  run(cuda::UnpackPass<float, float>{flat.data(), 1, false});
  EXPECT_TRUE(SameBits(parts.Flat(), values));
}

TEST(CudaParts, ANaNIsTheLargest) {
  Parts parts({5000, 3});
  parts.Of(1)[2] = -std::numeric_limits<float>::quiet_NaN();
  EXPECT_GT(Pack(parts, 1).largest, 0x7f800000u);
  parts.Of(1)[2] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(Pack(parts, 1).largest, 0x7f800000u);
}

TEST(CudaParts, AveragesHaveTheBitsOfADivision) {
  for (const auto& sizes : kSizes) {
    for (const size_t shift : {0, 3}) {
      const Parts from(sizes, 0), parts(sizes, shift);
      const std::vector<float> sums = from.Flat();
      Buffer<float> flat(sums.size());
      std::copy(sums.begin(), sums.end(), flat.data());
      std::vector<float> expected(sums.size());
      Unpack(parts, flat.data(), 3.0f);
      for (size_t i = 0; i < sums.size(); ++i) expected[i] = sums[i] / 3.0f;
      EXPECT_TRUE(SameBits(parts.Flat(), expected));
      Unpack(parts, flat.data(), 0.7);  // no float: the quotient is rounded twice
      for (size_t i = 0; i < sums.size(); ++i) {
        expected[i] = static_cast<float>(static_cast<double>(sums[i]) / 0.7);
      }
      EXPECT_TRUE(SameBits(parts.Flat(), expected));
      Unpack(parts, flat.data(), 0.0f);
      EXPECT_TRUE(SameBits(parts.Flat(), std::vector<float>(sums.size())));
    }
  }
}

TEST(CudaParts, AlignedPartsAreReadFourAtATime) {
  const Parts parts({8192, 4096});
  EmulatedThread::Forget();
  Pack(parts, 1);
  EXPECT_EQ(EmulatedThread::counts().vector_loads, parts.elements / 4);
}

TEST(CudaParts, PartsOfSeveralStreamsAreALaunchEach) {
  Parts parts({5000, 10, 4096, 3});
  int a = 0, b = 0;
  parts.parts[0].stream = parts.parts[3].stream = &a;
  parts.parts[1].stream = parts.parts[2].stream = &b;
  const cuda::PartTable table = cuda::TableOf(parts.parts);
  ASSERT_EQ(table.streams.size(), 2u);
  EXPECT_EQ(table.streams[1].stream, &b);
  EXPECT_EQ(table.streams[1].elements, 4106u);
  EXPECT_EQ(table.parts[2], (cuda::PartView{parts.parts[1].data, 10, 0, 5000}));
  EXPECT_TRUE(SameBits(Pack(parts, 1).flat.span(), parts.Flat()));
}

// Multiplied and divided in float, rounded once, wherever in memory they begin.
TEST(CudaParts, BFloat16HasTheBitsOfALoop) {
  constexpr float kWeight = 0.3f;
  Random random(5);
  for (const auto& sizes : kSizes) {
    for (const size_t shift : {0, 1, 3}) {
      std::vector<Buffer<uint16_t>> memory;
      std::vector<DeviceBucket::Part> parts;
      std::vector<uint16_t> values;
      for (const uint64_t size : sizes) {
        memory.push_back(Buffer<uint16_t>(size + shift));
        parts.push_back({memory.back().data() + shift, size, nullptr, values.size()});
        for (uint64_t i = 0; i < size; ++i) {
          values.push_back(static_cast<uint16_t>(random.Below(0x10000)));
        }
        std::copy(values.end() - size, values.end(), memory.back().data() + shift);
      }
      Buffer<uint16_t> flat(values.size());
      uint32_t largest = 0, expected_largest = 0;
      const cuda::PartTable table = cuda::TableOf(parts);
      EmulatedGrid::RunEach(3, [&](EmulatedThread& thread) {
        cuda::PackParts(thread, cuda::PackPass<uint16_t>{flat.data(), kWeight, nullptr, 0},
                        ViewOf(table, table.streams[0]), &largest);
      });
      for (size_t i = 0; i < values.size(); ++i) {
        const float product = kWeight * FromBFloat16(values[i]);
        ASSERT_EQ(flat[i], ToBFloat16(product)) << FromBFloat16(values[i]);
        expected_largest =
            std::max(expected_largest, std::bit_cast<uint32_t>(product) & 0x7fffffffu);
      }
      EXPECT_EQ(largest, expected_largest);
      EmulatedGrid::RunEach(2, [&](EmulatedThread& thread) {
        cuda::UnpackPass<uint16_t, float> pass{flat.data(), 3, false};
        cuda::PassParts(thread, pass, ViewOf(table, table.streams[0]));
      });
      size_t at = 0;
      for (size_t p = 0; p < parts.size(); ++p) {
        for (uint64_t i = 0; i < sizes[p]; ++i, ++at) {
          ASSERT_EQ(memory[p][shift + i], ToBFloat16(FromBFloat16(flat[at]) / 3));
        }
      }
    }
  }
}

}  // namespace
}  // namespace ringwood

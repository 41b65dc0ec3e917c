#include "sparse/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "sparse/chunks.h"
#include "tests/sparse/samples.h"

namespace ringwood {
namespace {

std::vector<std::string> Codecs() {
  std::vector<std::string> names;
  for (const char* index : {"block16", "rice"}) {
    for (const char* value : {"fp32", "bf16", "int8", "int4", "int2", "sums"}) {
      names.push_back(std::string(index) + "/" + value);
    }
  }
  return names;
}

// Of the names above; sums are no choice of a job's, but what int2 has on its way down.
Codec Named(const std::string& name) {
  const size_t slash = name.find('/');
  return name.substr(slash) == "/sums" ? ParseCodec(name.substr(0, slash) + "/int2")->Exact()
                                       : *ParseCodec(name);
}

void ExpectValid(const Entries& entries, uint64_t elements, uint64_t most) {
  ASSERT_EQ(entries.index.size(), entries.value.size());
  ASSERT_LE(entries.size(), most);
  for (size_t i = 0; i < entries.size(); ++i) {
    ASSERT_LT(entries.index[i], elements);
    ASSERT_TRUE(i == 0 || entries.index[i - 1] < entries.index[i]);
  }
}

TEST(Codec, RoundTripsEveryShapeWithinItsBound) {
  for (const std::string& name : Codecs()) {
    const Codec codec = Named(name);
    for (uint64_t elements : {1, 2, 63, 64, 65535, 65536, 65537, 131072, 200001}) {
      for (uint64_t k :
           {uint64_t{0}, uint64_t{1}, elements / 1000, elements / 100, elements / 2, elements}) {
        Entries entries = RandomEntries(elements, k, elements + k);
        RoundValues(codec, entries.value);
        std::vector<std::byte> wire = WireOf(codec, elements, entries);
        EXPECT_LE(wire.size(), MaxWireBytes(codec, elements, k))
            << name << " " << elements << " " << k;
        Entries back;
        const Status read = Decode(codec, {0, elements}, k, wire, &back);
        ASSERT_TRUE(read.ok()) << Message(read);
        EXPECT_EQ(back, entries) << name << " " << elements << " " << k;
      }
    }
  }
}

TEST(Codec, StaysInItsBoundWhenEntriesCrowdIntoFewBlocks) {
  const uint64_t elements = 40 * kBlockElements;
  for (const std::string& name : Codecs()) {
    const Codec codec = Named(name);
    for (uint64_t crowd : {1u, 100u, 32768u, 40000u, 65536u}) {
      for (uint64_t others : {0u, 1u, 39u, 5000u}) {
        Entries entries = RandomEntries(kBlockElements, crowd, crowd);
        const Entries sparse = RandomEntries(elements - kBlockElements, others, others);
        for (size_t i = 0; i < sparse.size(); ++i) {
          entries.push_back(kBlockElements + sparse.index[i], sparse.value[i]);
        }
        RoundValues(codec, entries.value);
        std::vector<std::byte> wire = WireOf(codec, elements, entries);
        EXPECT_LE(wire.size(), MaxWireBytes(codec, elements, entries.size())) << name;
        Entries back;
        ASSERT_TRUE(Decode(codec, {0, elements}, entries.size(), wire, &back).ok());
        EXPECT_EQ(back, entries);
      }
    }
    // One entry a block, at its end: the longest gaps.
    Entries ends;
    for (uint32_t block = 1; block <= 40; ++block) ends.push_back(block * kBlockElements - 1, 1);
    std::vector<std::byte> wire = WireOf(codec, elements, ends);
    EXPECT_LE(wire.size(), MaxWireBytes(codec, elements, ends.size())) << name;
  }
}

// Rooms are sized for the most that a plan allows and filled with less; the last chunk of a message
// is the shortest.
TEST(Codec, RoomForMoreEntriesIsNeverLess) {
  for (const std::string& name : Codecs()) {
    const Codec codec = Named(name);
    for (uint64_t blocks : {1, 2, 3}) {
      const uint64_t elements = blocks * kBlockElements - 7;
      uint64_t before = 0;
      for (uint64_t count = 0; count <= elements; ++count) {
        const uint64_t room = MaxWireBytes(codec, elements, count);
        ASSERT_GE(room, before) << name << ", " << count << " of " << elements;
        before = room;
      }
    }
    for (uint64_t blocks : {5, 64, 65, 1000, 65536}) {
      const uint64_t elements = blocks * kBlockElements;
      for (uint64_t mean = 1; mean <= elements; mean *= 2) {
        for (uint64_t around : {elements / mean, mean, blocks}) {
          for (uint64_t count = std::max<uint64_t>(around, 4) - 3;
               count < std::min(around + 3, elements); ++count) {
            ASSERT_LE(MaxWireBytes(codec, elements, count),
                      MaxWireBytes(codec, elements, count + 1))
                << name << ", " << count << " of " << elements;
          }
        }
      }
    }
  }
}

TEST(Codec, EveryChunkFitsTheRoomOfItsMessage) {
  const uint64_t elements = 64 * kBlockElements;
  for (const std::string& name : Codecs()) {
    const Codec codec = Named(name);
    for (uint64_t size : {8191, 8193, 16383, 16384, 16748, 32768, 33000, 70000}) {
      Entries entries = RandomEntries(elements, size, size);
      RoundValues(codec, entries.value);
      for (int chunks : {1, 2, 3, 5}) {
        const Cut cut{size, chunks};
        std::vector<std::byte> room(MaxChunkBytes(codec, elements, size, chunks));
        Entries back;
        for (int chunk = 0; chunk < chunks; ++chunk) {
          const uint64_t begin = cut.begin(chunk), count = cut.begin(chunk + 1) - begin;
          const uint64_t bytes =
              Encode(codec, {0, elements}, EntriesView(entries).Part(begin, count), room);
          const auto wire = std::span<const std::byte>(room).first(bytes);
          ASSERT_TRUE(Decode(codec, {0, elements}, size - back.size(), wire, &back).ok());
        }
        ASSERT_EQ(back, entries) << name << ", " << size << " in " << chunks;
      }
    }
  }
}

TEST(RoundValues, LeavesAnExactErrorAndRoundingTwiceIsRoundingOnce) {
  for (const std::string& name : Codecs()) {
    const Codec codec = Named(name);
    for (uint64_t seed = 0; seed < 200; ++seed) {
      Random random(seed);
      std::vector<float> values(1 + random.Below(700));
      for (float& value : values) {  // every exponent that a seed's spread allows, denormals too
        const uint32_t exponent = static_cast<uint32_t>(random.Below(1 + seed) + (seed % 4) * 13);
        value = std::bit_cast<float>((static_cast<uint32_t>(random.Next()) & 0x807fffffu) |
                                     exponent << 23);
      }
      std::vector<float> rounded = values;
      RoundValues(codec, rounded);
      for (size_t i = 0; i < values.size(); ++i) {
        const float error = values[i] - rounded[i];
        EXPECT_EQ(static_cast<double>(values[i]), static_cast<double>(rounded[i]) + error) << name;
        EXPECT_LE(std::fabs(error), std::fabs(values[i])) << name;
      }
      std::vector<float> again = rounded;
      RoundValues(codec, again);
      EXPECT_EQ(again, rounded) << name;
    }
  }
}

TEST(RoundValues, OfTheLargestFloatIsFinite) {
  for (const std::string& name : Codecs()) {
    std::vector<float> values = {std::numeric_limits<float>::max(), -1, 0, -0.0f};
    RoundValues(Named(name), values);
    EXPECT_TRUE(std::isfinite(values[0])) << name;
    EXPECT_GT(values[0], 1e38f) << name;
  }
}

TEST(Codec, RiceIndicesStayWithinFivePerCentOfTheEntropyBound) {
  const uint64_t elements = 1 << 22;
  for (double density : {1.0 / 64, 0.01, 0.001}) {
    const uint64_t k = static_cast<uint64_t>(density * elements);
    std::vector<std::byte> wire =
        WireOf(*ParseCodec("rice/fp32"), elements, RandomEntries(elements, k, 3));
    const double bits = 8.0 * (wire.size() - 4 * k) / k;
    const double bound = -std::log2(density) - (1 - density) / density * std::log2(1 - density);
    EXPECT_LE(bits, 1.05 * bound) << density;
  }
}

TEST(Codec, HostileBytesGiveAnErrorOrValidEntries) {
  const uint64_t elements = 150000, most = 300;
  for (const std::string& name : Codecs()) {
    const Codec codec = Named(name);
    Random random(7);
    std::vector<std::byte> wire = WireOf(codec, elements, RandomEntries(elements, most, 5));
    Entries back;
    for (int trial = 0; trial < 20000; ++trial) {
      std::vector<std::byte> bad = wire;
      const uint64_t kind = random.Below(4);
      if (kind == 0) bad.resize(random.Below(bad.size()));
      if (kind == 1) bad[random.Below(bad.size())] ^= static_cast<std::byte>(1 << random.Below(8));
      if (kind == 2) bad.insert(bad.begin() + random.Below(bad.size()), std::byte(random.Next()));
      if (kind == 3) {
        bad.resize(random.Below(64));
        for (std::byte& byte : bad) byte = static_cast<std::byte>(random.Next());
      }
      back.clear();
      if (Decode(codec, {0, elements}, most, bad, &back).ok()) {
        ExpectValid(back, elements, most);
      } else {
        EXPECT_EQ(back.size(), 0u);
      }
    }
  }
}

TEST(Codec, EveryTruncationAndEveryExtensionIsAnError) {
  for (const std::string& name : Codecs()) {
    const Codec codec = Named(name);
    std::vector<std::byte> wire = WireOf(codec, 70000, RandomEntries(70000, 90, 1));
    Entries back;
    for (size_t bytes = 0; bytes < wire.size(); ++bytes) {
      EXPECT_FALSE(Decode(codec, {0, 70000}, 90, std::span(wire).first(bytes), &back).ok())
          << bytes;
    }
    wire.push_back(std::byte{0});
    EXPECT_FALSE(Decode(codec, {0, 70000}, 90, wire, &back).ok());
  }
}

TEST(Codec, ChunksOfAMessageInARangeGiveTheWholeWhenDecodedInOrder) {
  const IndexRange range{2 * kBlockElements, 7 * kBlockElements - 100};
  for (const std::string& name : Codecs()) {
    const Codec codec = Named(name);
    Entries entries = RandomEntries(range.elements(), 3000, 9);
    for (uint32_t& index : entries.index) index += static_cast<uint32_t>(range.begin);
    RoundValues(codec, entries.value);
    Entries back;
    for (int chunks : {1, 2, 5, 12, 13}) {  // 3000 entries make 12 runs of 256
      const Cut cut{entries.size(), chunks};
      ASSERT_EQ(cut.begin(chunks), entries.size());
      back.clear();
      std::vector<std::byte> wire(MaxChunkBytes(codec, range.elements(), entries.size(), chunks));
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const uint64_t begin = cut.begin(chunk), count = cut.begin(chunk + 1) - begin;
        const uint64_t bytes = Encode(codec, range, EntriesView(entries).Part(begin, count), wire);
        const Status read =
            Decode(codec, range, cut.entries(), std::span(wire).first(bytes), &back);
        ASSERT_TRUE(read.ok()) << Message(read);
      }
      EXPECT_EQ(back, entries) << name << " in " << chunks;
    }
  }
}

TEST(Codec, AChunkThatDoesNotFollowTheOneBeforeIsRefused) {
  for (const std::string& name : Codecs()) {
    const Codec codec = Named(name);
    const Entries entries = RandomEntries(1000, 50, 1);
    const std::vector<std::byte> wire = WireOf(codec, 1000, entries);
    Entries back;
    ASSERT_TRUE(Decode(codec, {0, 1000}, 50, wire, &back).ok());
    EXPECT_FALSE(Decode(codec, {0, 1000}, 50, wire, &back).ok());
    EXPECT_EQ(back.index, entries.index) << "what was there stays";
  }
}

TEST(ChunkCount, CutsWhatIsSentAtOnceInSmallPiecesAndLongMessagesInMebibytes) {
  const Codec fast = *ParseCodec("block16/fp32");
  EXPECT_EQ(ChunkCount(fast, 1), 1);
  EXPECT_EQ(ChunkCount(fast, 2 * kChunkEntries), 2);
  EXPECT_EQ(ChunkCount(fast, 62500), 7);
  EXPECT_EQ(ChunkCount(fast, 250000), 1);
  EXPECT_EQ(ChunkCount(fast, 2500000), 14);
}

TEST(Codec, MoreEntriesThanThePlanAllowsAreRefused) {
  for (const std::string& name : Codecs()) {
    const Codec codec = Named(name);
    std::vector<std::byte> wire = WireOf(codec, 1000, RandomEntries(1000, 51, 1));
    Entries back;
    EXPECT_FALSE(Decode(codec, {0, 1000}, 50, wire, &back).ok());
    EXPECT_TRUE(Decode(codec, {0, 1000}, 51, wire, &back).ok());
  }
}

TEST(Codec, AnUnknownNameIsRefusedWithTheKnownOnes) {
  const auto codec = ParseCodec("gzip");
  ASSERT_FALSE(codec.ok());
  EXPECT_NE(Message(codec.status()).find("block16/fp32"), std::string::npos);
}

}  // namespace
}  // namespace ringwood

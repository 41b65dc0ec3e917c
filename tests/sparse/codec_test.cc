#include "sparse/codec.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/sparse/samples.h"

namespace ringwood {
namespace {

std::vector<std::string> Codecs() { return {"block16/fp32"}; }

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
    const Codec codec = *ParseCodec(name);
    for (uint64_t elements : {1, 2, 63, 64, 65535, 65536, 65537, 131072, 200001}) {
      for (uint64_t k :
           {uint64_t{0}, uint64_t{1}, elements / 1000, elements / 100, elements / 2, elements}) {
        Entries entries = RandomEntries(elements, k, elements + k);
        std::vector<std::byte> wire;
        Encode(codec, elements, entries, &wire);
        EXPECT_LE(wire.size(), MaxWireBytes(codec, elements, k))
            << name << " " << elements << " " << k;
        Entries back;
        const Status read = Decode(codec, elements, k, wire, &back);
        ASSERT_TRUE(read.ok()) << Message(read);
        EXPECT_EQ(back, entries) << name << " " << elements << " " << k;
      }
    }
  }
}

TEST(Codec, HostileBytesGiveAnErrorOrValidEntries) {
  const uint64_t elements = 150000, most = 300;
  for (const std::string& name : Codecs()) {
    const Codec codec = *ParseCodec(name);
    Random random(7);
    std::vector<std::byte> wire;
    Encode(codec, elements, RandomEntries(elements, most, 5), &wire);
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
      if (Decode(codec, elements, most, bad, &back).ok()) ExpectValid(back, elements, most);
    }
  }
}

TEST(Codec, EveryTruncationAndEveryExtensionIsAnError) {
  for (const std::string& name : Codecs()) {
    const Codec codec = *ParseCodec(name);
    std::vector<std::byte> wire;
    Encode(codec, 70000, RandomEntries(70000, 90, 1), &wire);
    Entries back;
    for (size_t bytes = 0; bytes < wire.size(); ++bytes) {
      EXPECT_FALSE(Decode(codec, 70000, 90, std::span(wire).first(bytes), &back).ok()) << bytes;
    }
    wire.push_back(std::byte{0});
    EXPECT_FALSE(Decode(codec, 70000, 90, wire, &back).ok());
  }
}

TEST(Codec, MoreEntriesThanThePlanAllowsAreRefused) {
  for (const std::string& name : Codecs()) {
    const Codec codec = *ParseCodec(name);
    std::vector<std::byte> wire;
    Encode(codec, 1000, RandomEntries(1000, 51, 1), &wire);
    Entries back;
    EXPECT_FALSE(Decode(codec, 1000, 50, wire, &back).ok());
    EXPECT_TRUE(Decode(codec, 1000, 51, wire, &back).ok());
  }
}

TEST(Codec, AnUnknownNameIsRefusedWithTheKnownOnes) {
  const auto codec = ParseCodec("gzip");
  ASSERT_FALSE(codec.ok());
  EXPECT_NE(Message(codec.status()).find("block16/fp32"), std::string::npos);
}

}  // namespace
}  // namespace ringwood

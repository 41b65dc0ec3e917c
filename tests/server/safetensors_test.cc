// The safetensors format: what is written is read, and hostile headers are refused with a sentence.
#include "server/store/portable/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

// A whole file's header and data bytes, as a reader takes them.
StatusOr<Safetensors> ReadFile(const std::string& head, uint64_t data_bytes) {
  RW_ASSIGN_OR_RETURN(
      const uint64_t bytes,
      SafetensorsHeaderBytes(head.substr(0, kSafetensorsPrefixBytes), head.size() + data_bytes));
  // A length that is shorter than the header leaves the rest to the data.
  const std::string header = head.substr(kSafetensorsPrefixBytes, bytes);
  const uint64_t file = head.size() + data_bytes;
  return ParseSafetensors(header, file - kSafetensorsPrefixBytes - bytes);
}

Safetensors AnyFile(uint64_t seed) {
  Random random(seed);
  const char* const types[] = {"BOOL", "U8", "BF16", "F16", "F32", "I32", "I64", "F64", "C64"};
  Safetensors file;
  for (uint64_t i = random.Below(8); i > 0; --i) {
    Safetensor tensor{"layer." + std::to_string(random.Next()) + ".weight \"ä\\", {}};
    tensor.type.dtype = types[random.Below(std::size(types))];
    for (uint64_t n = random.Below(4); n > 0; --n) tensor.type.shape.push_back(random.Below(9));
    file.tensors.push_back(tensor);
  }
  for (uint64_t i = random.Below(3); i > 0; --i) {
    file.metadata["key " + std::to_string(i)] = "value\n" + std::to_string(random.Next());
  }
  return file;
}

// What holds for every accepted file, whatever its bytes were.
void ExpectConsistent(const Safetensors& file, uint64_t data_bytes) {
  uint64_t end = 0;
  std::set<std::string> names;
  for (const Safetensor& tensor : file.tensors) {
    EXPECT_TRUE(names.insert(tensor.name).second);
    EXPECT_EQ(tensor.offset, end);
    EXPECT_EQ(*BytesOf(tensor.type), tensor.bytes);
    end += tensor.bytes;
  }
  EXPECT_EQ(end, data_bytes);
}

TEST(Safetensors, IsTheFormatOfTheReference) {
  Safetensors file;
  file.tensors = {{"b", {"U8", {3}}}, {"a", {"F32", {2, 1}}}};
  file.metadata = {{"format", "pt"}};
  ASSERT_TRUE(Arrange(&file).ok());
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  const size_t padded = (json.size() + 7) / 8 * 8;
  EXPECT_EQ(*SafetensorsHeader(file), std::string(1, static_cast<char>(padded)) +
                                          std::string(7, '\0') + json +
                                          std::string(padded - json.size(), ' '));
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Safetensors file = AnyFile(seed);
    ASSERT_TRUE(Arrange(&file).ok());
    const auto head = SafetensorsHeader(file);
    ASSERT_TRUE(head.ok()) << head.status();
    EXPECT_EQ(head->size() % 8, 0u);
    for (const Safetensor& tensor : file.tensors) {
      EXPECT_EQ(tensor.offset % BytesOfElement(tensor.type.dtype), 0u) << "it can be mapped";
    }
    const auto read = ReadFile(*head, file.DataBytes());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, file);
  }
}

TEST(Safetensors, ACutOrFlippedHeaderIsRefusedOrConsistent) {
  size_t refused = 0, accepted = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Safetensors file = AnyFile(seed);
    ASSERT_TRUE(Arrange(&file).ok());
    const std::string head = *SafetensorsHeader(file);
    for (size_t cut = 0; cut < head.size(); ++cut) {
      EXPECT_EQ(ReadFile(head.substr(0, cut), 0).status().code(), StatusCode::kDataLoss) << cut;
    }
    for (size_t bit = 0; bit < 8 * head.size(); ++bit) {
      std::string flipped = head;
      flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
      const auto read = ReadFile(flipped, file.DataBytes());
      read.ok() ? ++accepted : ++refused;
      if (read.ok()) {  // a longer header's rest is data that no tensor has: only the same length
        ExpectConsistent(*read, file.DataBytes());
      } else {
        EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
        EXPECT_THAT(Message(read.status()), HasSubstr("no safetensors file: "));
      }
    }
  }
  EXPECT_GT(refused, accepted);
}

std::string WhatIsWrong(const std::string& header, uint64_t data_bytes) {
  return Message(ParseSafetensors(header, data_bytes).status());
}

TEST(Safetensors, HostileHeadersAreRefusedWithASentence) {
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const auto second = [&](const std::string& rest) { return "{" + a + "," + rest + "}"; };
  EXPECT_EQ(WhatIsWrong("{" + a + "}", 4), "");
  EXPECT_EQ(WhatIsWrong("{" + a + "}  ", 4), "") << "padding";
  EXPECT_EQ(WhatIsWrong("{}", 0), "") << "no tensor at all";
  EXPECT_THAT(WhatIsWrong(second(a), 4), HasSubstr("'a' is there twice"));
  EXPECT_THAT(WhatIsWrong(second(R"("a":{"dtype":"U8","shape":[1],"data_offsets":[4,5]})"), 5),
              HasSubstr("'a' is there twice"));
  EXPECT_THAT(WhatIsWrong(second(R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]})"), 5),
              HasSubstr("'b' begins at byte 3 of the data, the one before it ends at 4"));
  EXPECT_THAT(WhatIsWrong(second(R"("b":{"dtype":"U8","shape":[2],"data_offsets":[5,7]})"), 7),
              HasSubstr("'b' begins at byte 5"));
  EXPECT_THAT(WhatIsWrong(second(R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]})"), 5),
              HasSubstr("'b' ends behind the file"));
  EXPECT_THAT(WhatIsWrong("{" + a + "}", 5), HasSubstr("the tensors have 4 bytes, the file has 5"));
  EXPECT_THAT(WhatIsWrong(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,4]}})", 4),
              HasSubstr("'a' has 4 bytes, U8 [5] has 5"));
  EXPECT_THAT(WhatIsWrong(R"({"a":{"dtype":"X8","shape":[4],"data_offsets":[0,4]}})", 4),
              HasSubstr("there is no element type 'X8'"));
  EXPECT_THAT(WhatIsWrong(R"({"a":{"dtype":"","shape":[],"data_offsets":[0,0]}})", 0),
              HasSubstr("no element type"));
  EXPECT_THAT(WhatIsWrong(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4),
              HasSubstr("not a beginning and an end"));
  EXPECT_THAT(WhatIsWrong(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0]}})", 4),
              HasSubstr("not a beginning and an end"));
  EXPECT_THAT(WhatIsWrong(R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4),
              HasSubstr("unexpected -4"));
  EXPECT_THAT(WhatIsWrong(R"({"a":{"dtype":"U8","shape":[4e0],"data_offsets":[0,4]}})", 4),
              HasSubstr("unexpected 4e0"));
  EXPECT_THAT(
      WhatIsWrong(R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,4]}})", 4),
      HasSubstr("unexpected 99999999999999999999"));
  EXPECT_THAT(WhatIsWrong(R"({"a":{"dtype":"U8","shape":[4]}})", 4), HasSubstr("lacks"));
  EXPECT_THAT(WhatIsWrong(R"({"a":{"dtype":"U8","dtype":"U8"}})", 4),
              HasSubstr("'dtype' is there twice"));
  EXPECT_THAT(WhatIsWrong(R"({"a":{"color":"red"}})", 4), HasSubstr("unexpected 'color'"));
  EXPECT_THAT(WhatIsWrong(R"({"__metadata__":{"a":{}}})", 0), HasSubstr("unexpected {"));
  EXPECT_THAT(WhatIsWrong(R"({"__metadata__":{"a":"1","a":"2"}})", 0),
              HasSubstr("'a' is there twice"));
  EXPECT_THAT(WhatIsWrong(R"({"__metadata__":{},"__metadata__":{}})", 0), HasSubstr("twice"));
  EXPECT_THAT(WhatIsWrong(R"({"\u0007":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", 1),
              HasSubstr("not printable: '\\x07'"));
  EXPECT_THAT(WhatIsWrong("{\"\xff\":1}", 1), HasSubstr("no JSON at byte"));
  EXPECT_THAT(WhatIsWrong(" {}", 0), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(WhatIsWrong("{} {}", 0), HasSubstr("no JSON at byte"));
  EXPECT_THAT(WhatIsWrong("{" + a, 4), HasSubstr("no JSON at byte"));
}

TEST(Safetensors, NestingAndLengthsBeyondAllReasonCostNothing) {
  std::string deep = "{\"a\":";
  deep.resize(1'000'000, '[');
  EXPECT_THAT(WhatIsWrong(deep, 0), HasSubstr("unexpected ["));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(WhatIsWrong(objects, 0), HasSubstr("unexpected 'a'"));
  std::string dimensions = R"({"a":{"dtype":"U8","shape":[1)";
  for (int i = 0; i < 100'000; ++i) dimensions += ",1";
  EXPECT_THAT(WhatIsWrong(dimensions, 0), HasSubstr("unexpected 1"));
  const std::string huge(8, '\xff');
  EXPECT_THAT(Message(SafetensorsHeaderBytes(huge, ~0ull).status()), HasSubstr("at most"));
  const std::string beyond = std::string("\x10", 1) + std::string(7, '\0');
  EXPECT_THAT(Message(SafetensorsHeaderBytes(beyond, 23).status()), HasSubstr("the file has 23"));
  EXPECT_EQ(*SafetensorsHeaderBytes(beyond, 24), 16u);
}

TEST(Safetensors, WhatTheFormatCannotHaveIsNotWritten) {
  const auto arranged = [](std::vector<Safetensor> tensors) {
    Safetensors file{std::move(tensors), {}};
    return Message(Arrange(&file));
  };
  EXPECT_THAT(arranged({{"a", {"F32", {1}}}, {"a", {"F32", {2}}}}), HasSubstr("is there twice"));
  EXPECT_THAT(arranged({{"a", {}}}), HasSubstr("no element type"));
  EXPECT_THAT(arranged({{"__metadata__", {"U8", {1}}}}), HasSubstr("is no tensor's name"));
  EXPECT_THAT(arranged({{"", {"U8", {1}}}}), HasSubstr("without a name"));
  EXPECT_THAT(arranged({{std::string(256, 'a'), {"U8", {1}}}}), HasSubstr("too long"));
}

}  // namespace
}  // namespace ringwood

// All element types, sizes and worlds: every rank ends with the sequential sum, exactly.
#include <cstring>

#include "base/digest.h"
#include "base/random.h"
#include "dense/all_reduce.h"
#include "tests/transport/world.h"

namespace ringwood {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16,
                               DataType::kFloat64, DataType::kInt32,    DataType::kInt64,
                               DataType::kUInt8};

// Small whole numbers, whose sums over nine ranks are exact in every type and any order.
std::vector<std::byte> WholeNumbers(DataType type, size_t count, int rank) {
  std::vector<uint8_t> few(count);
  Random random(rank + 1);
  for (uint8_t& value : few) value = static_cast<uint8_t>(random.Below(14));
  std::vector<std::byte> bytes(count * SizeOf(type));
  // 0, 1, … 13 in the type: one added again and again.
  std::vector<std::byte> table(14 * SizeOf(type));
  std::vector<std::byte> one(SizeOf(type));
  const auto set_one = [&](auto value) { std::memcpy(one.data(), &value, sizeof value); };
  switch (type) {
    case DataType::kFloat32:
      set_one(1.0f);
      break;
    case DataType::kBFloat16:
      set_one(uint16_t{0x3f80});
      break;
    case DataType::kFloat16:
      set_one(uint16_t{0x3c00});
      break;
    case DataType::kFloat64:
      set_one(1.0);
      break;
    case DataType::kInt32:
      set_one(int32_t{1});
      break;
    case DataType::kInt64:
      set_one(int64_t{1});
      break;
    case DataType::kUInt8:
      set_one(uint8_t{1});
      break;
  }
  const size_t size = SizeOf(type);
  for (size_t v = 1; v < 14; ++v) {
    ReferenceReduce(type, ReduceOp::kSum, table.data() + (v - 1) * size, one.data(),
                    table.data() + v * size, 1);
  }
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(bytes.data() + i * size, table.data() + few[i] * size, size);
  }
  return bytes;
}

struct Rank {
  std::vector<std::byte> input, output;
  AllReduceResult result;
};

void ExpectTheSum(World& world, uint64_t round, DataType type, size_t count) {
  std::vector<Rank> ranks(world.size());
  for (int r = 0; r < world.size(); ++r) {
    ranks[r].input = WholeNumbers(type, count, r);
    ranks[r].output.resize(ranks[r].input.size());
  }
  world.RunAll([&](int rank, std::function<void()> finished) {
    AllReduceRequest request;
    request.place.rank = rank;
    request.place.world = world.size();
    request.name.round = round;
    request.type = type;
    request.input = ranks[rank].input;
    request.output = ranks[rank].output;
    StartAllReduce(world.transport(rank), request,
                   [&mine = ranks[rank], finished](StatusOr<AllReduceResult> result) {
                     EXPECT_TRUE(result.ok()) << Message(result.status());
                     if (result.ok()) mine.result = *result;
                     finished();
                   });
  });
  std::vector<std::byte> sum = ranks[0].input;
  for (int r = 1; r < world.size(); ++r) {
    ReferenceReduce(type, ReduceOp::kSum, sum.data(), ranks[r].input.data(), sum.data(), count);
  }
  for (const Rank& rank : ranks) {
    ASSERT_TRUE(rank.output == sum) << NameOf(type) << " x " << count << ", " << world.size();
    ASSERT_EQ(rank.result.digest, ranks[0].result.digest);
  }
}

TEST(AllReduceTypes, EveryTypeOfEveryLengthInEveryWorldGivesTheSum) {
  for (int size = 1; size <= 9; ++size) {
    World world(Kind::kInProcess, size);
    uint64_t round = 0;
    for (const DataType type : kTypes) {
      for (const size_t count : {0, 1, 3, 1000}) ExpectTheSum(world, ++round, type, count);
    }
  }
}

TEST(AllReduceTypes, LongTensorsThatDivideByNothingGiveTheSum) {
  constexpr size_t kCount = (1 << 20) + 1;
  for (const int size : {2, 3, 9}) {
    World world(Kind::kInProcess, size);
    uint64_t round = 0;
    for (const DataType type : kTypes) {
      // The widest world once: nine inputs of eight megabytes take their time to make.
      if (size == 9 && type != DataType::kBFloat16) continue;
      ExpectTheSum(world, ++round, type, kCount);
    }
  }
}

TEST(AllReduceTypes, OverUcxToo) {
  World world(Kind::kUcx, 3);
  uint64_t round = 0;
  for (const DataType type : kTypes) {
    for (const size_t count : {1, 3, 100'003}) ExpectTheSum(world, ++round, type, count);
  }
}

// 6 GiB of memory. `ctest -L long`.
TEST(AllReduceLong, MoreThan2To28ElementsGiveTheSum) {
  World world(Kind::kUcx, 2);
  ExpectTheSum(world, 1, DataType::kFloat32, (1 << 28) + 1);
}

}  // namespace
}  // namespace ringwood

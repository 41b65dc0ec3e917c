// The passes over dense memory on a device give the bits of those on the CPU; a session of one rank
// on a device. Both are skipped where there is none.
#include "dense/cuda/device_bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "base/cuda/device.h"
#include "base/random.h"
#include "client/exchange/scale.h"
#include "dense/arithmetic/half.h"
#include "include/ringwood.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

std::vector<float> Numbers(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    number = static_cast<float>((random.Unit() - 0.5) * (1 << random.Below(20)));
  }
  return numbers;
}

std::unique_ptr<DeviceArray> OnTheDevice(const std::vector<float>& values) {
  auto array = *MakeDeviceArray(0, values.size() * sizeof(float));
  EXPECT_TRUE(array->Upload(std::as_bytes(std::span(values))).ok());
  return array;
}

std::vector<float> FromTheDevice(const DeviceArray& array, size_t count) {
  std::vector<float> values(count);
  EXPECT_TRUE(array.Download(std::as_writable_bytes(std::span(values))).ok());
  return values;
}

// The output becomes the input, or with codes the sum of one rank's. Returns the digest; 0 after an
// error.
uint64_t SumByARingOfOne(DeviceBucket* bucket) {
  auto loop = std::make_unique<Loop>("ring");
  std::unique_ptr<DeviceRing> one;
  absl::Notification done;
  uint64_t digest = 0;
  const auto reduce = [&]() -> Status {
    RW_ASSIGN_OR_RETURN(one, MakeDeviceRing(loop.get(), {}));
    DeviceReduction reduction;
    reduction.type = bucket->type();
    reduction.input = bucket->input();
    reduction.output = bucket->output();
    reduction.count = bucket->elements();
    reduction.producer = bucket->stream();
    reduction.codes = bucket->codes();
    one->AllReduce(reduction, [&](StatusOr<AllReduceResult> result) {
      EXPECT_TRUE(result.ok()) << Message(result.status());
      digest = result.ok() ? result->digest : 0;
      done.Notify();
    });
    return OkStatus();
  };
  EXPECT_TRUE(loop->Call(reduce, Seconds(20)).ok());
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(20)));
  const auto end = [&] {
    one.reset();
    return OkStatus();
  };
  EXPECT_TRUE(loop->Call(end, Seconds(20)).ok());
  return digest;
}

TEST(DeviceBucket, WithoutADeviceItSaysSo) {
  if (CountDevices().ok()) GTEST_SKIP() << "there is a device";
  EXPECT_EQ(MakeDeviceBucket(0, 10, DataType::kFloat32).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(ringwood_device_support(), RINGWOOD_REFUSED);
  EXPECT_EQ(ringwood_exit_code(RINGWOOD_REFUSED), 78) << "starting again does not help";
  EXPECT_NE(std::string(ringwood_last_error()), "");
}

TEST(DeviceBucket, PacksAndUnpacksTheBitsOfTheCpu) {
  if (!CountDevices().ok()) GTEST_SKIP() << "skipped: no device";
  for (const float weight : {1.0f, 0.3f, 0.0f}) {
    const std::vector<float> a = Numbers(1, 1), b = Numbers(1'000'003, 2);
    const auto on_a = OnTheDevice(a), on_b = OnTheDevice(b);
    const DeviceBucket::Part parts[] = {
        {static_cast<float*>(on_a->data()), a.size(), nullptr, 0},
        {static_cast<float*>(on_b->data()), b.size(), nullptr, a.size()}};
    auto bucket = *MakeDeviceBucket(0, a.size() + b.size(), DataType::kFloat32);
    EXPECT_EQ(bucket->output(), bucket->input()) << "two buffers where one is enough";
    ASSERT_TRUE(bucket->Pack(parts, weight).ok());
    const uint64_t digest = SumByARingOfOne(bucket.get());
    ASSERT_TRUE(bucket->Unpack(parts, 0.7).ok());
    std::vector<float> packed(b.size()), expected(b.size());
    ScaleInto(b, weight, 1, packed);
    DivideInto(packed, 0.7, expected);
    EXPECT_EQ(FromTheDevice(*on_b, b.size()), expected);
    uint32_t largest = 0;
    for (float x : packed) largest = std::max(largest, std::bit_cast<uint32_t>(x) & 0x7fffffffu);
    EXPECT_EQ(bucket->largest(),
              std::max(largest, std::bit_cast<uint32_t>(weight * a[0]) & 0x7fffffffu));
    EXPECT_NE(digest, 0u);
  }
}

TEST(DeviceBucket, PacksAndUnpacksTheBitsOfTheCpuInBFloat16) {
  if (!CountDevices().ok()) GTEST_SKIP() << "skipped: no device";
  Random random(7);
  for (const size_t count : {size_t{1}, size_t{4099}, size_t{1'000'003}}) {
    std::vector<uint16_t> values(count), packed(count), expected(count), seen(count);
    for (uint16_t& value : values) value = ToBFloat16(static_cast<float>(random.Unit() - 0.5));
    const auto array = *MakeDeviceArray(0, count * sizeof(uint16_t));
    ASSERT_TRUE(array->Upload(std::as_bytes(std::span(values))).ok());
    const DeviceBucket::Part parts[] = {{array->data(), count, nullptr, 0}};
    auto bucket = *MakeDeviceBucket(0, count, DataType::kBFloat16);
    ASSERT_TRUE(bucket->Pack(parts, 0.3f).ok());
    EXPECT_NE(SumByARingOfOne(bucket.get()), 0u);
    ASSERT_TRUE(bucket->Unpack(parts, 0.7).ok());
    ScaleInto(std::span<const uint16_t>(values), 0.3f, 1, packed);
    DivideInto(std::span<const uint16_t>(packed), 0.7, expected);
    ASSERT_TRUE(array->Download(std::as_writable_bytes(std::span(seen))).ok());
    EXPECT_EQ(seen, expected);
  }
}

// A ring of one rank runs all kernels of codes; nothing is sent.
TEST(DeviceBucket, SumsOfCodesHaveTheBitsOfTheCpu) {
  if (!CountDevices().ok()) GTEST_SKIP() << "skipped: no device";
  const std::vector<float> values = Numbers(1'000'003, 5);
  const auto on_device = OnTheDevice(values);
  const size_t blocks = LatticeBlocks(values.size()), elements = blocks * kLatticeBlock;
  for (const int bits : {8, 4}) {
    auto bucket = *MakeDeviceBucket(0, elements, DataType::kFloat32);
    ASSERT_TRUE(bucket->UseCodes(bits, 0).ok());
    std::vector<BlockReach> reach(blocks, 0x4500), next_reach(blocks), seen_reach(blocks);
    ASSERT_TRUE(bucket->WriteReach(0, reach).ok());
    const DeviceBucket::Part parts[] = {
        {static_cast<float*>(on_device->data()), values.size(), nullptr, 0}};
    ASSERT_TRUE(bucket->Pack(parts, 1).ok());
    EXPECT_NE(SumByARingOfOne(bucket.get()), 0u);
    bucket->Commit();
    std::vector<float> error(elements), seen_error(elements), sum(elements), x = values;
    ASSERT_TRUE(bucket->ReadError(0, seen_error).ok());
    ASSERT_TRUE(bucket->ReadReach(0, seen_reach).ok());
    ASSERT_TRUE(bucket->Unpack(parts, 1).ok());
    x.resize(elements);
    const int levels = LatticeLevels(bits);
    std::vector<std::byte> packed(PackedBytes(blocks, LatticeWidth(levels, 1)));
    AddSource({x.data(), sum.data(), error.data(), reach.data(), elements, levels}, nullptr, 0,
              packed.data());
    DecodeSum(packed.data(), 1, {sum.data(), reach.data(), next_reach.data(), elements, levels});
    EXPECT_EQ(seen_error, error);
    EXPECT_EQ(seen_reach, next_reach);
    sum.resize(values.size());
    EXPECT_EQ(FromTheDevice(*on_device, values.size()), sum);
    ASSERT_TRUE(on_device->Upload(std::as_bytes(std::span(values))).ok());
  }
}

TEST(DeviceTensors, ASessionOfOneRankKeepsItsGradientOnARealDevice) {
  if (!CountDevices().ok()) GTEST_SKIP() << "skipped: no device";
  RunJob({.world = 1}, [](Session& session, GatheringCoordinator&) {
    const std::vector<float> values = Numbers(100'000, 3);
    const auto array = OnTheDevice(values);
    Tensor tensor;
    tensor.spec = {"w", values.size(), "dense", 0.01};
    tensor.data = static_cast<float*>(array->data());
    tensor.device = OnDevice{};
    const auto id = session.Register(tensor);
    ASSERT_TRUE(id.ok()) << id.status();
    ASSERT_TRUE(session.BeginStep(4).ok());
    ASSERT_TRUE(session.Ready(*id).ok());
    const auto result = session.FinishStep();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(FromTheDevice(*array, values.size()), values);  // 4 x / 4
    EXPECT_TRUE(session.Close("").ok());
  });
}

}  // namespace
}  // namespace ringwood

// The device's selection against the CPU's, on a device; skipped where there is none.
#include <gtest/gtest.h>

#include <cstring>

#include "absl/synchronization/notification.h"
#include "base/cuda/device.h"
#include "sparse/cuda/device_group.h"
#include "sparse/sparse_tensor.h"
#include "tests/sparse/samples.h"

namespace ringwood {
namespace {

bool NoDevice() { return !CountDevices().ok(); }

TEST(DeviceGroup, WithoutADeviceTheReasonAndTheRemedyAreSaid) {
  if (!NoDevice()) GTEST_SKIP() << "there is a device";
  const auto made = MakeDeviceGroup({{100, 10}}, {});
  EXPECT_EQ(made.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(Message(made.status()).find("CUDA"), std::string::npos);
}

// A group on the device and the same tensors on the CPU, fed with the same gradients.
void Compare(std::vector<cuda::TensorShape> shapes, float momentum, int steps) {
  for (auto& shape : shapes) shape.momentum = momentum;
  auto group = MakeDeviceGroup(shapes, {.max_result = 1});
  ASSERT_TRUE(group.ok()) << Message(group.status());
  std::vector<std::unique_ptr<SparseTensor>> plain;
  std::vector<std::unique_ptr<DeviceArray>> arrays;
  std::vector<DeviceGroup::Gradient> gradients;
  for (const cuda::TensorShape& shape : shapes) {
    SparseOptions options;
    options.k = shape.k;
    options.momentum = momentum;
    plain.push_back(std::make_unique<SparseTensor>(shape.elements, options));
    arrays.push_back(*MakeDeviceArray(0, (shape.elements + 1) * sizeof(float)));
    gradients.push_back({static_cast<float*>(arrays.back()->data()) + plain.size() % 2, nullptr});
  }
  for (int step = 0; step < steps; ++step) {
    std::vector<uint8_t> accepted;
    for (size_t t = 0; t < shapes.size(); ++t) {
      const auto pattern = static_cast<Pattern>(step % static_cast<int>(Pattern::kCount));
      std::vector<float> host = MakeGradient(pattern, shapes[t].elements + 1, 0, step * 100 + t);
      ASSERT_TRUE(arrays[t]->Upload(std::as_bytes(std::span(host))).ok());
      plain[t]->Accumulate(std::span(host).subspan((t + 1) % 2, shapes[t].elements), 1.5f);
    }
    absl::Notification done;
    ASSERT_TRUE((*group)->Accumulate(gradients, 1.5f, [&] { done.Notify(); }).ok());
    ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(30)));
    for (size_t t = 0; t < shapes.size(); ++t) {
      const Entries& expected = plain[t]->picks();
      const auto index = (*group)->pick_index(t);
      const auto value = (*group)->pick_value(t);
      ASSERT_EQ(std::vector(index.begin(), index.end()), expected.index) << step << " " << t;
      ASSERT_EQ(std::vector(value.begin(), value.end()), expected.value) << step << " " << t;
      std::vector<uint8_t> bits(expected.size());
      for (size_t j = 0; j < bits.size(); ++j) bits[j] = j % 3 != 0;
      plain[t]->Commit(bits);
      accepted.insert(accepted.end(), bits.begin(), bits.end());
    }
    ASSERT_TRUE((*group)->Commit(accepted).ok());
    for (size_t t = 0; t < shapes.size(); ++t) {
      std::vector<float> residual(shapes[t].elements);
      ASSERT_TRUE((*group)->ReadResidual(t, residual).ok());
      const auto expected = plain[t]->residual();
      ASSERT_EQ(std::memcmp(residual.data(), expected.data(), expected.size_bytes()), 0);
    }
  }
}

TEST(DeviceGroup, PicksAndResidualsEqualTheCpusToTheBit) {
  if (NoDevice()) GTEST_SKIP() << "skipped: no device";
  const std::vector<cuda::TensorShape> shapes = {{1, 1},   {4097, 4097},     {100001, 100},
                                                 {130, 2}, {3000000, 30000}, {1000003, 1000}};
  Compare(shapes, 0, 14);
  Compare(shapes, 0.9f, 14);
}

TEST(DeviceGroup, TheResultReachesTheGradientsAndAnAbortChangesNothing) {
  if (NoDevice()) GTEST_SKIP() << "skipped: no device";
  auto group = MakeDeviceGroup({{1000, 10}, {500, 5}}, {.max_result = 3});
  ASSERT_TRUE(group.ok()) << Message(group.status());
  const auto array = *MakeDeviceArray(0, 1500 * sizeof(float));
  std::vector<float> host(1500, 1.0f);
  ASSERT_TRUE(array->Upload(std::as_bytes(std::span(host))).ok());
  auto* const data = static_cast<float*>(array->data());
  absl::Notification done;
  ASSERT_TRUE((*group)
                  ->Accumulate({{data, nullptr}, {data + 1000, nullptr}}, 2, [&] { done.Notify(); })
                  .ok());
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(30)));
  (*group)->Abort();
  std::vector<float> residual(1000, 7);
  ASSERT_TRUE((*group)->ReadResidual(0, residual).ok());
  EXPECT_EQ(residual, std::vector<float>(1000));
  Entries sum;
  sum.push_back(0, 8);
  sum.push_back(999, 4);
  sum.push_back(1000, 2);
  ASSERT_TRUE((*group)->Scatter(sum, 4).ok());
  ASSERT_TRUE(array->Download(std::as_writable_bytes(std::span(host))).ok());
  std::vector<float> expected(1500);
  expected[0] = 2, expected[999] = 1, expected[1000] = 0.5f;
  EXPECT_EQ(host, expected);
  sum.push_back(1001, 1);
  EXPECT_EQ((*group)->Scatter(sum, 4).code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace ringwood

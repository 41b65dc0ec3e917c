// The passes of a dense group over a device's memory: packing, averaging, sums of the ranks of a
// host, the digest, and encoding, adding and decoding of codes as one rank of a world makes them.
// One line of JSON a pass: its time (the median, by events), the bytes it has to move, and its time
// over that of a plain copy of as many. Of codes what NCCL would move is not in the time.
//
//     device_dense [elements]        25 million in 60 tensors without any
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/cuda/device.h"
#include "base/cuda/runtime.h"
#include "base/median.h"
#include "base/random.h"
#include "dense/cuda/coded_run.h"
#include "dense/cuda/launch.h"

namespace ringwood {
namespace {

constexpr int kTensors = 60;
constexpr int kWarmUps = 5, kRuns = 30;
constexpr int kWorlds[] = {2, 8};
constexpr int kSummands = 8;  // of ranks of one host

// Runs kernels, and stands in for NCCL: what this rank sends comes back to it. The times of that
// are left out, those of each kernel are added up.
class LocalCodes : public cuda::PlanDevice {
 public:
  explicit LocalCodes(cudaStream_t stream) : stream_(stream) {}
  Status Prepare() {
    RW_RETURN_IF_ERROR(begin_.CreateTimed());
    return end_.CreateTimed();
  }

  Status Encode(const cuda::EncodeView& view) override {
    return Timed(&encode, cuda::LaunchEncode, view);
  }
  Status Exchange(std::span<const cuda::SendView> sends,
                  std::span<const cuda::ReceiveView> receives) override {
    for (size_t i = 0; i < receives.size(); ++i) {
      RW_RETURN_IF_ERROR(FromCuda(cudaMemcpyAsync(receives[i].to, sends[i].from, receives[i].bytes,
                                                  cudaMemcpyDeviceToDevice, stream_),
                                  "copy"));
    }
    return OkStatus();
  }
  Status Sum(const cuda::SumView&) override { return Internal("codes have no plain sums"); }
  Status Add(const cuda::AddView& view) override { return Timed(&add, cuda::LaunchAdd, view); }
  Status Decode(const cuda::DecodeView& view) override {
    return Timed(&decode, cuda::LaunchDecode, view);
  }

  double encode = 0, add = 0, decode = 0;  // seconds

 private:
  template <class View>
  Status Timed(double* seconds, cudaError_t (*launch)(const View&, cudaStream_t),
               const View& view) {
    RW_RETURN_IF_ERROR(begin_.Record(stream_));
    RW_RETURN_IF_ERROR(FromCuda(launch(view, stream_), "run a kernel of codes"));
    RW_RETURN_IF_ERROR(end_.Record(stream_));
    RW_RETURN_IF_ERROR(FromCuda(cudaStreamSynchronize(stream_), "run"));
    *seconds += end_.SecondsSince(begin_);
    return OkStatus();
  }

  const cudaStream_t stream_;
  CudaEvent begin_, end_;
};

class Bench {
 public:
  explicit Bench(uint64_t elements) : elements_(elements) {}
  Status Prepare();
  Status Passes(DataType type);
  Status Codes(int bits, int world);

 private:
  using Launch = std::function<cudaError_t()>;
  StatusOr<double> Seconds(const Launch& launch);
  void Print(const std::string& pass, double seconds, double bytes) const {
    std::printf(
        "{\"pass\": \"%s\", \"elements\": %llu, \"seconds\": %.4g, \"bytes\": %.4g, "
        "\"bytes_per_s\": %.4g, \"over_copy\": %.3f}\n",
        pass.c_str(), static_cast<unsigned long long>(elements_), seconds, bytes, bytes / seconds,
        seconds * copy_rate_ / bytes);
    std::fflush(stdout);
  }

  const uint64_t elements_;
  double copy_rate_ = 0;
  CudaStream stream_;
  CudaEvent begin_, end_;
  DeviceBuffer<float> gradients_, flat_, output_;
  DeviceBuffer<cuda::PartView> parts_;
  DeviceBuffer<uint32_t> largest_;
  DeviceBuffer<uint64_t> digest_;
};

Status Bench::Prepare() {
  RW_RETURN_IF_ERROR(stream_.Create());
  RW_RETURN_IF_ERROR(begin_.CreateTimed());
  RW_RETURN_IF_ERROR(end_.CreateTimed());
  const cudaStream_t stream = stream_.get();
  for (DeviceBuffer<float>* buffer : {&gradients_, &flat_, &output_}) {
    RW_RETURN_IF_ERROR(buffer->Allocate(elements_, stream));
  }
  RW_RETURN_IF_ERROR(parts_.Allocate(kTensors, stream));
  RW_RETURN_IF_ERROR(largest_.Allocate(1, stream));
  RW_RETURN_IF_ERROR(digest_.Allocate(1, stream));
  Random random(1);
  std::vector<float> values(elements_);
  for (float& value : values) value = static_cast<float>(random.Unit() - 0.5);
  const uint64_t each = elements_ / kTensors;
  std::vector<cuda::PartView> parts;
  for (uint64_t t = 0; t < kTensors; ++t) {
    const uint64_t first = t * each, count = t + 1 < kTensors ? each : elements_ - first;
    parts.push_back({gradients_.data() + first, count, first, first});
  }
  RW_RETURN_IF_ERROR(
      FromCuda(cudaMemcpyAsync(gradients_.data(), values.data(), elements_ * sizeof(float),
                               cudaMemcpyHostToDevice, stream),
               "copy gradients to the device"));
  RW_RETURN_IF_ERROR(
      FromCuda(cudaMemcpyAsync(parts_.data(), parts.data(), parts.size() * sizeof(cuda::PartView),
                               cudaMemcpyHostToDevice, stream),
               "copy the table to the device"));
  return FromCuda(cudaStreamSynchronize(stream), "prepare");
}

StatusOr<double> Bench::Seconds(const Launch& launch) {
  std::vector<double> seconds;
  for (int run = 0; run < kWarmUps + kRuns; ++run) {
    RW_RETURN_IF_ERROR(begin_.Record(stream_.get()));
    RW_RETURN_IF_ERROR(FromCuda(launch(), "run a pass"));
    RW_RETURN_IF_ERROR(end_.Record(stream_.get()));
    RW_RETURN_IF_ERROR(FromCuda(cudaStreamSynchronize(stream_.get()), "run"));
    if (run >= kWarmUps) seconds.push_back(end_.SecondsSince(begin_));
  }
  return Median(seconds);
}

// bf16 is read from the memory of the float gradients, whatever numbers that makes.
Status Bench::Passes(DataType type) {
  const cudaStream_t stream = stream_.get();
  const size_t width = SizeOf(type), bytes = elements_ * width;
  const double both = 2.0 * static_cast<double>(bytes);
  const std::string of = type == DataType::kFloat32 ? "" : " in bf16";
  const cuda::PartsView parts{parts_.data(), kTensors, elements_};
  RW_ASSIGN_OR_RETURN(double seconds, Seconds([&] {
                        return cudaMemcpyAsync(output_.data(), gradients_.data(), bytes,
                                               cudaMemcpyDeviceToDevice, stream);
                      }));
  copy_rate_ = both / seconds;
  Print("copy" + of, seconds, both);
  RW_ASSIGN_OR_RETURN(seconds, Seconds([&] {
                        return cuda::LaunchPack(type, parts, 0.5f, nullptr, flat_.data(),
                                                largest_.data(), stream);
                      }));
  Print("pack" + of, seconds, both);
  const uint64_t slice = elements_ / kSummands;
  const auto* const rest = reinterpret_cast<const std::byte*>(flat_.data()) + slice * width;
  const cuda::SumView sum = {flat_.data(), rest,           kSummands - 1,
                             slice,        output_.data(), type == DataType::kBFloat16};
  RW_ASSIGN_OR_RETURN(seconds, Seconds([&] { return cuda::LaunchSum(sum, stream); }));
  Print("sum of " + std::to_string(kSummands) + of, seconds,
        static_cast<double>((kSummands + 1) * slice * width));
  RW_ASSIGN_OR_RETURN(seconds, Seconds([&] {
                        return cuda::LaunchWordDigest(flat_.data(), bytes, digest_.data(), stream);
                      }));
  Print("digest" + of, seconds, both / 2);
  RW_ASSIGN_OR_RETURN(
      seconds, Seconds([&] { return cuda::LaunchUnpack(type, parts, flat_.data(), 0.5, stream); }));
  Print("unpack" + of, seconds, both);
  return OkStatus();
}

// A step of rank 0, with the errors and reaches of the step before: the clock starts after some.
Status Bench::Codes(int bits, int world) {
  const cudaStream_t stream = stream_.get();
  const size_t blocks = LatticeBlocks(elements_);
  const int levels = LatticeLevels(bits);
  const cuda::CodedPlan plan = cuda::CodedPlanFor({0, OneEach(world), levels, elements_});
  DeviceBuffer<float> error[2];
  DeviceBuffer<BlockReach> reach[2];
  DeviceBuffer<std::byte> staging;
  for (int i = 0; i < 2; ++i) {
    RW_RETURN_IF_ERROR(error[i].Allocate(elements_, stream));
    RW_RETURN_IF_ERROR(reach[i].Allocate(blocks, stream));
  }
  RW_RETURN_IF_ERROR(staging.Allocate(plan.staging_bytes, stream));
  LocalCodes device(stream);
  RW_RETURN_IF_ERROR(device.Prepare());
  cuda::CodedMemory memory;
  memory.values = gradients_.data();
  memory.output = output_.data();
  memory.most = largest_.data();
  memory.staging = staging.data();
  std::vector<double> encode, add, decode;
  for (int run = 0; run < kWarmUps + kRuns; ++run) {
    memory.error = error[run % 2].data();
    memory.next_error = error[1 - run % 2].data();
    memory.reach = reach[run % 2].data();
    memory.next_reach = reach[1 - run % 2].data();
    device.encode = device.add = device.decode = 0;
    for (const cuda::CodedStep& step : plan.steps) {
      RW_RETURN_IF_ERROR(RunStep(plan, step, memory, &device));
    }
    if (run < kWarmUps) continue;
    encode.push_back(device.encode);
    add.push_back(device.add);
    decode.push_back(device.decode);
  }
  const auto packed = [&](int width) {  // bytes of all elements
    return static_cast<double>(PackedBytes(blocks, width));
  };
  const double fp32 = static_cast<double>(elements_) * sizeof(float);
  const double codes = packed(LatticeWidth(levels, 1)), sum = packed(LatticeWidth(levels, world));
  const std::string name =
      "int" + std::to_string(bits) + " of " + std::to_string(world) + " ranks: ";
  Print(name + "encode", Median(encode), 3 * fp32 + codes);
  Print(name + "add", Median(add), codes + sum / world);
  Print(name + "decode", Median(decode), sum + fp32);
  return OkStatus();
}

Status Run(uint64_t elements) {
  RW_RETURN_IF_ERROR(CountDevices().status());
  Bench bench(elements);
  RW_RETURN_IF_ERROR(bench.Prepare());
  RW_RETURN_IF_ERROR(bench.Passes(DataType::kBFloat16));
  RW_RETURN_IF_ERROR(bench.Passes(DataType::kFloat32));
  for (const int bits : {8, 4}) {
    for (const int world : kWorlds) RW_RETURN_IF_ERROR(bench.Codes(bits, world));
  }
  return OkStatus();
}

}  // namespace
}  // namespace ringwood

int main(int count, char** words) {
  const long long elements = count > 1 ? std::atoll(words[1]) : 25'000'000;
  if (count > 2 || elements < 1000) {
    std::fprintf(stderr, "device_dense: [elements], 1000 at least\n");
    return 64;
  }
  const ringwood::Status status = ringwood::Run(static_cast<uint64_t>(elements));
  if (status.code() == ringwood::StatusCode::kFailedPrecondition) {
    std::printf("skipped: %s\n", ringwood::Message(status).c_str());
    return 0;
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", ringwood::Message(status).c_str());
  return status.ok() ? 0 : 1;
}

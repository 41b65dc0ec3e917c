// Selection on a device: first that its picks are the CPU's, then how long a step takes beside a
// plain copy of as many bytes. One line of JSON a case; times are medians of events.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/cuda/device.h"
#include "base/median.h"
#include "base/random.h"
#include "sparse/cuda/group_memory.h"
#include "sparse/cuda/launch.h"
#include "sparse/select.h"

namespace ringwood {
namespace {

constexpr uint64_t kElements = 16 << 20;  // 64 MiB an array: beyond the L2 cache of any device
constexpr int kWarmUps = 10;              // the guess of the threshold settles
constexpr int kRuns = 50;
constexpr int kGradients = 4;  // taken in turn

class Timer {
 public:
  Status Create() {
    RW_RETURN_IF_ERROR(FromCuda(cudaEventCreate(&begin_), "create an event"));
    return FromCuda(cudaEventCreate(&end_), "create an event");
  }
  void Begin(cudaStream_t stream) { cudaEventRecord(begin_, stream); }
  StatusOr<double> End(cudaStream_t stream) {  // seconds; waits
    float milliseconds = 0;
    cudaEventRecord(end_, stream);
    RW_RETURN_IF_ERROR(FromCuda(cudaEventSynchronize(end_), "run"));
    RW_RETURN_IF_ERROR(FromCuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "time"));
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// Heavy-tailed, as gradients are: a cubed uniform.
std::vector<float> MakeGradient(uint64_t seed) {
  Random random(seed);
  std::vector<float> gradient(kElements);
  for (float& value : gradient) {
    const double unit = 2 * random.Unit() - 1;
    value = static_cast<float>(unit * unit * unit * 0.01);
  }
  return gradient;
}

struct Bench {
  cudaStream_t stream = nullptr;
  Timer timer;
  uint32_t blocks = 0;
  std::vector<std::vector<float>> host;
  std::vector<DeviceBuffer<float>> gradients;
};

Status Prepare(Bench* bench) {
  RW_RETURN_IF_ERROR(FromCuda(cudaStreamCreate(&bench->stream), "create a stream"));
  RW_RETURN_IF_ERROR(bench->timer.Create());
  RW_RETURN_IF_ERROR(FromCuda(cuda::RefineBlocks(&bench->blocks), "size the refining kernel"));
  for (int g = 0; g < kGradients; ++g) {
    bench->host.push_back(MakeGradient(g + 1));
    bench->gradients.emplace_back();
    RW_RETURN_IF_ERROR(bench->gradients[g].Allocate(kElements, bench->stream));
    RW_RETURN_IF_ERROR(
        FromCuda(cudaMemcpyAsync(bench->gradients[g].data(), bench->host[g].data(),
                                 kElements * sizeof(float), cudaMemcpyHostToDevice, bench->stream),
                 "copy a gradient"));
  }
  return FromCuda(cudaStreamSynchronize(bench->stream), "copy gradients");
}

// Bytes read and written a second by a copy within the device.
StatusOr<double> CopyRate(Bench* bench) {
  std::vector<double> seconds;
  DeviceBuffer<float> into[2];
  for (auto& buffer : into) RW_RETURN_IF_ERROR(buffer.Allocate(kElements, bench->stream));
  for (int run = 0; run < kWarmUps + kRuns; ++run) {
    bench->timer.Begin(bench->stream);
    RW_RETURN_IF_ERROR(FromCuda(
        cudaMemcpyAsync(into[run % 2].data(), bench->gradients[run % kGradients].data(),
                        kElements * sizeof(float), cudaMemcpyDeviceToDevice, bench->stream),
        "copy"));
    RW_ASSIGN_OR_RETURN(const double took, bench->timer.End(bench->stream));
    if (run >= kWarmUps) seconds.push_back(took);
  }
  return 2 * kElements * sizeof(float) / Median(seconds);
}

Status Step(Bench* bench, const cuda::GroupMemory& memory, int step) {
  float* const gradient = bench->gradients[step % kGradients].data();
  RW_RETURN_IF_ERROR(FromCuda(cudaMemcpyAsync(memory.gradients().data(), &gradient, sizeof gradient,
                                              cudaMemcpyHostToDevice, bench->stream),
                              "set the gradient"));
  const cuda::GroupView view = memory.View(step % 2);
  bench->timer.Begin(bench->stream);
  RW_RETURN_IF_ERROR(FromCuda(cuda::LaunchAccumulate(view, {1, 1}, bench->stream), "accumulate"));
  return FromCuda(cuda::LaunchRefine(view, bench->blocks, bench->stream), "refine");
}

Status CheckFirstStep(Bench* bench, const cuda::GroupMemory& memory, uint64_t k) {
  Entries picks;
  picks.index.resize(k);
  picks.value.resize(k);
  RW_RETURN_IF_ERROR(FromCuda(
      cudaMemcpy(picks.index.data(), memory.pick_index().data(), k * 4, cudaMemcpyDeviceToHost),
      "read picks"));
  RW_RETURN_IF_ERROR(FromCuda(
      cudaMemcpy(picks.value.data(), memory.pick_value().data(), k * 4, cudaMemcpyDeviceToHost),
      "read picks"));
  if (picks == SelectPlain(bench->host[0], k)) return OkStatus();
  return Internal("the device's picks are not the CPU's");
}

Status Measure(Bench* bench, double copy_rate, uint64_t k, bool momentum) {
  RW_ASSIGN_OR_RETURN(cuda::Layout layout, cuda::LayOut({{kElements, k, momentum ? 0.9f : 0.0f}}));
  cuda::GroupMemory memory(std::move(layout));
  RW_RETURN_IF_ERROR(memory.Allocate(bench->stream));
  std::vector<double> seconds;
  int whole = 0;  // steps whose guess was bad
  for (int step = 0; step < kWarmUps + kRuns; ++step) {
    RW_RETURN_IF_ERROR(Step(bench, memory, step));
    RW_ASSIGN_OR_RETURN(const double took, bench->timer.End(bench->stream));
    if (step == 0) RW_RETURN_IF_ERROR(CheckFirstStep(bench, memory, k));
    // What was picked leaves, as if all of it had been accepted.
    DeviceBuffer<uint8_t> accepted;
    RW_RETURN_IF_ERROR(accepted.Allocate(k, bench->stream));
    cudaMemsetAsync(accepted.data(), 1, k, bench->stream);
    RW_RETURN_IF_ERROR(
        FromCuda(cuda::LaunchSettle(memory.View(step % 2), memory.pick_value().data(),
                                    accepted.data(), true, static_cast<uint32_t>(k), bench->stream),
                 "settle"));
    cuda::TensorOutcome outcome;
    RW_RETURN_IF_ERROR(FromCuda(
        cudaMemcpy(&outcome, memory.outcomes().data(), sizeof outcome, cudaMemcpyDeviceToHost),
        "read the outcome"));
    if (step < kWarmUps) continue;
    whole += static_cast<int>(outcome.dense);
    seconds.push_back(took);
  }
  const double floor = (momentum ? 20.0 : 12.0) * kElements / copy_rate;
  const double median = Median(seconds);
  std::printf(
      "{\"elements\": %llu, \"k\": %llu, \"momentum\": %s, \"p50_s\": %.4g, \"copy_floor_s\": "
      "%.4g, \"over_floor\": %.3f, \"whole_residual_steps\": %d, \"runs\": %d}\n",
      static_cast<unsigned long long>(kElements), static_cast<unsigned long long>(k),
      momentum ? "true" : "false", median, floor, median / floor, whole, kRuns);
  return OkStatus();
}

Status Run() {
  RW_RETURN_IF_ERROR(CountDevices().status());
  Bench bench;
  RW_RETURN_IF_ERROR(Prepare(&bench));
  for (const bool momentum : {false, true}) {
    for (const uint64_t k : {kElements / 1000, kElements / 100}) {
      RW_ASSIGN_OR_RETURN(const double copy_rate, CopyRate(&bench));
      RW_RETURN_IF_ERROR(Measure(&bench, copy_rate, k, momentum));
    }
  }
  return OkStatus();
}

}  // namespace
}  // namespace ringwood

int main() {
  const ringwood::Status status = ringwood::Run();
  if (status.code() == ringwood::StatusCode::kUnavailable) {
    std::printf("skipped: %s\n", ringwood::Message(status).c_str());
    return 0;
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", ringwood::Message(status).c_str());
  return status.ok() ? 0 : 1;
}

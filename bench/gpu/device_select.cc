// Sparse exchange on a device, in steady state: first that its picks are the CPU's, then what a
// step takes beside a plain copy of as many bytes. One line of JSON a case; times are medians of
// events.
//
//     device_select [--steps N] [elements…]        10 and 100 million elements without any
//
// Residuals have piled up: before the clock counts, the threshold has stopped rising. Of a step all
// is inside the clock that a device does in a job of one rank: the table of gradients, both kernels
// of the selection, picks to the host, the accepted ones out of the residual, the result to the
// device and over the gradients, zeros included. What a step needs new, its gradient, is copied
// before.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/cuda/device.h"
#include "base/median.h"
#include "base/random.h"
#include "sparse/accumulate.h"
#include "sparse/cuda/group_memory.h"
#include "sparse/cuda/launch.h"
#include "sparse/key.h"
#include "sparse/select.h"

namespace ringwood {
namespace {

constexpr int kGradients = 4;  // taken in turn
constexpr int kRuns = 50;      // timed steps
constexpr int kMaxWarmUps = 2000;
constexpr int kLevelSteps = 50;  // so many steps later the threshold is within kLevel: steady
constexpr double kLevel = 0.02;

// Heavy-tailed, as gradients are: a cubed uniform.
std::vector<float> MakeGradient(uint64_t seed, uint64_t elements) {
  Random random(seed);
  std::vector<float> gradient(elements);
  for (float& value : gradient) {
    const double unit = 2 * random.Unit() - 1;
    value = static_cast<float>(unit * unit * unit * 0.01);
  }
  return gradient;
}

// What SelectPlain answers, in one pass: to sort 100 million values takes it a minute.
Entries PicksOfTheCpu(const std::vector<float>& values, uint64_t k) {
  TopK top(values.size(), k);
  top.Restart(1);
  Scan(values, &top);
  Entries picks;
  top.Take(&picks);
  return picks;
}

// Where the clock is read.
struct Events {
  CudaEvent begin, accumulated, refined, picked, end;

  Status Create() {
    for (CudaEvent* event : {&begin, &accumulated, &refined, &picked, &end}) {
      RW_RETURN_IF_ERROR(event->CreateTimed());
    }
    return OkStatus();
  }
};

struct Case {
  uint64_t elements = 0;
  uint64_t k = 0;
  bool momentum = false;
};

// Medians of the timed steps, in seconds.
struct Times {
  std::vector<double> accumulate, refine, select, step;

  void Add(const Events& events) {
    accumulate.push_back(events.accumulated.SecondsSince(events.begin));
    refine.push_back(events.refined.SecondsSince(events.accumulated));
    select.push_back(events.refined.SecondsSince(events.begin));
    step.push_back(events.end.SecondsSince(events.begin));
  }
};

using Sources = std::array<std::vector<float>, kGradients>;

class Bench {
 public:
  explicit Bench(const Case& what) : case_(what) {}

  Status Prepare(const Sources& sources);  // of the case's size
  StatusOr<double> CopyRate();  // bytes read and written a second, by a copy within the device
  Status Step(int step);
  Status CheckPicks();  // of the last step, against the CPU's selection from the same residual
  // Steps until the threshold has stopped rising; returns how many.
  StatusOr<int> WarmUp(int most);
  Status Measure(int warm_ups, int runs, double copy_rate);

 private:
  Status Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return FromCuda(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), "copy");
  }
  Status Wait() { return FromCuda(cudaStreamSynchronize(stream_.get()), "run"); }

  const Case case_;
  CudaStream stream_;
  Events events_;
  uint32_t blocks_ = 0;
  std::unique_ptr<cuda::GroupMemory> memory_;
  DeviceBuffer<float> sources_[kGradients], gradient_, copy_, result_value_;
  DeviceBuffer<uint32_t> result_index_;
  DeviceBuffer<uint8_t> accepted_;
  PinnedBuffer<float*> table_;
  PinnedBuffer<uint32_t> host_index_;
  PinnedBuffer<float> host_value_;
  PinnedBuffer<uint8_t> host_accepted_;
  PinnedBuffer<cuda::TensorOutcome> outcome_;
  uint32_t present_ = 0;
};

Status Bench::Prepare(const Sources& sources) {
  RW_RETURN_IF_ERROR(stream_.Create());
  RW_RETURN_IF_ERROR(events_.Create());
  const cudaStream_t stream = stream_.get();
  RW_RETURN_IF_ERROR(FromCuda(cuda::RefineBlocks(&blocks_), "size the refining kernel"));
  RW_ASSIGN_OR_RETURN(cuda::Layout layout,
                      cuda::LayOut({{case_.elements, case_.k, case_.momentum ? 0.9f : 0.0f}}));
  memory_ = std::make_unique<cuda::GroupMemory>(std::move(layout));
  RW_RETURN_IF_ERROR(memory_->Allocate(stream));
  for (int g = 0; g < kGradients; ++g) {
    const std::vector<float>& host = sources[g];
    RW_RETURN_IF_ERROR(sources_[g].Allocate(case_.elements, stream));
    RW_RETURN_IF_ERROR(
        Copy(sources_[g].data(), host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
    RW_RETURN_IF_ERROR(Wait());
  }
  RW_RETURN_IF_ERROR(gradient_.Allocate(case_.elements, stream));
  RW_RETURN_IF_ERROR(copy_.Allocate(case_.elements, stream));
  RW_RETURN_IF_ERROR(result_value_.Allocate(case_.k, stream));
  RW_RETURN_IF_ERROR(result_index_.Allocate(case_.k, stream));
  RW_RETURN_IF_ERROR(accepted_.Allocate(case_.k, stream));
  RW_RETURN_IF_ERROR(table_.Allocate(1, stream));
  RW_RETURN_IF_ERROR(host_index_.Allocate(case_.k, stream));
  RW_RETURN_IF_ERROR(host_value_.Allocate(case_.k, stream));
  RW_RETURN_IF_ERROR(host_accepted_.Allocate(case_.k, stream));
  RW_RETURN_IF_ERROR(outcome_.Allocate(1, stream));
  *table_.data() = gradient_.data();
  std::memset(host_accepted_.data(), 1, case_.k);
  return Wait();
}

StatusOr<double> Bench::CopyRate() {
  std::vector<double> seconds;
  for (int run = 0; run < 10 + kRuns; ++run) {
    RW_RETURN_IF_ERROR(events_.begin.Record(stream_.get()));
    RW_RETURN_IF_ERROR(Copy(copy_.data(), sources_[run % kGradients].data(),
                            case_.elements * sizeof(float), cudaMemcpyDeviceToDevice));
    RW_RETURN_IF_ERROR(events_.end.Record(stream_.get()));
    RW_RETURN_IF_ERROR(Wait());
    if (run >= 10) seconds.push_back(events_.end.SecondsSince(events_.begin));
  }
  return 2 * case_.elements * sizeof(float) / Median(seconds);
}

Status Bench::Step(int step) {
  const cudaStream_t stream = stream_.get();
  RW_RETURN_IF_ERROR(Copy(gradient_.data(), sources_[step % kGradients].data(),
                          case_.elements * sizeof(float), cudaMemcpyDeviceToDevice));
  const cuda::GroupView view = memory_->View(present_);
  RW_RETURN_IF_ERROR(events_.begin.Record(stream));
  RW_RETURN_IF_ERROR(
      Copy(memory_->gradients().data(), table_.data(), sizeof(float*), cudaMemcpyHostToDevice));
  RW_RETURN_IF_ERROR(FromCuda(cuda::LaunchAccumulate(view, {1, 1}, stream), "accumulate"));
  RW_RETURN_IF_ERROR(events_.accumulated.Record(stream));
  RW_RETURN_IF_ERROR(FromCuda(cuda::LaunchRefine(view, blocks_, stream), "refine"));
  RW_RETURN_IF_ERROR(events_.refined.Record(stream));
  RW_RETURN_IF_ERROR(Copy(outcome_.data(), memory_->outcomes().data(), sizeof(*outcome_.data()),
                          cudaMemcpyDeviceToHost));
  const size_t bytes = case_.k * sizeof(float);
  RW_RETURN_IF_ERROR(
      Copy(host_index_.data(), memory_->pick_index().data(), bytes, cudaMemcpyDeviceToHost));
  RW_RETURN_IF_ERROR(
      Copy(host_value_.data(), memory_->pick_value().data(), bytes, cudaMemcpyDeviceToHost));
  RW_RETURN_IF_ERROR(events_.picked.Record(stream));
  // The exchange would be here. Of one rank all picks are accepted, and they are the result.
  RW_RETURN_IF_ERROR(
      Copy(accepted_.data(), host_accepted_.data(), case_.k, cudaMemcpyHostToDevice));
  RW_RETURN_IF_ERROR(
      FromCuda(cuda::LaunchSettle(view, memory_->pick_value().data(), accepted_.data(), true,
                                  static_cast<uint32_t>(case_.k), stream),
               "settle"));
  RW_RETURN_IF_ERROR(Copy(result_index_.data(), host_index_.data(), bytes, cudaMemcpyHostToDevice));
  RW_RETURN_IF_ERROR(Copy(result_value_.data(), host_value_.data(), bytes, cudaMemcpyHostToDevice));
  const cuda::ResultView result{result_index_.data(), result_value_.data(),
                                static_cast<uint32_t>(case_.k), 1};
  RW_RETURN_IF_ERROR(FromCuda(cuda::LaunchScatter(view, result, stream), "scatter"));
  RW_RETURN_IF_ERROR(events_.end.Record(stream));
  present_ = 1 - present_;
  return Wait();
}

// What was accepted has left the residual; put back, it is what was selected from.
Status Bench::CheckPicks() {
  std::vector<float> residual(case_.elements), gradient(case_.elements);
  const float* const from = memory_->layout().tensors[0].residual[present_];
  const size_t bytes = case_.elements * sizeof(float);
  RW_RETURN_IF_ERROR(Copy(residual.data(), from, bytes, cudaMemcpyDeviceToHost));
  RW_RETURN_IF_ERROR(Copy(gradient.data(), gradient_.data(), bytes, cudaMemcpyDeviceToHost));
  RW_RETURN_IF_ERROR(Wait());
  Entries picks;
  std::vector<float> expected(case_.elements);
  for (uint64_t j = 0; j < case_.k; ++j) {
    picks.push_back(host_index_.data()[j], host_value_.data()[j]);
    if (residual[picks.index[j]] != 0) return Internal("an accepted pick stayed in the residual");
    residual[picks.index[j]] = expected[picks.index[j]] = picks.value[j];
  }
  if (!(picks == PicksOfTheCpu(residual, case_.k))) {
    return Internal("the device's picks are not the CPU's");
  }
  if (gradient != expected) return Internal("the gradients are not the result");
  return OkStatus();
}

StatusOr<int> Bench::WarmUp(int most) {
  double before = 0;
  for (int step = 0; step < most; ++step) {
    RW_RETURN_IF_ERROR(Step(step));
    if (outcome_.data()->picked != case_.k) return Internal("fewer picks than k");
    if (step == 0) RW_RETURN_IF_ERROR(CheckPicks());
    if (step % kLevelSteps != kLevelSteps - 1) continue;
    uint32_t least = kFirstNonFiniteKey;
    for (float value : host_value_.span()) least = std::min(least, KeyOf(value));
    const double threshold = FromKey(least);
    if (std::abs(threshold - before) < kLevel * threshold) return step + 1;
    before = threshold;
  }
  return most;
}

Status Bench::Measure(int warm_ups, int runs, double copy_rate) {
  Times times;
  int whole = 0;  // steps whose guess was bad
  std::vector<double> candidates;
  for (int step = 0; step < runs; ++step) {
    RW_RETURN_IF_ERROR(Step(warm_ups + step));
    times.Add(events_);
    whole += static_cast<int>(outcome_.data()->dense);
    candidates.push_back(static_cast<double>(outcome_.data()->candidates) / case_.k);
  }
  RW_RETURN_IF_ERROR(CheckPicks());
  const double bytes = (case_.momentum ? 20.0 : 12.0) * case_.elements;
  const double floor = bytes / copy_rate, select = Median(times.select), step = Median(times.step);
  std::printf(
      "{\"elements\": %llu, \"k\": %llu, \"momentum\": %s, \"warm_ups\": %d, \"runs\": %d, "
      "\"accumulate_s\": %.4g, \"refine_s\": %.4g, \"select_s\": %.4g, \"copy_floor_s\": %.4g, "
      "\"over_floor\": %.3f, \"step_s\": %.4g, \"step_over_floor\": %.3f, "
      "\"copy_bytes_per_s\": %.4g, \"candidates_over_k\": %.3f, \"whole_residual_steps\": %d}\n",
      static_cast<unsigned long long>(case_.elements), static_cast<unsigned long long>(case_.k),
      case_.momentum ? "true" : "false", warm_ups, runs, Median(times.accumulate),
      Median(times.refine), select, floor, select / floor, step,
      step / ((bytes + 4.0 * case_.elements) / copy_rate), copy_rate, Median(candidates), whole);
  std::fflush(stdout);
  return OkStatus();
}

Status Run(const std::vector<uint64_t>& sizes, int steps) {
  RW_RETURN_IF_ERROR(CountDevices().status());
  for (const uint64_t elements : sizes) {
    Sources sources;
    for (int g = 0; g < kGradients; ++g) sources[g] = MakeGradient(g + 1, elements);
    for (const bool momentum : {false, true}) {
      for (const uint64_t share : {1000, 100}) {
        Bench bench({elements, elements / share, momentum});
        RW_RETURN_IF_ERROR(bench.Prepare(sources));
        RW_ASSIGN_OR_RETURN(const double copy_rate, bench.CopyRate());
        RW_ASSIGN_OR_RETURN(const int warm_ups, bench.WarmUp(steps > 0 ? steps : kMaxWarmUps));
        RW_RETURN_IF_ERROR(bench.Measure(warm_ups, steps > 0 ? steps : kRuns, copy_rate));
      }
    }
  }
  return OkStatus();
}

}  // namespace
}  // namespace ringwood

int main(int count, char** words) {
  std::vector<uint64_t> sizes;
  int steps = 0;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(words[i], "--steps") == 0 && i + 1 < count) {
      steps = std::atoi(words[++i]);
    } else if (std::atoll(words[i]) >= 1000) {
      sizes.push_back(static_cast<uint64_t>(std::atoll(words[i])));
    } else {
      std::fprintf(stderr, "device_select: %s? [--steps N] and numbers from 1000 on\n", words[i]);
      return 64;
    }
  }
  if (sizes.empty()) sizes = {10'000'000, 100'000'000};
  const ringwood::Status status = ringwood::Run(sizes, steps);
  if (status.code() == ringwood::StatusCode::kFailedPrecondition) {
    std::printf("skipped: %s\n", ringwood::Message(status).c_str());
    return 0;
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", ringwood::Message(status).c_str());
  return status.ok() ? 0 : 1;
}

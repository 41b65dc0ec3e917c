// What planning costs: 1000 tensors exactly, and ResNet-50 on rings of up to 2048 workers, all
// ranks' schedules played. The simulated end stands beside the closed form's.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "plan/predict/scaling.h"
#include "plan/strategy/planner.h"

namespace ringwood {
namespace {

// ResNet-50's shape: 161 tensors, 25.6 M elements, 64 ms of backward, heavy-tailed.
PlanInput Model(size_t tensors) {
  PlanInput input;
  Random random(1);
  double ready = 0;
  for (size_t t = 0; t < tensors; ++t) {
    const uint64_t elements = t % 3 == 0 ? 20000 + random.Below(900000) : 64 + random.Below(2048);
    ready += 0.0635 / static_cast<double>(tensors) * 2 * random.Unit();
    input.tensors.push_back({absl::StrCat("t", t), elements, "auto", 0.001});
    input.ready_seconds.push_back(ready);
  }
  return input;
}

void ExactPlan(benchmark::State& state) {
  PlanInput input = Model(static_cast<size_t>(state.range(0)));
  input.world = 8;
  for (auto _ : state) benchmark::DoNotOptimize(MakePlan("exact", input));
}
BENCHMARK(ExactPlan)->Arg(161)->Arg(1000)->Unit(benchmark::kMillisecond);

void HybridPlan(benchmark::State& state) {
  PlanInput input = Model(static_cast<size_t>(state.range(0)));
  input.world = 8;
  for (auto _ : state) benchmark::DoNotOptimize(MakePlan("hybrid", input));
}
BENCHMARK(HybridPlan)->Arg(161)->Unit(benchmark::kMillisecond)->Iterations(3);

void SimulateRing(benchmark::State& state) {
  PlanInput input = Model(161);
  input.network = {1e-5, 8e-10, 0};
  ScalingPoint point;
  for (auto _ : state) {
    const auto result = ScaleTo(static_cast<int>(state.range(0)), "exact", input, {});
    RW_CHECK(result.ok());
    point = *result;
  }
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["simulated_s"] = point.simulated_seconds;
  state.counters["predicted_s"] = point.predicted_seconds;
  state.counters["messages"] = static_cast<double>(point.messages);
  state.counters["peak_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}
BENCHMARK(SimulateRing)->Arg(64)->Arg(512)->Arg(2048)->Unit(benchmark::kMillisecond)->Iterations(3);

}  // namespace
}  // namespace ringwood

BENCHMARK_MAIN();

// What the report of a rank costs it: a step's events with and without a Tally, in turn, and a
// report as it is made for a heartbeat. docs/metrics.md has the figures.
#include <benchmark/benchmark.h>

#include "client/connection/tally.h"
#include "timeline/observers.h"

namespace ringwood {
namespace {

constexpr uint32_t kTensors = 161;  // ResNet-50
constexpr uint32_t kGroups = 40;

Plan ManyGroups() {
  Plan plan;
  plan.groups.resize(kGroups);
  for (uint32_t g = 0; g < kGroups; ++g) {
    plan.groups[g].route = g % 2 == 0 ? "ring" : "tree";
    plan.groups[g].k = g % 2;
    plan.groups[g].end_seconds = 0.001;
  }
  return plan;
}

// The events of one step, each with its clock, as the session reports them anyway.
void Step(Observer* observer, uint64_t round) {
  observer->RoundBegun(round, Now());
  for (uint32_t tensor = 0; tensor < kTensors; ++tensor) {
    observer->GradientReady(round, tensor, Now());
  }
  for (uint32_t group = 0; group < kGroups; ++group) {
    observer->SelectionBegun(round, group, Now());
    observer->Selected(round, group, Now());
    observer->GroupStarted(round, group, Now());
    observer->GroupEnded(round, group, 1000, Now());
  }
  observer->WaitBegun(round, Now());
  observer->Voted(round, 0, Now());
  observer->Committed(round, false, Now());
  observer->Applied(round, Now());
}

void BM_StepEvents(benchmark::State& state) {
  Observer nobody;
  Tally tally(0);
  Observers observers;
  observers.Add(&nobody);
  if (state.range(0) == 1) observers.Add(&tally);
  observers.PlanAdopted(ManyGroups(), std::vector<TensorSpec>(kTensors), 1);
  uint64_t round = 0;
  for (auto _ : state) Step(&observers, ++round);
}
BENCHMARK(BM_StepEvents)->ArgName("tally")->Arg(0)->Arg(1);

void BM_Report(benchmark::State& state) {
  Tally tally(0);
  v1::Beat beat;
  for (auto _ : state) {
    tally.Fill(beat.mutable_report());
    benchmark::DoNotOptimize(beat.ByteSizeLong());
  }
  state.counters["bytes"] = static_cast<double>(beat.ByteSizeLong());
}
BENCHMARK(BM_Report);

}  // namespace
}  // namespace ringwood

BENCHMARK_MAIN();

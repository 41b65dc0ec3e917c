#include "measure/select_bench.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/median.h"
#include "base/random.h"
#include "sparse/sparse_tensor.h"

namespace ringwood {
namespace {

constexpr int kWarmUps = 20;  // until the guess of the threshold has settled

template <class Work>
double Time(Work work) {
  const TimePoint start = Now();
  work();
  return ToSeconds(Now() - start);
}

// Heavy-tailed and uneven over the tensor, like gradients: cubes of a symmetric variable.
Buffer<float> MakeGradient(uint64_t elements, uint64_t seed) {
  Random random(seed);
  Buffer<float> gradient(elements);
  for (uint64_t i = 0; i < elements; ++i) {
    const double u = random.Unit() + random.Unit() - 1;
    gradient[i] = static_cast<float>(u * u * u * (0.2 + static_cast<double>((i >> 12) % 7)));
  }
  return gradient;
}

// The floor: the compiler's own loop.
void Plain(const float* g, float momentum, Buffer<float>* residual, Buffer<float>* velocity) {
  float* e = residual->data();
  float* u = velocity->data();
  if (momentum == 0) {
    for (uint64_t i = 0; i < residual->size(); ++i) e[i] += g[i];
  } else {
    for (uint64_t i = 0; i < residual->size(); ++i) e[i] += u[i] = momentum * u[i] + g[i];
  }
}

}  // namespace

SelectBenchResult MeasureSelection(const SelectBenchCase& bench) {
  const uint64_t elements = bench.elements;
  const float momentum = bench.momentum;
  SelectBenchResult result;
  result.elements = elements;
  result.momentum = momentum;
  result.k = std::max<uint64_t>(
      1, static_cast<uint64_t>(std::llround(bench.density * static_cast<double>(elements))));
  const Buffer<float> gradients[] = {MakeGradient(elements, 1), MakeGradient(elements, 2)};
  Buffer<float> residual(elements), velocity(momentum == 0 ? 0 : elements);
  SparseTensor tensor(elements, {result.k, momentum, 1, 0, bench.method});
  const std::vector<uint8_t> accepted(result.k, 1);
  std::vector<double> plain, select, commit, ratio;
  for (int pair = -kWarmUps; pair < bench.pairs; ++pair) {
    const Buffer<float>& gradient = gradients[pair & 1];
    const double a = Time([&] { Plain(gradient.data(), momentum, &residual, &velocity); });
    const double b = Time([&] { tensor.Accumulate(gradient.span(), 1); });
    const double c = Time([&] { tensor.Commit(std::span(accepted).first(tensor.picks().size())); });
    if (pair < 0) continue;
    plain.push_back(a);
    select.push_back(b);
    commit.push_back(c);
    ratio.push_back(b / a);
    result.picked += static_cast<double>(tensor.picks().size());
  }
  result.plain_seconds = Median(plain);
  result.select_seconds = Median(select);
  result.commit_seconds = Median(commit);
  result.picked /= bench.pairs * static_cast<double>(result.k);
  result.ratio = Median(ratio);
  result.least_ratio = *std::min_element(ratio.begin(), ratio.end());
  result.most_ratio = *std::max_element(ratio.begin(), ratio.end());
  return result;
}

}  // namespace ringwood

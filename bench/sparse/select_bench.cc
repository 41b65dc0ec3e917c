// Selection against what it cannot avoid and against what others do, interleaved in one run:
//   plain      e += g in place, the compiler's own loop: the floor
//   ringwood   SparseTensor::Accumulate, warm: shadow residual and exact selection; Commit beside
//   it nth        |e| as (value, index) pairs, std::partial_sort or nth_element: torch.topk's CPU
//   algorithm
// select_bench [ELEMENTS [PAIRS]]; medians and ratios, one line a density.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "sparse/sparse_tensor.h"

namespace ringwood {
namespace {

double Median(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

template <class Work>
double Time(Work work) {
  const TimePoint start = Now();
  work();
  return ToSeconds(Now() - start);
}

// Heavy-tailed and uneven over the tensor, like gradients: cubes of a symmetric variable.
void Fill(uint64_t seed, std::vector<float>* gradient) {
  Random random(seed);
  for (size_t i = 0; i < gradient->size(); ++i) {
    const double u = random.Unit() + random.Unit() - 1;
    (*gradient)[i] = static_cast<float>(u * u * u * (0.2 + ((i >> 12) % 7)));
  }
}

void TopKByPairs(std::span<const float> values, uint64_t k) {
  std::vector<std::pair<float, uint32_t>> pairs(values.size());
  for (size_t i = 0; i < values.size(); ++i) pairs[i] = {std::fabs(values[i]), i};
  const auto larger = [](const auto& a, const auto& b) { return a.first > b.first; };
  if (k * 64 <= values.size()) {
    std::partial_sort(pairs.begin(), pairs.begin() + k, pairs.end(), larger);
  } else {
    std::nth_element(pairs.begin(), pairs.begin() + k - 1, pairs.end(), larger);
  }
}

void Measure(uint64_t elements, int pairs, double density, float momentum) {
  const uint64_t k = std::max<uint64_t>(1, std::llround(density * elements));
  std::vector<float> gradients[2] = {std::vector<float>(elements), std::vector<float>(elements)};
  Fill(1, &gradients[0]);
  Fill(2, &gradients[1]);
  Buffer<float> plain(elements), velocity(elements);
  SparseTensor tensor(elements, {k, momentum, 1, 0});
  const std::vector<uint8_t> counted(k, 1);
  std::vector<double> floor, ours, commit, ratio, sort;
  for (int pair = -20; pair < pairs; ++pair) {  // the first ones warm the threshold up
    const std::vector<float>& gradient = gradients[pair & 1];
    const double a = Time([&] {
      float* e = plain.data();
      float* u = velocity.data();
      const float* g = gradient.data();
      if (momentum == 0) {
        for (uint64_t i = 0; i < elements; ++i) e[i] += g[i];
      } else {
        for (uint64_t i = 0; i < elements; ++i) e[i] += u[i] = momentum * u[i] + g[i];
      }
    });
    const double b = Time([&] { tensor.Accumulate(gradient, 1); });
    const double c = Time([&] { tensor.Commit(std::span(counted).first(tensor.picks().size())); });
    if (pair < 0) continue;
    floor.push_back(a);
    ours.push_back(b);
    commit.push_back(c);
    ratio.push_back(b / a);
    if (pair < 3) sort.push_back(Time([&] { TopKByPairs(tensor.residual(), k); }));
  }
  std::sort(ratio.begin(), ratio.end());
  std::printf(
      "n %lu k %lu momentum %.1f | plain %.2f ms | ringwood %.2f ms + %.2f | ratio %.3f "
      "(%.3f..%.3f) | pairs %.1f ms = %.1f x ringwood\n",
      elements, k, momentum, Median(floor) * 1e3, Median(ours) * 1e3, Median(commit) * 1e3,
      Median(ratio), ratio.front(), ratio.back(), Median(sort) * 1e3, Median(sort) / Median(ours));
}

}  // namespace
}  // namespace ringwood

int main(int argc, char** argv) {
  const uint64_t elements = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 16000000;
  const int pairs = argc > 2 ? std::atoi(argv[2]) : 15;
  for (float momentum : {0.0f, 0.9f}) {
    for (double density : {0.001, 0.01}) {
      ringwood::Measure(elements, std::max(pairs, 5), density, momentum);
    }
  }
  return 0;
}

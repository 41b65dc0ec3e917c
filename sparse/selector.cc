#include "sparse/selector.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "sparse/accumulate.h"
#include "sparse/key.h"

namespace ringwood {
namespace {

class ExactSelector : public Selector {
 public:
  uint32_t Floor() const override { return std::max(KeyOf(share_ * FromKey(last_key_)), 1u); }

  void Select(std::span<const float> values, TopK* topk, Entries* picks) override {
    const bool missed = topk->size() < topk->k() && Floor() > 1;
    Tune(topk->offered(), topk->k(), missed);
    if (missed) {  // once more, from the start
      topk->Restart(1);
      Scan(values, topk);
    }
    last_key_ = topk->Take(picks);
  }

 private:
  // Error feedback piles values up just below the threshold, so how many candidates a share of it
  // lets in differs between tensors. Aims at 1.1 to 1.4 k; a miss costs another pass, so it moves
  // back further.
  void Tune(uint64_t candidates, uint64_t k, bool missed) {
    const float gap = 1 - share_;
    if (missed) {
      share_ = std::max(1 - 2 * gap, 0.7f);
    } else if (candidates > k + k * 2 / 5) {
      share_ = 1 - std::max(0.8f * gap, 0.005f);
    } else if (candidates < k + k / 10) {
      share_ = 1 - std::min(1.2f * gap, 0.3f);
    }
  }

  uint32_t last_key_ = 1;  // the k-th key of the last selection
  float share_ = 0.9f;     // of it, at which candidates begin
};

class ThresholdSelector : public Selector {
 public:
  uint32_t Floor() const override { return threshold_; }

  void Select(std::span<const float> values, TopK* topk, Entries* picks) override {
    const double found = static_cast<double>(topk->size()), k = static_cast<double>(topk->k());
    next_ = threshold_;
    if (found >= k) {
      next_ = topk->Take(picks);
    } else if (found < kTooFew * k && threshold_ > 1) {  // values fell far: once more, exactly
      topk->Restart(1);
      Scan(values, topk);
      next_ = topk->Take(picks);
    } else {
      topk->Take(picks);
      const double factor = found < kEnough * k ? 1 - kStep * (1 - found / k) : 1;
      next_ = std::max(KeyOf(static_cast<float>(factor * FromKey(threshold_))), 1u);
    }
  }

  void Commit() override { threshold_ = next_; }

 private:
  static constexpr double kEnough = 0.9;  // of k: as good as k
  static constexpr double kTooFew = 0.5;  // of k: worth another pass
  static constexpr double kStep = 0.25;   // values double in number within some ten per cent
  uint32_t threshold_ = 1;                // of committed steps; the first step is exact
  uint32_t next_ = 1;
};

class GaussianSelector : public Selector {
 public:
  uint32_t Floor() const override { return kFirstNonFiniteKey; }

  void Select(std::span<const float> values, TopK* topk, Entries* picks) override {
    topk->Restart(Threshold(values, topk->k()));
    Scan(values, topk);
    topk->Take(picks);
  }

 private:
  static constexpr int kCorrections = 3;
  static constexpr size_t kBlock = 1 << 16;

  static uint32_t Threshold(std::span<const float> values, uint64_t k) {
    if (values.empty()) return 1;
    double sum = 0, squares = 0;
    Moments(values, &sum, &squares);
    const double n = static_cast<double>(values.size()), wanted = static_cast<double>(k);
    const double mean = sum / n, deviation = std::sqrt(std::max(0.0, squares / n - mean * mean));
    double threshold = std::fabs(mean) + deviation * UpperQuantile(std::min(0.5, wanted / n / 2));
    if (!std::isfinite(threshold)) return 1;  // a step that will not be committed
    double enough = 0;  // the highest threshold that more than k values are known to reach
    for (int i = 0; i <= kCorrections; ++i) {
      const double found = static_cast<double>(CountAbove(values, static_cast<float>(threshold)));
      if (found >= wanted * 2 / 3 && found <= wanted * 4 / 3) break;
      if (found > wanted) enough = std::max(enough, threshold);
      // It may jump back and forth over a flat distribution: rather cut than send next to nothing.
      if (i == kCorrections && enough > 0) threshold = enough;
      if (i < kCorrections) threshold *= found < wanted ? 0.5 : 1.5;
    }
    const uint32_t key = KeyOf(static_cast<float>(threshold));
    return std::clamp(key, 1u, kFirstNonFiniteKey - 1);
  }

  // Lanes of their own, so that the compiler makes vectors of the sums.
  static void Moments(std::span<const float> values, double* sum, double* squares) {
    constexpr size_t kLanes = 8;
    double sums[kLanes] = {}, squared[kLanes] = {};
    size_t i = 0;
    for (; i + kLanes <= values.size(); i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const double value = values[i + lane];
        sums[lane] += value;
        squared[lane] += value * value;
      }
    }
    for (; i < values.size(); ++i) {
      sums[0] += values[i];
      squared[0] += static_cast<double>(values[i]) * values[i];
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
      *sum += sums[lane];
      *squares += squared[lane];
    }
  }

  static uint64_t CountAbove(std::span<const float> values, float threshold) {
    uint64_t count = 0;
    for (size_t begin = 0; begin < values.size(); begin += kBlock) {
      uint32_t here = 0;  // 32 bits: as wide as a value, so whole vectors compare and count
      for (float value : values.subspan(begin, std::min(kBlock, values.size() - begin))) {
        here += std::fabs(value) >= threshold ? 1 : 0;
      }
      count += here;
    }
    return count;
  }
};

class ChunkSelector : public Selector {
 public:
  explicit ChunkSelector(uint64_t chunk_elements) : size_(chunk_elements) {}

  uint32_t Floor() const override { return kFirstNonFiniteKey; }

  void Select(std::span<const float> values, TopK* topk, Entries* picks) override {
    const uint64_t chunks = (values.size() + size_ - 1) / size_, k = topk->k();
    picks->clear();
    Entries kept;
    for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
      const uint64_t begin = chunk * size_;
      const auto part = values.subspan(begin, std::min(size_, values.size() - begin));
      const uint64_t share = k * (chunk + 1) / chunks - k * chunk / chunks;
      if (share == 0) continue;
      TopK best(part.size(), share);
      best.Restart(1);
      Scan(part, &best);
      best.Take(&kept);
      for (size_t j = 0; j < kept.size(); ++j) {
        picks->push_back(static_cast<uint32_t>(begin + kept.index[j]), kept.value[j]);
      }
    }
  }

 private:
  const uint64_t size_;
};

}  // namespace

StatusOr<Method> ParseMethod(const std::string& name) {
  if (name == "exact") return Method::kExact;
  if (name == "threshold") return Method::kThreshold;
  if (name == "gaussian") return Method::kGaussian;
  return Invalid(absl::StrFormat(
      "unknown method of selection \"%s\": use exact, threshold or gaussian", name));
}

std::unique_ptr<Selector> MakeSelector(Method method, uint64_t chunk_elements) {
  if (chunk_elements > 0) {
    RW_CHECK(method == Method::kExact);
    return std::make_unique<ChunkSelector>(chunk_elements);
  }
  if (method == Method::kThreshold) return std::make_unique<ThresholdSelector>();
  if (method == Method::kGaussian) return std::make_unique<GaussianSelector>();
  return std::make_unique<ExactSelector>();
}

double UpperQuantile(double tail) {
  RW_CHECK(tail > 0 && tail <= 0.5);
  double low = 0, high = 40;  // beyond 38 the tail is below the smallest double
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > tail ? low : high) = middle;
  }
  return high;
}

}  // namespace ringwood

#include "plan/model/fit.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/median.h"

namespace ringwood {
namespace {

using Samples = std::vector<std::pair<double, double>>;

constexpr size_t kMostSamples = 2000;  // 2 M slopes: 16 MB, well under a second

Status Check(const Samples& samples) {
  bool different = false;
  for (const auto& [bytes, seconds] : samples) {
    if (!std::isfinite(bytes) || !std::isfinite(seconds) || bytes < 0 || seconds < 0) {
      return Invalid(absl::StrFormat("fit: (%g bytes, %g s) is not a measurement", bytes, seconds));
    }
    different = different || bytes != samples.front().first;
  }
  if (!different) return Invalid("fit: measurements of at least two sizes are needed");
  return OkStatus();
}

AffineFit Clamped(double a, double b, const Samples& samples) {
  AffineFit fit{std::max(a, 0.0), std::max(b, 0.0), 0};
  std::vector<double> errors;
  for (const auto& [bytes, seconds] : samples) {
    errors.push_back(std::abs(seconds - fit.startup_seconds - fit.seconds_per_byte * bytes));
  }
  fit.median_error_seconds = Median(std::move(errors));
  return fit;
}

}  // namespace

StatusOr<AffineFit> FitLeastSquares(const Samples& samples) {
  RW_RETURN_IF_ERROR(Check(samples));
  const double n = static_cast<double>(samples.size());
  double mean_x = 0;
  double mean_y = 0;
  for (const auto& [x, y] : samples) {
    mean_x += x / n;
    mean_y += y / n;
  }
  double xx = 0;
  double xy = 0;
  for (const auto& [x, y] : samples) {
    xx += (x - mean_x) * (x - mean_x);
    xy += (x - mean_x) * (y - mean_y);
  }
  const double b = std::max(0.0, xy / xx);
  return Clamped(mean_y - b * mean_x, b, samples);
}

StatusOr<AffineFit> FitRobust(const Samples& samples) {
  RW_RETURN_IF_ERROR(Check(samples));
  const size_t stride = samples.size() / kMostSamples + 1;
  std::vector<double> slopes;
  for (size_t i = 0; i < samples.size(); i += stride) {
    for (size_t j = i + stride; j < samples.size(); j += stride) {
      const double dx = samples[j].first - samples[i].first;
      if (dx != 0) slopes.push_back((samples[j].second - samples[i].second) / dx);
    }
  }
  if (slopes.empty()) return Invalid("fit: too few different sizes");
  const double b = std::max(0.0, Median(std::move(slopes)));
  std::vector<double> starts;
  for (const auto& [x, y] : samples) starts.push_back(y - b * x);
  return Clamped(Median(std::move(starts)), b, samples);
}

}  // namespace ringwood

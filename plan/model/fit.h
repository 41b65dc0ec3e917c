// From measurements to a and b.
#pragma once

#include <utility>
#include <vector>

#include "base/status.h"
#include "plan/model/cost.h"

namespace ringwood {

struct AffineFit {
  double startup_seconds = 0;
  double seconds_per_byte = 0;
  double median_error_seconds = 0;  // of the samples about the line
  Cost cost() const { return Cost::Affine(startup_seconds, seconds_per_byte); }
};

// Samples are (bytes, seconds); at least two different sizes. Both fits clamp a and b at 0.

// Least squares: predicts sums of such samples, outliers and all (a network under load has them).
StatusOr<AffineFit> FitLeastSquares(const std::vector<std::pair<double, double>>& samples);

// Theil and Sen: median of the slopes between pairs; a third of the samples may be wild. For
// probing an idle network, where an outlier is an accident. Above 2000 samples every n-th is used.
StatusOr<AffineFit> FitRobust(const std::vector<std::pair<double, double>>& samples);

}  // namespace ringwood

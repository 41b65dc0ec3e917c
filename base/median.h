// The middle of a few measurements.
#pragma once

#include <algorithm>
#include <vector>

namespace ringwood {

// The mean of the two middle values of an even number; 0 of none.
inline double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace ringwood

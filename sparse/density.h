// The density of one tensor (or merged group) by LAGS-SGD (Shi et al., ECAI 2020): the most
// information whose communication and selection still hide behind the computation that follows.
//
// With c = n / k, LAGS takes the smallest c in [1, max_ratio] for which
//   backlog + select + latency + (n / c)·per_entry <= computation of the next tensor,
// and max_ratio when none does or when nothing follows. The costs are measured; a pure function, so
// the planner may call it again as they change.
#pragma once

#include <cstdint>
#include <string>

namespace ringwood {

struct DensityInput {
  uint64_t elements = 0;         // n >= 1
  double hiding_seconds = 0;     // backward of what follows; 0: it is the last, nothing hides it
  double backlog_seconds = 0;    // how long the lane is still busy when the gradient is ready
  double select_seconds = 0;     // selection and encoding
  double latency_seconds = 0;    // start-up of one exchange, up and down
  double seconds_per_entry = 0;  // wire time, up and down; > 0
  double max_ratio = 1000;       // c_u >= 1
};

struct DensityChoice {
  uint64_t k = 1;      // 1..n
  double density = 1;  // k / n
  std::string reason;  // for people: "hides behind 3.10 ms: …"
};

DensityChoice ChooseDensity(const DensityInput& input);

}  // namespace ringwood

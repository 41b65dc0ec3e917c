#include "client/hop_probe.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "dense/hop_cost.h"

namespace ringwood {
namespace {

constexpr int kRepeats = 7;  // interleaved; the first is a warm-up

}  // namespace

StatusOr<HopCost> ProbeHops(Collectives* collectives, const Place& place) {
  if (place.world < 2) return place.cost;
  std::vector<std::vector<double>> seconds(kHopSamples.size());
  std::vector<float> data(kHopSamples.back().bytes / sizeof(float));
  int32_t here = 1;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    for (size_t i = 0; i < kHopSamples.size(); ++i) {
      // All are here: what a rank waits for another is no cost.
      RW_RETURN_IF_ERROR(collectives->AllReduce(std::as_writable_bytes(std::span(&here, 1)),
                                                DataType::kInt32, ReduceOp::kMax));
      const TimePoint start = Now();
      RW_RETURN_IF_ERROR(collectives->AllReduce(
          std::as_writable_bytes(std::span(data)).first(kHopSamples[i].bytes), DataType::kFloat32,
          ReduceOp::kSum, kHopSamples[i].strategy));
      if (repeat > 0) seconds[i].push_back(ToSeconds(Now() - start));
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& of_sample : seconds) {
    std::nth_element(of_sample.begin(), of_sample.begin() + of_sample.size() / 2, of_sample.end());
    medians.push_back(of_sample[of_sample.size() / 2]);
  }
  RW_RETURN_IF_ERROR(collectives->AllReduce(std::as_writable_bytes(std::span(medians)),
                                            DataType::kFloat64, ReduceOp::kMax));
  return HopCostOf(medians, place.hosts);
}

}  // namespace ringwood

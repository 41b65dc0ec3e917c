#include "client/connection/hop_probe.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/median.h"
#include "base/units.h"
#include "client/connection/ring_probe.h"
#include "dense/hop_cost.h"

namespace ringwood {
namespace {

// The median of each sample over up to `most` turns after one to warm up, or fewer if they take
// kEnoughSeconds. The same on all ranks.
StatusOr<std::vector<double>> MedianSeconds(Collectives* collectives,
                                            std::span<const HopSample> samples, int most) {
  std::vector<std::vector<double>> seconds(samples.size());
  uint64_t longest = 0;
  for (const HopSample& sample : samples) longest = std::max(longest, sample.bytes);
  std::vector<float> data(longest / sizeof(float));
  const TimePoint begun = Now();
  int turns = most;
  for (int turn = 0; turn <= turns; ++turn) {
    for (size_t i = 0; i < samples.size(); ++i) {
      // All are here: what a rank waits for another is no cost.
      RW_RETURN_IF_ERROR(Barrier(AllReduceOf(collectives)));
      const TimePoint start = Now();
      RW_RETURN_IF_ERROR(
          collectives->AllReduce(std::as_writable_bytes(std::span(data)).first(samples[i].bytes),
                                 DataType::kFloat32, ReduceOp::kSum, samples[i].strategy));
      seconds[i].push_back(ToSeconds(Now() - start));
    }
    if (turn > 0) continue;
    RW_ASSIGN_OR_RETURN(turns, AgreeOnTurns(AllReduceOf(collectives), ToSeconds(Now() - begun),
                                            kEnoughSeconds, most));
  }
  std::vector<double> medians;
  for (std::vector<double>& of_sample : seconds) {
    if (turns > 0) of_sample.erase(of_sample.begin());
    medians.push_back(Median(std::move(of_sample)));
  }
  RW_RETURN_IF_ERROR(collectives->AllReduce(std::as_writable_bytes(std::span(medians)),
                                            DataType::kFloat64, ReduceOp::kMax));
  return medians;
}

// A program that opens session after session tells of its data plane once.
bool IsNews(const std::string& line) {
  static absl::Mutex mutex;
  static auto* last = new std::string;
  absl::MutexLock lock(&mutex);
  return std::exchange(*last, line) != line;
}

}  // namespace

StatusOr<HopCost> ProbeHops(Collectives* collectives, const Place& place) {
  if (place.world < 2) return place.cost;
  RW_ASSIGN_OR_RETURN(const auto seconds, MedianSeconds(collectives, kHopSamples, 6));
  return HopCostOf(seconds, place.hosts);
}

// The time of a shorter ring is subtracted from that of a longer one: it is the start-up, the hops
// and what the NIC's queue takes at once. Where delays are long that is most of both times, and
// varies, so rings are made longer until the difference is as large. All ranks go on with the same
// medians, so they go on alike.
StatusOr<double> ProbeWire(Collectives* collectives, const Place& place) {
  constexpr double kLongEnough = 0.004, kTooLong = 1;
  constexpr uint64_t kLongest = 32 << 20;
  if (place.hosts.size() < 2) return 0.0;
  for (uint64_t bytes = 512 << 10;; bytes *= 4) {
    const HopSample rings[] = {{Strategy::kRing, bytes / 8}, {Strategy::kRing, bytes}};
    RW_ASSIGN_OR_RETURN(const auto seconds, MedianSeconds(collectives, rings, 3));
    const double grown = seconds[1] - seconds[0];
    const bool tells = seconds[1] >= kLongEnough && grown >= seconds[0];
    if (!tells && seconds[1] < kTooLong && bytes < kLongest) continue;
    // The ring goes by hosts: each NIC carries it once.
    const double carried = 2.0 * (place.world - 1) / place.world * (bytes - bytes / 8);
    return grown > 0 ? carried / grown : 0;
  }
}

// No rank is ahead of another by more than a hop, so that a row of all-reduces takes all its hops
// but one. Doubling needs few connections in any world.
StatusOr<double> ProbeHop(Collectives* collectives, const Place& place) {
  constexpr int kTurns = 2, kTogether = 6;
  const int hops = DoublingHopsBetween(place.hosts);
  if (hops == 0) return 0.0;
  double shortest = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn <= kTurns; ++turn) {  // the first warms up
    const TimePoint start = Now();
    for (int i = 0; i < kTogether; ++i) {
      float one = 1;
      RW_RETURN_IF_ERROR(collectives->AllReduce(std::as_writable_bytes(std::span(&one, 1)),
                                                DataType::kFloat32, ReduceOp::kSum,
                                                Strategy::kRecursiveDoubling));
    }
    if (turn > 0) shortest = std::min(shortest, ToSeconds(Now() - start));
  }
  RW_RETURN_IF_ERROR(collectives->AllReduce(std::as_writable_bytes(std::span(&shortest, 1)),
                                            DataType::kFloat64, ReduceOp::kMin));
  return shortest / (kTogether * hops);
}

StatusOr<MeasuredLink> MeasureDataPlane(EpochLink* link) {
  const Place& place = link->place();
  const auto named = [&](const Status& status) {
    return Annotate(status, "measure the data plane (" + link->wire() + ")");
  };
  const StatusOr<double> rate = ProbeWire(link->collectives(), place);
  RW_RETURN_IF_ERROR(named(rate.status()));
  const StatusOr<double> hop = ProbeHop(link->collectives(), place);
  RW_RETURN_IF_ERROR(named(hop.status()));
  const MeasuredLink measured{*rate, *hop};
  std::string line = "data plane: " + link->wire() + ", " + FormatCount(place.world, "rank") +
                     " on " + FormatCount(static_cast<int>(place.hosts.size()), "host");
  const bool tell = place.rank == 0 && IsNews(line);
  if (*rate > 0) line += absl::StrFormat(", %.3g Gbit/s measured", 8e-9 * *rate);
  if (DelayOf(measured) > 0) line += ", a hop takes " + FormatSeconds(*hop);
  if (tell) Log(LogLevel::kInfo, line);
  return measured;
}

StatusOr<MeasuredLink> ShareLink(const MeasuredLink& known, EpochLink* link) {
  std::array<double, 2> both = {known.bytes_per_second, known.hop_seconds};
  RW_RETURN_IF_ERROR(link->collectives()->AllReduce(std::as_writable_bytes(std::span(both)),
                                                    DataType::kFloat64, ReduceOp::kMax));
  return MeasuredLink{both[0], both[1]};
}

}  // namespace ringwood

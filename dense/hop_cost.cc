#include "dense/hop_cost.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/units.h"

namespace ringwood {
namespace {

// A hop or a message takes at least this: less is noise in what was timed.
constexpr double kLeastSeconds = 1e-6;

struct Share {  // of one of kHopSamples: how often it pays what
  double alpha = 0, message = 0, bytes = 0;
};

Share ShareOf(const HopSample& sample, const Hosts& hosts) {
  // The closed forms are linear: what they say of a unit is the factor.
  const auto seconds = [&](const HopCost& cost) {
    return PredictedSeconds(
        sample.strategy,
        {.bytes = sample.bytes, .world = RanksOf(hosts), .cost = cost, .hosts = &hosts});
  };
  const double inside = hosts.size() == 1 ? 1 : 0;
  return {seconds({1, 0, 0, 0}), seconds({0, 0, 1, 0}), seconds({0, 1 - inside, 0, inside})};
}

}  // namespace

HopCost HopCostOf(std::span<const double> seconds, const Hosts& hosts, const HopCost& before) {
  RW_CHECK(seconds.size() == kHopSamples.size());
  std::array<Share, kHopSamples.size()> shares;
  for (size_t i = 0; i < shares.size(); ++i) shares[i] = ShareOf(kHopSamples[i], hosts);
  const auto& [doubling, direct, ring, short_ring, long_ring] = shares;
  HopCost cost = before;
  double& byte = hosts.size() == 1 ? cost.inside_beta : cost.beta;
  if (const double grown = seconds[4] - seconds[3]; grown > 0) {
    byte = grown / (long_ring.bytes - short_ring.bytes);
  }
  // Ring - doubling = hops (alpha + message), ring - direct = 2 (P-2) alpha; bytes taken off.
  const auto over = [&](size_t i) {
    return seconds[2] - seconds[i] - (ring.bytes - shares[i].bytes) * byte;
  };
  const double hop = std::max(over(0) / (ring.alpha - doubling.alpha), 2 * kLeastSeconds);
  double alpha = hop * before.alpha / (before.alpha + before.message);
  // On one host a message's cost is processors that ranks wait for in turn, and what is told apart
  // here would decide between ring and hierarchy, which move the same bytes.
  if (hosts.size() > 1 && ring.alpha > direct.alpha) alpha = over(1) / (ring.alpha - direct.alpha);
  cost.alpha = std::clamp(alpha, kLeastSeconds, hop - kLeastSeconds);
  cost.message = hop - cost.alpha;
  return cost;
}

std::vector<SwitchPoint> SwitchPoints(const HopCost& cost, const Hosts& hosts,
                                      std::string_view wire) {
  constexpr uint64_t kLeast = 4, kMost = 1 << 30;
  const auto choose = [&](uint64_t bytes) {
    return ChooseSchedule({bytes, RanksOf(hosts), cost, wire, &hosts}).strategy;
  };
  std::vector<SwitchPoint> points;
  for (uint64_t bytes = kLeast; bytes < kMost; bytes *= 2) {
    const Strategy here = choose(bytes);
    if (here == choose(2 * bytes)) continue;
    uint64_t low = bytes, high = 2 * bytes;  // here at `low`, another at `high`
    while (high - low > 1) {
      const uint64_t middle = low + (high - low) / 2;
      (choose(middle) == here ? low : high) = middle;
    }
    points.push_back({here, low});
  }
  points.push_back({choose(kMost), UINT64_MAX});
  return points;
}

std::string DescribeSwitches(const HopCost& cost, const Hosts& hosts, std::string_view wire) {
  std::string text;
  for (const SwitchPoint& point : SwitchPoints(cost, hosts, wire)) {
    text += NameOf(point.strategy);
    if (point.bytes == UINT64_MAX) break;
    text += " up to " + FormatBytes(static_cast<double>(point.bytes)) + ", ";
  }
  const bool inside = hosts.size() == 1;
  return text + absl::StrFormat(" beyond (hop %s, message %s, %.3g ns a byte)",
                                FormatSeconds(cost.alpha), FormatSeconds(cost.message),
                                (inside ? cost.inside_beta : cost.beta) * 1e9);
}

}  // namespace ringwood

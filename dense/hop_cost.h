// What a hop costs in this world, from timed all-reduces of known schedules, and where the choice
// of schedules switches then: pure functions.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dense/choose.h"

namespace ringwood {

// What is timed: three short ones distinguish the costs of a hop, of a message and of a call by
// itself; two rings give the cost of a byte.
struct HopSample {
  Strategy strategy;
  uint64_t bytes;
};
constexpr std::array<HopSample, 5> kHopSamples = {{{Strategy::kRecursiveDoubling, 4 << 10},
                                                   {Strategy::kDirect, 4 << 10},
                                                   {Strategy::kRing, 4 << 10},
                                                   {Strategy::kRing, 64 << 10},
                                                   {Strategy::kRing, 512 << 10}}};

// `seconds` of kHopSamples in order, the same on all ranks. What they do not tell is as in `before`
// (the byte inside a host where there are several hosts, and the other way round; with two ranks
// how a hop divides into its two parts).
HopCost HopCostOf(std::span<const double> seconds, const Hosts& hosts, const HopCost& before = {});

struct SwitchPoint {
  Strategy strategy;
  uint64_t bytes;  // the longest tensor that takes it; UINT64_MAX: all longer ones
};
std::vector<SwitchPoint> SwitchPoints(const HopCost& cost, const Hosts& hosts,
                                      std::string_view wire = "fp32");

// "recursive doubling up to 8.0 KiB, direct exchange up to 64.0 KiB, ring beyond (hop 90 us, …)".
std::string DescribeSwitches(const HopCost& cost, const Hosts& hosts,
                             std::string_view wire = "fp32");

}  // namespace ringwood

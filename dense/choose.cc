#include "dense/choose.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_format.h"

namespace ringwood {

const char* NameOf(Strategy strategy) {
  switch (strategy) {
    case Strategy::kRing:
      return "ring";
    case Strategy::kRecursiveDoubling:
      return "recursive doubling";
    case Strategy::kDirect:
      return "direct exchange";
  }
  return "unknown";
}

Choice ChooseSchedule(const ChooseRequest& request) {
  const HopCost& cost = request.cost;
  const double wire = static_cast<double>(request.bytes) * cost.beta;
  const double hop = cost.alpha + cost.message;
  const double stages = 2.0 * (request.world - 1);
  const auto ranks = static_cast<unsigned>(request.world);
  const int hops = std::bit_width(std::bit_floor(ranks)) - 1 + (std::has_single_bit(ranks) ? 0 : 2);
  const double ring = stages * hop + stages / request.world * wire * request.ring_ratio;
  const double doubling = hops * (hop + wire);
  const double direct = 2 * cost.alpha + stages * cost.message + stages / request.world * wire;
  Choice choice{Strategy::kRing, ring, ""};
  if (doubling < choice.seconds) choice = {Strategy::kRecursiveDoubling, doubling, ""};
  if (direct < choice.seconds && request.bytes <= kMaxDirectBytes) {
    choice = {Strategy::kDirect, direct, ""};
  }
  choice.reason = absl::StrFormat(
      "%s for %d bytes and %d ranks: ring %.3g ms, doubling %.3g ms, direct %.3g ms",
      NameOf(choice.strategy), request.bytes, request.world, ring * 1e3, doubling * 1e3,
      direct * 1e3);
  return choice;
}

uint64_t RingMessageBytes(uint64_t bytes, int world) {
  constexpr uint64_t kChunks = 4;
  constexpr uint64_t kLeast = 32 << 10;  // 0.27 ms at 1 Gbit/s
  constexpr uint64_t kMost = 256 << 10;  // four chunks of eight ranks stay in the caches
  const uint64_t even = bytes / (kChunks * static_cast<uint64_t>(world));
  return std::clamp(even, kLeast, kMost) / 64 * 64;
}

}  // namespace ringwood

#include "dense/choose.h"

#include <bit>

#include "absl/strings/str_format.h"

namespace ringwood {

Choice ChooseSchedule(uint64_t bytes, int world, const HopCost& cost) {
  const double wire = static_cast<double>(bytes) * cost.beta;
  const double stages = 2.0 * (world - 1);
  const double ring = stages * cost.alpha + stages / world * wire;
  const auto ranks = static_cast<unsigned>(world);
  const int hops = std::bit_width(std::bit_floor(ranks)) - 1 + (std::has_single_bit(ranks) ? 0 : 2);
  const double doubling = hops * (cost.alpha + wire);
  const bool ring_wins = ring <= doubling;
  Choice choice;
  choice.strategy = ring_wins ? Strategy::kRing : Strategy::kRecursiveDoubling;
  choice.seconds = ring_wins ? ring : doubling;
  choice.reason = absl::StrFormat("%s for %d bytes and %d ranks: ring %.3g ms, doubling %.3g ms",
                                  ring_wins ? "ring" : "recursive doubling", bytes, world,
                                  ring * 1e3, doubling * 1e3);
  return choice;
}

}  // namespace ringwood

// Which schedule an all-reduce takes, decided from what a message costs: a pure function.
#pragma once

#include <cstdint>
#include <string>

namespace ringwood {

// Seconds of one hop and of one byte on the wire. Defaults: 1 Gbit/s Ethernet with 956 Mbit/s of
// payload, and the hop that UCX over TCP takes there with both ends asleep.
struct HopCost {
  double alpha = 1e-4;
  double beta = 8.37e-9;
};

enum class Strategy : uint8_t { kRing, kRecursiveDoubling };

struct Choice {
  Strategy strategy = Strategy::kRing;
  double seconds = 0;  // predicted
  std::string reason;  // "recursive doubling: 0.41 ms, ring 1.43 ms"
};

// Closed forms for S bytes and P ranks, C the largest power of two up to P:
//   ring                2(P-1) alpha + 2(P-1)/P S beta
//   recursive doubling  h alpha + h S beta,  h = log2 C + (P > C ? 2 : 0)
Choice ChooseSchedule(uint64_t bytes, int world, const HopCost& cost);

}  // namespace ringwood

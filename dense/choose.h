// Which schedule an all-reduce takes, decided from what a message costs: a pure function.
#pragma once

#include <cstdint>
#include <string>

namespace ringwood {

// Seconds of one hop, of one byte on the wire, and of the processor for one message at one end.
// Defaults: 1 Gbit/s Ethernet with 956 Mbit/s of payload, and what UCX over TCP takes there with
// both ends asleep.
struct HopCost {
  double alpha = 1e-4;
  double beta = 8.37e-9;
  double message = 2e-5;
};

enum class Strategy : uint8_t { kRing, kRecursiveDoubling, kDirect };
const char* NameOf(Strategy strategy);

struct ChooseRequest {
  uint64_t bytes = 0;
  int world = 1;
  HopCost cost;
  double ring_ratio = 1;  // bytes a ring sends for one of the tensor: 0.5 with bf16
};

struct Choice {
  Strategy strategy = Strategy::kRing;
  double seconds = 0;  // predicted
  std::string reason;  // "direct: 0.41 ms (ring 1.43, doubling 0.62)"
};

// Closed forms for S bytes and P ranks, C the largest power of two up to P, o the cost of a
// message:
//   ring                2(P-1) (alpha + o) + 2(P-1)/P S beta
//   direct exchange     2 alpha + 2(P-1) o + 2(P-1)/P S beta
//   recursive doubling  h (alpha + o) + h S beta,  h = log2 C + (P > C ? 2 : 0)
// Direct exchange is for tensors of at most kMaxDirectBytes: beyond them a ring hides its hops
// behind each other, and one sender a card at a time keeps the switch's queues short.
constexpr uint64_t kMaxDirectBytes = 1 << 20;
Choice ChooseSchedule(const ChooseRequest& request);

}  // namespace ringwood

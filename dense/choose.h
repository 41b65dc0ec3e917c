// Which schedule an all-reduce takes, decided from what a message costs: a pure function.
#pragma once

#include <cstdint>
#include <string>

namespace ringwood {

// Seconds of one hop, of one byte on the wire, and of the processor for one message at one end.
// Defaults: 1 Gbit/s Ethernet with 956 Mbit/s of payload, and what UCX over TCP took between
// network namespaces with both ends asleep (4 KiB, 4 ranks, direct: 0.15 to 0.28 ms).
struct HopCost {
  double alpha = 5e-5;
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
// Direct exchange is for tensors of at most kMaxDirectBytes: everybody sends to one card at once,
// and what a port's queue does not hold is lost and sent again after a timeout (measured in 4 hosts
// at 1 Gbit/s: 256 KiB took 60 to 150 ms in 1 of 50 runs, a ring never did).
constexpr uint64_t kMaxDirectBytes = 64 << 10;
Choice ChooseSchedule(const ChooseRequest& request);

// Bytes of one message of a ring over a tensor of `bytes` (as they travel). Large enough that the
// processor's cost of a message (about 50 us at both ends) stays small beside its time on the wire,
// small enough that several chunks of P messages run at once and hide each other's hops.
uint64_t RingMessageBytes(uint64_t bytes, int world);

}  // namespace ringwood

// Which schedule an all-reduce takes, decided from what a message costs: a pure function.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dense/hosts.h"

namespace ringwood {

// Seconds of one hop, of one byte on the wire, and of the processor for one message at one end; of
// one byte between two ranks of a host, all ranks of a host together.
// Defaults: 1 Gbit/s Ethernet with 956 Mbit/s of payload, and what UCX over TCP took between
// network namespaces with both ends asleep (4 KiB, 4 ranks, direct: 0.15 to 0.28 ms); 4 ranks of
// one host, two cores: 102 MB, 6 S bytes in about 0.3 s (docs/performance.md).
struct HopCost {
  double alpha = 5e-5;
  double beta = 8.37e-9;
  double message = 2e-5;
  double inside_beta = 5e-10;
  bool operator==(const HopCost&) const = default;
};

// The last two are for broadcasts (dense/broadcast.h).
enum class Strategy : uint8_t {
  kRing,
  kRecursiveDoubling,
  kDirect,
  kHierarchy,
  kBinomialTree,
  kChain
};
const char* NameOf(Strategy strategy);

struct ChooseRequest {
  uint64_t bytes = 0;
  int world = 1;
  HopCost cost = {};
  std::string_view wire = "fp32";  // or "bf16", "int8", "int4"
  const Hosts* hosts = nullptr;    // nothing: every rank on a host of its own
};

struct Choice {
  Strategy strategy = Strategy::kRing;
  double seconds = 0;  // predicted
  std::string reason;  // "direct: 0.41 ms (ring 1.43, doubling 0.62)"
};

// Closed forms for S bytes, P ranks on H hosts, at most L on one; C the largest power of two up to
// P, o the cost of a message. c is what the busiest NIC sends, in S. A host moves 2(L-1) S
// inside, doubling h L S; in the chunks of rings and hierarchy the two overlap:
//   ring                2(P-1) (alpha + o)               c = 2(P-1)/P
//   hierarchy           2 H (alpha + o) + 2 H (L-1) o    c = 2(H-1)/H
//   direct exchange     2 alpha + 2(P-1) o               c = 2 l (P-l)/P, largest over hosts of l
//   recursive doubling  h (alpha + o), h = log2 C + (P > C ? 2 : 0)     c: counted, 1 a hop at most
// Direct exchange is not cut into chunks and is for tensors of at most kMaxDirectBytes: everybody
// sends to one NIC at once, and what a port's queue does not hold is lost and sent again after a
// timeout (measured in 4 hosts at 1 Gbit/s: 256 KiB took 60 to 150 ms in 1 of 50 runs, a ring never
// did).
constexpr uint64_t kMaxDirectBytes = 64 << 10;
// Doubling sends the whole in one message, so that nobody adds while it travels (one host of 4
// ranks, 64 MiB: 1.5 s of processor for 10^9 bytes, a ring 0.6).
constexpr uint64_t kMaxDoublingBytes = 1 << 20;
Choice ChooseSchedule(const ChooseRequest& request);
double PredictedSeconds(Strategy strategy, const ChooseRequest& request);

// Bytes of codes, or of a sum of `terms` ranks' codes, for one of the tensor.
double PackedRatio(int code_bits, int terms);

// With codes, bytes that travel for one of the tensor, on average over the messages of a NIC.
double CodedRatio(Strategy strategy, const Hosts& hosts, int code_bits);

// What the busiest NIC sends, in bytes for one of the tensor; a ring follows HostOrder.
double NicShare(Strategy strategy, const Hosts& hosts);

// How many hops of recursive doubling have some message between two hosts.
int DoublingHopsBetween(const Hosts& hosts);

// Bytes of one message of a ring over a tensor of `bytes` (as they travel). Large enough that the
// processor's cost of a message (about 50 us at both ends) stays small beside its time on the wire,
// small enough that several chunks of `slots` messages run at once and hide each other's hops.
uint64_t RingMessageBytes(uint64_t bytes, int slots);

}  // namespace ringwood

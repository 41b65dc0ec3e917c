// What a message costs: the numbers that every decision of the planner rests on.
//
// Seconds and bytes throughout; all functions are pure. Closed forms: alpha = latency of one hop
// (s), beta = seconds per byte, gamma = seconds per byte to add. Sources: the usual
// alpha-beta-gamma model (Thakur, Rabenseifner, Gropp 2005), tabulated in docs/planner.md. A long
// latency is a delay besides: it keeps a message on its way, but not its lane from the next one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "dense/hosts.h"

namespace ringwood {

// Limits of numbers that are given or read; with them all sums and products stay finite.
constexpr double kMostSeconds = 1e6;       // of a time: 11 days
constexpr double kMostSecondsPerByte = 8;  // 1 bit/s

// One link and one adder. Defaults: 1 Gbit/s Ethernet, of which 956 Mbit/s are payload; inside a
// host, where all its ranks share one memory, what two cores reached (dense/choose.h). `delay`:
// further seconds of a hop between hosts, during which the sender goes on (LogGP's L, where alpha
// is its o; Alexandrov et al. 1995).
struct Network {
  double alpha = 1e-4;
  double beta = 8.37e-9;
  double gamma = 2.5e-10;
  double inside_beta = 5e-10;
  double delay = 0;
  bool operator==(const Network&) const = default;
};

// Seconds of one message as a function of its bytes: affine, or a measured table. Never decreasing.
class Cost {
 public:
  Cost() = default;  // everything is free
  static Cost Affine(double startup_seconds, double seconds_per_byte);

  // Points (bytes, seconds), at least two, bytes strictly increasing, seconds not decreasing (after
  // `Monotone`), all finite and not negative. Interpolated linearly; continued with the first slope
  // below, and above with the last one or the whole table's, whichever is steeper (of a table that
  // is level: with its last rate), so that no plateau makes longer messages free.
  static StatusOr<Cost> Table(std::vector<std::pair<double, double>> points);

  // Makes noisy points fit for Table: sorts them and takes the running maximum of the seconds.
  static std::vector<std::pair<double, double>> Monotone(
      std::vector<std::pair<double, double>> points);

  double Seconds(double bytes) const;
  double Startup() const { return Seconds(0); }

  // This cost for messages of `factor` times the bytes, plus `seconds_per_byte` (of the original
  // bytes) for encoding and decoding.
  Cost Scaled(double factor, double seconds_per_byte) const;

  // This cost with so many seconds more at every size.
  Cost Plus(double seconds) const;

  // Half the seconds at every size: one phase of a ring that was measured as a whole.
  Cost Halved() const;

  bool operator==(const Cost&) const = default;

 private:
  double a_ = 0;
  double b_ = 0;
  double scale_ = 1;  // of the bytes that enter the table
  std::vector<std::pair<double, double>> table_;
};

// Closed forms of a ring of M bytes over `workers` (1 worker: free), and of its two halves.
Cost RingCost(const Network& network, int workers);
Cost RingReduceScatterCost(const Network& network, int workers);
Cost RingAllGatherCost(const Network& network, int workers);

// Of an all-reduce by hierarchy (dense/hierarchy.h), H hosts of at most L ranks; with L = 1 the
// ring:
//   2(H-1) alpha, and 2 more inside    max(2(H-1)/H beta, 2(L-1) inside_beta)
//   + ((L-1)/L + (H-1)/(H L)) gamma
// What goes on inside the hosts overlaps with the NICs, chunk by chunk.
Cost HierarchyCost(const Network& network, const Hosts& hosts);

// Of NCCL's ring through all ranks, one host after the other: it leaves hosts as often as the
// hierarchy does, and each NIC carries 2(P-1)/P of the bytes.
Cost NcclRingCost(const Network& network, const Hosts& hosts);

// Seconds from when a lane is through with a message until it is there, over all its hops.
struct Delay {
  double seconds = 0;
  double short_bytes = 0;  // of messages up to here
  double short_seconds = 0;
  double Of(double bytes) const { return bytes <= short_bytes ? short_seconds : seconds; }
  bool operator==(const Delay&) const = default;
};

// Of an all-reduce: a short one takes two hops (direct exchange), a ring 2(H-1).
Delay RingDelay(const Network& network, const Hosts& hosts);

// Sets alpha and delay from the seconds of one hop. Up to 0.5 ms all of it is alpha: in a LAN it is
// the work of both ends. Of a longer hop all but 0.1 ms is delay.
void SetHop(double seconds, Network* network);

// The link behind an all-reduce that took `startup` and `seconds_per_byte`: HierarchyCost the other
// way round, gamma given. On one host the link is its memory.
Network NetworkBehind(double startup, double seconds_per_byte, const Hosts& hosts, double gamma);

// Selecting k of n on the compute device: linear + n*log2(n) part (algorithms of the papers).
struct SelectionCost {
  double fixed_seconds = 0;
  double seconds_per_element = 0;
  double seconds_per_element_log2 = 0;
  double Seconds(double elements) const;
  bool operator==(const SelectionCost&) const = default;
};

// A codec as the planner sees it: wire bytes a raw byte, and seconds a raw byte on this device.
struct CodecCost {
  std::string name;
  double wire_ratio = 1;
  double encode_seconds_per_byte = 0;
  double decode_seconds_per_byte = 0;
  bool operator==(const CodecCost&) const = default;
};

// What a dense group of `workers` costs with "fp32", "bf16", "int8" or "int4" on the wire. bf16:
// half of the bytes, and two more passes over memory of about 10 GB/s, one at each end. Codes: what
// the sums take on a ring of the workers; encoded at 5 GB/s, decoded at 8 (lattice_bench).
CodecCost RingCodec(const std::string& name, int workers);

// What a wire format lets the planner choose from: itself, which is fp32 with "native", or of
// "auto" all that can add up so many workers.
std::vector<CodecCost> RingCodecs(const std::string& wire, int workers);

// The same of groups on devices, over NCCL: fp32, which bf16 is taken for, and codes. The
// slow link carries the sums of each host's workers and then the sum of all
// (dense/cuda/coded_plan.h); on a single host it carries the workers' codes and the sum. Encoding
// and decoding each take as long as copying 4.5 bytes for one of the tensor (device_dense, on an
// H200); that the device copies 1 TB/s is assumed.
CodecCost DeviceCodec(const std::string& name, const Hosts& hosts);
std::vector<CodecCost> DeviceCodecs(const std::string& wire, const Hosts& hosts);

}  // namespace ringwood

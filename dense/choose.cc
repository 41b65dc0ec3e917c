#include "dense/choose.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/units.h"
#include "dense/lattice/codes.h"

namespace ringwood {
namespace {

constexpr double kOverlap = 4;  // kChunksInFlight of dense/collective.h

// Of doubling between hosts: every NIC gets the whole at once, log2 P times. 8 hosts, 1 Gbit/s, 64
// KiB: one in a hundred took 50 ms, by repeated packets; 128 KiB: 2.2 times the ring's time.
constexpr uint64_t kMaxDoubledBetweenHosts = 32 << 10;

int Core(int world) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(world))); }

int DoublingHops(int world) {
  const int core = Core(world);
  return std::bit_width(static_cast<unsigned>(core)) - 1 + (world > core ? 2 : 0);
}

// What the busiest NIC sends in each hop of recursive doubling, in S: exchanges that leave the
// host. Hops come one after the other, and each has its busiest NIC.
std::vector<int> DoublingSends(const Hosts& hosts) {
  const int world = RanksOf(hosts);
  const int core = Core(world);
  std::vector<int> host_of(world);
  for (size_t h = 0; h < hosts.size(); ++h) {
    for (int rank : hosts[h]) host_of[rank] = static_cast<int>(h);
  }
  std::vector<int> sends;
  const auto add_hop = [&](int ranks, auto partner) {
    std::vector<int> sent(hosts.size());
    for (int rank = 0; rank < ranks; ++rank) {
      sent[host_of[rank]] += host_of[rank] != host_of[partner(rank)];
    }
    sends.push_back(*std::max_element(sent.begin(), sent.end()));
  };
  for (int distance = 1; distance < core; distance *= 2) {
    add_hop(core, [=](int rank) { return rank ^ distance; });
  }
  for (int once = 0; core < world && once < 2; ++once) {
    add_hop(world - core, [=](int rank) { return rank + core; });
  }
  return sends;
}

}  // namespace

int DoublingHopsBetween(const Hosts& hosts) {
  const std::vector<int> sends = DoublingSends(hosts);
  return static_cast<int>(std::count_if(sends.begin(), sends.end(), [](int n) { return n > 0; }));
}

const char* NameOf(Strategy strategy) {
  switch (strategy) {
    case Strategy::kRing:
      return "ring";
    case Strategy::kRecursiveDoubling:
      return "recursive doubling";
    case Strategy::kDirect:
      return "direct exchange";
    case Strategy::kHierarchy:
      return "hierarchy";
    case Strategy::kBinomialTree:
      return "binomial tree";
    case Strategy::kChain:
      return "chain";
  }
  return "unknown";
}

double NicShare(Strategy strategy, const Hosts& hosts) {
  const double world = RanksOf(hosts);
  const double count = static_cast<double>(hosts.size());
  if (hosts.size() <= 1) return 0;
  if (strategy == Strategy::kRing) return 2 * (world - 1) / world;
  if (strategy == Strategy::kHierarchy) return 2 * (count - 1) / count;
  if (strategy == Strategy::kRecursiveDoubling) {
    const std::vector<int> sends = DoublingSends(hosts);
    return std::accumulate(sends.begin(), sends.end(), 0);
  }
  double busiest = 0;
  for (const std::vector<int>& host : hosts) {
    const double here = static_cast<double>(host.size());
    busiest = std::max(busiest, 2 * here * (world - here) / world);
  }
  return busiest;
}

double PackedRatio(int code_bits, int terms) {
  const int width = LatticeWidth(LatticeLevels(code_bits), terms);
  return static_cast<double>(PackedBytes(1, width)) /
         static_cast<double>(kLatticeBlock * sizeof(float));
}

double CodedRatio(Strategy strategy, const Hosts& hosts, int code_bits) {
  const int world = RanksOf(hosts);
  const auto bytes = [&](int terms) { return PackedRatio(code_bits, terms); };
  if (strategy == Strategy::kDirect) return (bytes(1) + bytes(world)) / 2;
  double sum = 0;
  int hops = 0;
  if (strategy == Strategy::kRecursiveDoubling) {
    for (int terms = 1; terms < world; terms *= 2, ++hops) sum += bytes(terms);
    return hops == 0 ? 1 : sum / hops;
  }
  // What leaves a host grows by its ranks from hop to hop, and comes back as the whole sum.
  const int step = strategy == Strategy::kRing ? 1 : LargestHost(hosts);
  for (int terms = step; terms < world; terms += step, ++hops) sum += bytes(terms);
  return hops == 0 ? (bytes(1) + bytes(world)) / 2 : (sum / hops + bytes(world)) / 2;
}

namespace {

// Of the tensor where every schedule sends codes; bf16 is for rings only.
double TravellingBytes(Strategy strategy, const Hosts& hosts, const ChooseRequest& request) {
  const int code_bits = CodeBits(request.wire);
  const double ratio =
      code_bits == 0 || request.world == 1 ? 1 : CodedRatio(strategy, hosts, code_bits);
  return static_cast<double>(request.bytes) * ratio;
}

double SecondsOn(const Hosts& hosts, Strategy strategy, const ChooseRequest& request) {
  const HopCost& cost = request.cost;
  const double hop = cost.alpha + cost.message;
  const double around = 2.0 * (request.world - 1);
  const double count = static_cast<double>(hosts.size());
  const double largest = LargestHost(hosts);
  const double bytes = TravellingBytes(strategy, hosts, request);
  const double inside = 2 * (largest - 1) * bytes * cost.inside_beta;
  const double doubled = largest > 1 ? largest * bytes * cost.inside_beta : 0;  // in each hop
  const double wire = NicShare(strategy, hosts) * bytes * cost.beta;
  const auto overlapped = [](double outside, double within) {
    return std::max(outside, within) + std::min(outside, within) / kOverlap;
  };
  // A ring rounds every hop, a hierarchy what goes to other hosts and then comes from its agents.
  const double ring_ratio = request.wire == "bf16" ? 0.5 : 1;
  const double ratio = hosts.size() > 1 ? ring_ratio : 1;
  switch (strategy) {
    case Strategy::kRing:
      return around * hop + overlapped(wire, inside) * ring_ratio;
    case Strategy::kRecursiveDoubling:
      return DoublingHops(request.world) * (hop + doubled) + wire;
    case Strategy::kDirect:
      return 2 * cost.alpha + around * cost.message + wire + inside;
    case Strategy::kHierarchy:
      return 2 * count * (hop + (largest - 1) * cost.message) +
             overlapped(wire * ratio, inside * (1 + ratio) / 2);
    case Strategy::kBinomialTree:
    case Strategy::kChain:
      break;
  }
  RW_CHECK(false);  // a broadcast is no all-reduce
  return 0;
}

Hosts HostsOf(const ChooseRequest& request) {
  return request.hosts != nullptr ? *request.hosts : OneEach(request.world);
}

}  // namespace

double PredictedSeconds(Strategy strategy, const ChooseRequest& request) {
  return SecondsOn(HostsOf(request), strategy, request);
}

Choice ChooseSchedule(const ChooseRequest& request) {
  const Hosts hosts = HostsOf(request);
  const uint64_t most_doubled = hosts.size() > 1 ? kMaxDoubledBetweenHosts : kMaxDoublingBytes;
  constexpr Strategy kWays[] = {Strategy::kRing, Strategy::kRecursiveDoubling, Strategy::kDirect,
                                Strategy::kHierarchy};
  Choice choice{Strategy::kRing, SecondsOn(hosts, Strategy::kRing, request), ""};
  std::string all;
  for (const Strategy way : kWays) {
    const double seconds = SecondsOn(hosts, way, request);
    all +=
        absl::StrFormat("%s %s %s", all.empty() ? ":" : ",", NameOf(way), FormatSeconds(seconds));
    const double bytes = TravellingBytes(way, hosts, request);
    const bool too_long =
        (way == Strategy::kDirect && bytes > kMaxDirectBytes) ||
        (way == Strategy::kRecursiveDoubling && bytes > static_cast<double>(most_doubled));
    const bool is_ring = way == Strategy::kHierarchy && LargestHost(hosts) == 1;
    if (!too_long && !is_ring && seconds < choice.seconds) choice = {way, seconds, ""};
  }
  choice.reason =
      absl::StrFormat("%s for %d bytes and %d ranks on %d hosts", NameOf(choice.strategy),
                      request.bytes, request.world, hosts.size()) +
      all;
  return choice;
}

uint64_t RingMessageBytes(uint64_t bytes, int slots) {
  constexpr uint64_t kChunks = 4;
  constexpr uint64_t kLeast = 32 << 10;  // 0.27 ms at 1 Gbit/s
  constexpr uint64_t kMost = 256 << 10;  // four chunks of eight ranks stay in the caches
  const uint64_t even = bytes / (kChunks * static_cast<uint64_t>(slots));
  return std::clamp(even, kLeast, kMost) / 64 * 64;
}

}  // namespace ringwood

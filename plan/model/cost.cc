#include "plan/model/cost.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "dense/choose.h"
#include "dense/lattice/codes.h"

namespace ringwood {

Cost Cost::Affine(double startup_seconds, double seconds_per_byte) {
  RW_CHECK(startup_seconds >= 0 && seconds_per_byte >= 0);
  Cost cost;
  cost.a_ = startup_seconds;
  cost.b_ = seconds_per_byte;
  return cost;
}

StatusOr<Cost> Cost::Table(std::vector<std::pair<double, double>> points) {
  if (points.size() < 2) return Invalid("cost table: it has fewer than two sizes; measure more");
  for (size_t i = 0; i < points.size(); ++i) {
    const auto& [bytes, seconds] = points[i];
    if (!std::isfinite(bytes) || !std::isfinite(seconds) || bytes < 0 || seconds < 0) {
      return Invalid(absl::StrFormat("cost table, point %d: %g bytes, %g s is not a cost", i + 1,
                                     bytes, seconds));
    }
    if (i > 0 && (bytes <= points[i - 1].first || seconds < points[i - 1].second)) {
      return Invalid(absl::StrFormat(
          "cost table, point %d: bytes must grow and seconds must not fall; smooth it first",
          i + 1));
    }
  }
  Cost cost;
  cost.table_ = std::move(points);
  return cost;
}

std::vector<std::pair<double, double>> Cost::Monotone(
    std::vector<std::pair<double, double>> points) {
  std::sort(points.begin(), points.end());
  for (size_t i = 1; i < points.size(); ++i) {
    points[i].second = std::max(points[i].second, points[i - 1].second);
  }
  return points;
}

double Cost::Seconds(double bytes) const {
  const double affine = a_ + b_ * bytes;
  if (table_.empty()) return affine;
  const double x = bytes * scale_;
  auto right =
      std::upper_bound(table_.begin(), table_.end(), x,
                       [](double value, const auto& point) { return value < point.first; });
  const auto slope = [](const auto& from, const auto& to) {
    return (to.second - from.second) / (to.first - from.first);
  };
  if (right == table_.end()) {
    const auto& last = table_.back();
    double beyond = std::max(slope(*(right - 2), last), slope(table_.front(), last));
    if (beyond == 0) beyond = last.second / last.first;
    return affine + last.second + beyond * (x - last.first);
  }
  right = std::max(right, table_.begin() + 1);
  const auto left = right - 1;
  return affine + std::max(0.0, left->second + slope(*left, *right) * (x - left->first));
}

Cost Cost::Scaled(double factor, double seconds_per_byte) const {
  Cost cost = *this;
  cost.b_ = b_ * factor + seconds_per_byte;
  cost.scale_ = scale_ * factor;
  return cost;
}

Cost Cost::Plus(double seconds) const {
  Cost cost = *this;
  cost.a_ += seconds;
  return cost;
}

Cost Cost::Halved() const {
  Cost cost = *this;
  cost.a_ /= 2;
  cost.b_ /= 2;
  for (auto& [bytes, seconds] : cost.table_) seconds /= 2;
  return cost;
}

Cost RingCost(const Network& network, int workers) {
  if (workers <= 1) return Cost();
  const double others = workers - 1;
  return Cost::Affine(2 * others * network.alpha,
                      others / workers * (2 * network.beta + network.gamma));
}

Cost RingReduceScatterCost(const Network& network, int workers) {
  if (workers <= 1) return Cost();
  const double others = workers - 1;
  return Cost::Affine(others * network.alpha, others / workers * (network.beta + network.gamma));
}

Cost RingAllGatherCost(const Network& network, int workers) {
  if (workers <= 1) return Cost();
  const double others = workers - 1;
  return Cost::Affine(others * network.alpha, others / workers * network.beta);
}

namespace {

// How often an all-reduce pays for each of the network's numbers.
struct Shares {
  double hops = 0;    // alpha
  double nic = 0;     // beta, of the tensor's bytes
  double inside = 0;  // inside_beta
  double added = 0;   // gamma
};

Shares SharesOf(const Hosts& hosts) {
  const double count = static_cast<double>(hosts.size());
  const double largest = LargestHost(hosts);
  return {2 * (count - 1) + (largest > 1 ? 2 : 0), 2 * (count - 1) / count, 2 * (largest - 1),
          (largest - 1) / largest + (count - 1) / (count * largest)};
}

}  // namespace

Cost HierarchyCost(const Network& network, const Hosts& hosts) {
  const Shares shares = SharesOf(hosts);
  return Cost::Affine(shares.hops * network.alpha,
                      std::max(shares.nic * network.beta, shares.inside * network.inside_beta) +
                          shares.added * network.gamma);
}

Cost NcclRingCost(const Network& network, const Hosts& hosts) {
  const double ranks = RanksOf(hosts);
  const double beta = std::max(network.beta, network.inside_beta);
  return Cost::Affine(SharesOf(hosts).hops * network.alpha,
                      (ranks - 1) / ranks * (2 * beta + network.gamma));
}

Delay RingDelay(const Network& network, const Hosts& hosts) {
  if (hosts.size() <= 1 || network.delay == 0) return {};
  const double hops = 2 * (static_cast<double>(hosts.size()) - 1);
  return {.seconds = hops * network.delay,
          .short_bytes = kMaxDirectBytes,
          .short_seconds = std::min(2.0, hops) * network.delay};
}

void SetHop(double seconds, Network* network) {
  constexpr double kLongHop = 5e-4;
  network->alpha = seconds > kLongHop ? Network().alpha : seconds;
  network->delay = seconds - network->alpha;
}

Network NetworkBehind(double startup, double seconds_per_byte, const Hosts& hosts, double gamma) {
  const Shares shares = SharesOf(hosts);
  Network network;
  network.alpha = startup / std::max(1.0, shares.hops);
  network.gamma = gamma;
  const double bytes = std::max(0.0, seconds_per_byte - shares.added * gamma);
  if (hosts.size() > 1) {
    network.beta = bytes / shares.nic;
    network.inside_beta = std::min(network.inside_beta, network.beta);
  } else if (shares.inside > 0) {
    network.inside_beta = network.beta = bytes / shares.inside;
  }
  return network;
}

double SelectionCost::Seconds(double elements) const {
  if (elements <= 0) return 0;
  return fixed_seconds + seconds_per_element * elements +
         seconds_per_element_log2 * elements * std::log2(std::max(elements, 2.0));
}

CodecCost RingCodec(const std::string& name, int workers) {
  if (name == "bf16") return {name, 0.5, 1e-10, 1e-10};
  if (const int bits = CodeBits(name); bits != 0 && workers > 1) {
    return {name, CodedRatio(Strategy::kRing, OneEach(workers), bits), 2e-10, 1.25e-10};
  }
  return {name, 1, 0, 0};
}

namespace {

bool AddsUp(const std::string& name, int workers) {
  const int bits = CodeBits(name);
  return bits == 0 || workers <= MostLatticeTerms(LatticeLevels(bits));
}

}  // namespace

std::vector<CodecCost> RingCodecs(const std::string& wire, int workers) {
  if (wire != "auto") return {RingCodec(wire == "native" ? "fp32" : wire, workers)};
  std::vector<CodecCost> allowed;
  for (const char* name : {"fp32", "bf16", "int8", "int4"}) {
    if (AddsUp(name, workers)) allowed.push_back(RingCodec(name, workers));
  }
  return allowed;
}

CodecCost DeviceCodec(const std::string& name, const Hosts& hosts) {
  const int bits = CodeBits(name);
  const int workers = RanksOf(hosts);
  if (bits == 0 || workers < 2) return {"fp32", 1, 0, 0};
  const int summands = hosts.size() > 1 ? LargestHost(hosts) : 1;
  const double ratio = (PackedRatio(bits, summands) + PackedRatio(bits, workers)) / 2;
  return {name, ratio, 4.5e-12, 4.5e-12};
}

std::vector<CodecCost> DeviceCodecs(const std::string& wire, const Hosts& hosts) {
  if (wire != "auto") return {DeviceCodec(wire, hosts)};
  std::vector<CodecCost> allowed;
  for (const char* name : {"fp32", "int8", "int4"}) {
    if (AddsUp(name, RanksOf(hosts))) allowed.push_back(DeviceCodec(name, hosts));
  }
  return allowed;
}

}  // namespace ringwood

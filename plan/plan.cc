#include "plan/plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "base/units.h"

namespace ringwood {
namespace {

uint64_t HashOf(const std::string& text) {
  return Digest(std::as_bytes(std::span(text.data(), text.size())));
}

uint64_t HashOf(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

uint64_t HashOf(const Group& group) {
  uint64_t hash = group.tensors.size();
  for (const uint32_t tensor : group.tensors) hash = Combine(hash, tensor);
  hash = Combine(hash, HashOf(group.route));
  hash = Combine(hash, HashOf(group.density));
  hash = Combine(hash, group.k);
  hash = Combine(hash, HashOf(group.codec));
  hash = Combine(hash, HashOf(group.merge));
  return group.keep == 1 ? hash : Combine(hash, HashOf(group.keep));
}

std::string NameOf(const Group& group, const std::vector<TensorSpec>& tensors) {
  const auto name = [&](uint32_t tensor) {
    return tensor < tensors.size() ? tensors[tensor].name : absl::StrCat("tensor ", tensor);
  };
  if (group.tensors.empty()) return "(empty)";
  if (group.tensors.size() == 1) return name(group.tensors[0]);
  return absl::StrCat(name(group.tensors.front()), " .. ", name(group.tensors.back()), " (",
                      group.tensors.size(), ")");
}

}  // namespace

double DenseBytes(const std::vector<TensorSpec>& table, const std::vector<uint32_t>& indices) {
  double bytes = 0;
  for (const uint32_t t : indices) {
    bytes += table[t].element_bytes * static_cast<double>(table[t].elements);
  }
  return bytes;
}

uint64_t EntriesOf(double density, uint64_t elements) {
  if (elements == 0) return 0;
  if (!(density < 1)) return elements;
  const double entries = std::round(density * static_cast<double>(elements));
  if (!(entries >= 1)) return 1;
  return std::min(elements, static_cast<uint64_t>(entries));
}

uint64_t Hash(const Plan& plan) {
  uint64_t hash = Combine(plan.groups.size(), plan.fanout);
  for (const Group& group : plan.groups) hash = Combine(hash, HashOf(group));
  return hash;
}

std::string ToString(const Plan& plan, const std::vector<TensorSpec>& tensors) {
  std::string text =
      absl::StrFormat("plan %016x by %s: %s, fan-out %d, predicted %s a step\n", Hash(plan),
                      plan.planner, FormatCount(static_cast<int>(plan.groups.size()), "group"),
                      plan.fanout, FormatSeconds(plan.predicted_seconds));
  absl::StrAppendFormat(&text, "%5s  %-5s %-13s %10s %9s %10s %10s  %s\n", "group", "route",
                        "codec", "elements", "density", "start", "end", "tensors; reason");
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    const Group& group = plan.groups[i];
    uint64_t elements = 0;
    for (const uint32_t t : group.tensors) elements += t < tensors.size() ? tensors[t].elements : 0;
    absl::StrAppendFormat(&text, "%5d  %-5s %-13s %10d %9.4g %10s %10s  %s; %s\n", i, group.route,
                          group.codec, elements, group.density, FormatSeconds(group.start_seconds),
                          FormatSeconds(group.end_seconds), NameOf(group, tensors), group.reason);
  }
  return text;
}

}  // namespace ringwood

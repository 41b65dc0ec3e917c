#include "server/status/stragglers.h"

#include <vector>

#include "absl/strings/str_format.h"
#include "base/median.h"
#include "base/units.h"

namespace ringwood {
namespace {

struct NamedPhase {
  const char* name;
  double RecentStep::*seconds;
};
constexpr NamedPhase kPhases[] = {{"loading its data", &RecentStep::loading},
                                  {"forward", &RecentStep::forward},
                                  {"backward", &RecentStep::backward}};

double MedianOfOthers(const std::map<uint32_t, RecentStep>& ranks, uint32_t slot,
                      double RecentStep::*seconds) {
  std::vector<double> others;
  for (const auto& [other, recent] : ranks) {
    if (other != slot) others.push_back(recent.*seconds);
  }
  return Median(std::move(others));
}

// The phase in which it takes longer than the others by most.
std::string WhatTakesLonger(const std::map<uint32_t, RecentStep>& ranks, uint32_t slot) {
  const RecentStep& slow = ranks.at(slot);
  const NamedPhase* worst = &kPhases[0];
  double most = 0;
  for (const NamedPhase& phase : kPhases) {
    const double more = slow.*phase.seconds - MedianOfOthers(ranks, slot, phase.seconds);
    if (more <= most) continue;
    most = more;
    worst = &phase;
  }
  if (most <= 0) return "no phase of it takes longer than elsewhere: it begins its steps late";
  return absl::StrFormat("%s takes it %s against %s", worst->name,
                         FormatSeconds(slow.*worst->seconds),
                         FormatSeconds(MedianOfOthers(ranks, slot, worst->seconds)));
}

}  // namespace

std::map<uint32_t, std::string> WhyStraggle(const std::map<uint32_t, RecentStep>& ranks) {
  std::map<uint32_t, std::string> why;
  if (ranks.size() < 2) return why;
  for (const auto& [slot, recent] : ranks) {
    if (recent.step <= 0 || recent.late <= kStragglesFrom * recent.step) continue;
    why[slot] = absl::StrFormat("its last gradient comes %s after the first rank's; %s",
                                FormatSeconds(recent.late), WhatTakesLonger(ranks, slot));
  }
  return why;
}

}  // namespace ringwood

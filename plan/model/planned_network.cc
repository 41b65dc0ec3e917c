#include "plan/model/planned_network.h"

#include <cmath>
#include <initializer_list>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/units.h"

namespace ringwood {
namespace {

constexpr double kLeastGigabits = 1e-9;  // kMostSecondsPerByte
constexpr double kMostGigabits = 1e9;

// The default network has 1 Gbit/s.
double GigabitsOf(double bytes_per_second) { return Network().beta * bytes_per_second; }

// The nearest of 1, 2.5, 5, 10, …: the one whose ratio to `value` is closest to 1.
double Nearest(double value) {
  const double decade = std::pow(10, std::floor(std::log10(value)));
  double nearest = decade;
  for (const double step : {2.5, 5.0, 10.0}) {
    if (value * value > nearest * step * decade) nearest = step * decade;
  }
  return nearest;
}

Network Of(double gigabits, double delay) {
  Network network;
  network.beta /= gigabits;
  network.delay = delay;
  return network;
}

struct Unit {
  const char* name;
  double value;
};

// "20ms" with the unit {"ms", 1e-3} → 0.02; 0 where the text is no number above 0 with a unit.
double Measure(absl::string_view text, std::initializer_list<Unit> units) {
  double number = 0;
  for (const Unit& unit : units) {
    absl::string_view digits = text;
    if (!absl::ConsumeSuffix(&digits, unit.name)) continue;
    const bool read = absl::SimpleAtod(digits, &number);
    return read && std::isfinite(number) && number > 0 ? number * unit.value : 0;
  }
  return 0;
}

}  // namespace

double DelayOf(const MeasuredLink& link) {
  Network network;
  SetHop(link.hop_seconds, &network);
  return network.delay;
}

Network PlannedNetwork(const MeasuredLink& link) {
  const double gigabits =
      link.bytes_per_second > 0 ? Nearest(GigabitsOf(link.bytes_per_second)) : 1;
  const double delay = DelayOf(link);
  return Of(gigabits, delay > 0 ? Nearest(delay) : 0);
}

StatusOr<Network> ParsePlannedNetwork(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  const double gigabits = Measure(parts[0], {{"mbit", 1e-3}, {"gbit", 1}});
  const double delay =
      parts.size() > 1 ? Measure(parts[1], {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}) : 0;
  if (parts.size() > 2 || gigabits == 0 || (parts.size() == 2 && delay == 0)) {
    return Invalid(
        "a network to plan for is measured, or a rate such as 100mbit or 10gbit, with "
        "the delay of a hop 100mbit,20ms, not '" +
        text + "'");
  }
  if (gigabits < kLeastGigabits || gigabits > kMostGigabits || delay > kMostSeconds) {
    return Invalid(absl::StrFormat(
        "a network to plan for has a rate from 1 bit/s to %g gbit and a delay of at most %g s, "
        "not '%s'",
        kMostGigabits, kMostSeconds, text));
  }
  return Of(gigabits, delay);
}

std::string Describe(const Network& network) {
  std::string text = absl::StrFormat("%.3g Gbit/s", GigabitsOf(1 / network.beta));
  if (network.delay > 0)
    text += ", " + FormatSeconds(network.delay) + " on the way to another host";
  return text;
}

}  // namespace ringwood

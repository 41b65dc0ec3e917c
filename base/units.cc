#include "base/units.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr int kLongestDays = 10'000;  // of a time: 27 years; what is longer was mistyped

}  // namespace

StatusOr<uint64_t> ParseBytes(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string unit(end);
  if (end == text.c_str() || !std::isfinite(number) || number < 0) {
    return Invalid("\"" + text + "\" is not a size; write it like 4M or 1.5G");
  }
  while (!unit.empty() && (unit.back() == 'B' || unit.back() == 'b' || unit.back() == 'i')) {
    unit.pop_back();
  }
  const std::string units = "kmgt";
  double factor = 1;
  if (!unit.empty()) {
    const size_t power = units.find(static_cast<char>(unit[0] | 0x20));
    if (unit.size() != 1 || power == std::string::npos) {
      return Invalid("\"" + text + "\" has an unknown unit; use k, M, G or T");
    }
    factor = std::pow(1024.0, static_cast<double>(power + 1));
  }
  if (number * factor > 0x1p62) return Invalid("\"" + text + "\" is too large");
  return static_cast<uint64_t>(number * factor);
}

StatusOr<double> ParseDuration(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit(end);
  const double factor = unit == "s"   ? 1
                        : unit == "m" ? 60
                        : unit == "h" ? 3600
                        : unit == "d" ? 86'400
                                      : 0;
  const double seconds = number * factor;
  if (end == text.c_str() || !(seconds > 0)) {
    return Invalid("\"" + text + "\" is not a time; write it like 90s, 30m, 8h or 7d");
  }
  if (seconds > kLongestDays * 86'400) {
    return Invalid(absl::StrFormat("\"%s\" is too long: at most %dd", text, kLongestDays));
  }
  return seconds;
}

std::string FormatBytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) bytes /= 1024, ++unit;
  return unit == 0        ? absl::StrFormat("%.0f B", bytes)
         : bytes >= 999.5 ? absl::StrFormat("%.0f %s", bytes, units[unit])
                          : absl::StrFormat("%.3g %s", bytes, units[unit]);
}

std::string FormatSeconds(double seconds) {
  // Three digits: from 999.5 on a number would round to 1e+03, so the next unit has it.
  const double size = std::fabs(seconds);
  if (size >= 99.95) return absl::StrFormat("%.0f s", seconds);
  if (size >= 0.9995 || seconds == 0) return absl::StrFormat("%.3g s", seconds);
  if (size >= 0.9995e-3) return absl::StrFormat("%.3g ms", seconds * 1e3);
  return absl::StrFormat("%.3g us", seconds * 1e6);
}

std::string FormatCount(int number, const std::string& noun) {
  return absl::StrFormat("%d %s%s", number, noun, number == 1 ? "" : "s");
}

}  // namespace ringwood
